"""What several commands share: option types, sizes with units, examples in help texts."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import typer

from ithaca.model import units
from ithaca.model.engine import DEFAULT_ENGINE, EngineName
from ithaca.model.errors import InvalidInput
from ithaca.model.paths import local_path

Value = TypeVar("Value")


def parse_size(text: str | int) -> int:
    """A size on the command line."""
    return _parsed(units.parse_size, str(text))


def parse_duration(text: str | float) -> float:
    """A duration on the command line, in seconds; a number without a unit is one of seconds."""
    return _parsed(units.parse_duration, str(text))


def parse_path(text: str | Path) -> Path:
    """A path on the command line or in the environment, where no shell may have filled in the home directory."""
    return Path(_parsed(local_path, text))


def _parsed(parse: Callable[..., Value], text: object) -> Value:
    try:
        return parse(text)
    except InvalidInput as error:
        raise typer.BadParameter(str(error)) from None


def _path_option(what: str) -> Any:
    return typer.Option("--path", "-p", parser=parse_path, envvar="ITHACA_PATH", metavar="DIR", help=what)


KeptPathOption = Annotated[
    str,
    typer.Option(
        "--path", "-p", envvar="ITHACA_PATH", metavar="DIR|URL", help="The directory of the log, or a backup of one."
    ),
]
EmbeddedPathOption = Annotated[Path, _path_option("The directory of the log; embedded logs only.")]
PathOption = Annotated[Path | None, _path_option("The directory of an embedded log.")]
BootstrapOption = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        "-b",
        envvar="ITHACA_BOOTSTRAP",
        metavar="HOST:PORT,...",
        help="A cluster, by one or more of its orderers.",
    ),
]
CONNECT_PATIENCE_S = 30.0
"""How long commands wait for a cluster, unless they are told."""
TimeoutOption = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        parser=parse_duration,
        metavar="DURATION",
        show_default="30s",
        help="How long to wait for the cluster, such as 5s or 500ms.",
    ),
]
ClusterDirectoryOption = Annotated[
    Path,
    typer.Option("--dir", parser=parse_path, metavar="DIR", help="The directory of the cluster on this machine."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, one object per line.")]
# Spelled out again: the aliases of ithaca.model.records would load msgspec before --help is printed.
DurabilityName = Literal["fsync", "os"]
CompressionName = Literal["none", "lz4", "zstd"]
DurabilityOption = Annotated[
    DurabilityName,
    typer.Option(help="What an acknowledgement means: synced to the disk, or handed to the operating system."),
]
EngineOption = Annotated[EngineName, typer.Option(help="How records get their places in the order.")]
FreshEngineOption = Annotated[
    EngineName | None,
    typer.Option(metavar="NAME", show_default=DEFAULT_ENGINE, help="How records get their places in the order."),
]
CompressionOption = Annotated[CompressionName, typer.Option(help="How batches are compressed.")]


def patience_s(timeout_s: float | None) -> float:
    """What --timeout says, or how long a cluster is waited for without it."""
    return CONNECT_PATIENCE_S if timeout_s is None else timeout_s


def parse_position(text: str) -> int:
    """A position on the command line."""
    if not re.fullmatch(r"[0-9]+", text) or int(text) < 1:
        raise typer.BadParameter(f"{text!r} is not a position; positions are whole numbers from 1 on")
    return int(text)


def examples(*lines: str) -> str:
    """An epilog of command lines, each on a line of its own.

    Typer joins single lines into paragraphs and reads square brackets as styles.
    """
    return "\n\n".join(["Examples:", *(line.replace("[", r"\[") for line in lines)])
