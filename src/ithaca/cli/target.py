"""Which log a command works on: the only place of the command line that opens one.

A log is a directory (`--path`) or a cluster (`--bootstrap`). Each may come from the environment; what is
written on the command line wins over that.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ithaca.cli.options import CompressionName, DurabilityName

if TYPE_CHECKING:
    from ithaca.model.interface import Log
    from ithaca.model.view import Address


@dataclass(frozen=True, slots=True)
class Embedded:
    """The log in a directory."""

    path: Path

    def reader(self) -> "Log":
        """For reading; `NoSuchLog` when there is none."""
        import ithaca

        return ithaca.open(self.path, mode="r")

    def writer(
        self, *, create: bool, durability: DurabilityName | None = None, compression: CompressionName | None = None
    ) -> "Log":
        """For writing; made if missing when `create`, else `NoSuchLog`."""
        import ithaca

        if not create:  # a mistyped path must not leave an empty log behind
            self.reader().close()
        return ithaca.open(self.path, durability=durability, compression=compression)


@dataclass(frozen=True, slots=True)
class Cluster:
    """The log of a cluster, by addresses of its orderers."""

    bootstrap: tuple[str, ...]
    timeout_s: float | None = None

    def reader(self) -> "Log":
        return self._connect()

    def writer(
        self, *, create: bool, durability: DurabilityName | None = None, compression: CompressionName | None = None
    ) -> "Log":
        """A cluster exists already, and is not made by a command that writes to it."""
        if durability is not None:
            raise typer.BadParameter("a cluster has its own durability; leave --durability out")
        return self._connect() if compression is None else self._connect(compression=compression)

    def _connect(self, **options: Any) -> "Log":
        import ithaca

        if self.timeout_s is not None:
            options["timeout"] = self.timeout_s
        log: Log = ithaca.connect(self.bootstrap, **options)
        return log


def chosen_target(
    context: typer.Context, path: Path | None, bootstrap: str | None, timeout_s: float | None = None
) -> Embedded | Cluster:
    """The one log that the options name; naming none, or two, is wrong usage. The time-out is for clusters."""
    if path is not None and bootstrap is not None and is_written(context, "path") != is_written(context, "bootstrap"):
        path, bootstrap = (path, None) if is_written(context, "path") else (None, bootstrap)
    if path is not None and bootstrap is not None:
        raise typer.BadParameter("--path names an embedded log and --bootstrap a cluster; give one of them")
    if path is not None:
        _refuse_cluster(path)
        return Embedded(path)
    if bootstrap is not None:
        return Cluster(tuple(map(str, parse_bootstrap(bootstrap))), timeout_s)
    raise typer.BadParameter(
        "which log? Give --path DIR (or ITHACA_PATH) for an embedded log, "
        "or --bootstrap HOST:PORT (or ITHACA_BOOTSTRAP) for a cluster"
    )


def _refuse_cluster(path: Path) -> None:
    """The directory of a cluster is often taken for that of a log."""
    if not (path / "cluster.toml").exists():
        return
    from ithaca.cluster.layout import bootstrap_of
    from ithaca.cluster.local import cluster_file

    bootstrap = bootstrap_of(cluster_file(path))
    raise typer.BadParameter(f"{path} is the directory of a cluster: use -b {bootstrap}", param_hint="'--path'")


def is_written(context: typer.Context, name: str) -> bool:
    """Whether an option stands on the command line, rather than in the environment or nowhere."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def parse_bootstrap(text: str) -> "list[Address]":
    """The addresses of `HOST:PORT,HOST:PORT`; a wrong one is wrong usage."""
    from ithaca.model.addresses import parse_address
    from ithaca.model.errors import InvalidInput

    try:
        return [parse_address(each.strip()) for each in text.split(",")]
    except InvalidInput as error:
        raise typer.BadParameter(str(error), param_hint="'--bootstrap'") from None
