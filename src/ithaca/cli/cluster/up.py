"""`ithaca up` and `ithaca down`: a cluster on this machine."""

import sys
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ithaca.cli.option_groups import with_groups
from ithaca.cli.options import (
    ClusterDirectoryOption,
    DurabilityName,
    FreshEngineOption,
    examples,
    parse_duration,
    parse_size,
)
from ithaca.cli.output import emit
from ithaca.cli.progress import status_line

if TYPE_CHECKING:
    from ithaca.cluster.local import Wanted
    from ithaca.model.config.cluster import ClusterFile

UP_EXAMPLES = examples(
    "ithaca up",
    "ithaca up --detach; ithaca status; ithaca down",
    "ithaca up --dir ./small --shards 1 --orderers 1 --port 7700",
    "ithaca up --dir ./replicated --engine raft --replicas 3",
    "ithaca up --dir ./private --tls",
    "ithaca up --dir ./private --tls --users",
    "ithaca up --replicas 3 --masking --retention-age 7d --retention-bytes 100GB",
    "echo hello | ithaca append -b 127.0.0.1:7600   (in another terminal)",
)
DOWN_EXAMPLES = examples("ithaca down", "ithaca down --dir ./small")


@dataclass(frozen=True, slots=True)
class WantedOptions:
    """What the cluster shall be like; what is not given is left to the directory or, in a new one, to the default."""

    shards: Annotated[int | None, typer.Option(min=1, max=1000, show_default="2", help="Shards.")] = None
    replicas: Annotated[
        int | None, typer.Option(min=1, max=63, show_default="2, or 3", help="Replicas per shard, or of the log.")
    ] = None
    orderers: Annotated[int | None, typer.Option(min=1, max=63, show_default="3", help="Orderers, an odd number.")] = (
        None
    )
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, show_default="7600", help="The first port; each server takes the next."),
    ] = None
    durability: Annotated[
        DurabilityName | None,
        typer.Option(
            show_default="fsync",
            help="What an acknowledgement means: synced to the disks, or handed to the operating system.",
        ),
    ] = None
    aggregators: Annotated[
        int | None,
        typer.Option(min=0, max=1000, show_default="0", help="Aggregators between replicas and the ordering leader."),
    ] = None
    masking: Annotated[
        bool | None,
        typer.Option(
            "--masking", show_default=False, help="Shards of 3, 5, ... replicas go on while a minority is slow or gone."
        ),
    ] = None
    retention_age: Annotated[
        float | None,
        typer.Option(
            parser=parse_duration, metavar="DURATION", show_default="for ever", help="Keep records this long: 7d."
        ),
    ] = None
    retention_bytes: Annotated[
        int | None,
        typer.Option(
            parser=parse_size, metavar="SIZE", show_default="everything", help="Keep this much of each shard: 100GB."
        ),
    ] = None
    engine: FreshEngineOption = None
    tls: Annotated[
        bool, typer.Option("--tls", help="Protect every link, with an authority in the directory's folder tls.")
    ] = False
    users: Annotated[
        bool, typer.Option("--users", help="Clients say who they are, and do what they have the right to.")
    ] = False

    def wanted(self) -> "Wanted":
        from ithaca.cluster.local import Wanted

        given = asdict(self)
        flags = {name: given.pop(name) or None for name in ("tls", "users")}
        return Wanted(retention_age_s=given.pop("retention_age"), **flags, **given)


@with_groups
def up(
    *,
    directory: ClusterDirectoryOption = Path("ithaca-data"),
    options: WantedOptions,
    detach: Annotated[bool, typer.Option("--detach", help="Leave it running, and return when it is healthy.")] = False,
) -> None:
    """Start a cluster on this machine, each server a process of its own, and keep it running.

    A server that dies is started again. Ctrl-C stops them all. The data stays in
    the directory: the next start goes on with it, and needs no other options.
    """
    import asyncio

    from ithaca.cluster.local import locked_cluster
    from ithaca.cluster.running import run_cluster, start_detached

    directory = directory.absolute()
    wanted = options.wanted()
    if detach:
        with locked_cluster(directory, wanted):
            pass  # everything is as it should be; the process that stays looks once more
        with status_line() as progress:
            file = start_detached(directory, progress)
        _print_welcome(directory, file, detached=True)
        return
    with locked_cluster(directory, wanted) as file, ExitStack() as display:
        progress = display.enter_context(status_line())

        def ready() -> None:
            display.close()
            _print_welcome(directory, file, detached=False)

        asyncio.run(run_cluster(directory, file, tell=_tell, progress=progress, ready=ready))
    _tell("stopped: no server is left")


def down(directory: ClusterDirectoryOption = Path("ithaca-data")) -> None:
    """Stop the cluster of a directory, wherever it was started from, and wait until it is gone."""
    from ithaca.cluster.local import take_down

    if take_down(directory.absolute()):
        emit(b"stopped: no server is left\n")
    else:
        emit(f"nothing to stop: no cluster runs in {directory}\n".encode())


def _tell(text: str) -> None:
    """What happens to servers: to a terminal, or with the time to a file."""
    line = text if sys.stderr.isatty() else f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ} {text}"
    with suppress(OSError):  # the terminal is gone, and with it whoever could be told
        print(line, file=sys.stderr, flush=True)


def _token_lines(file: "ClusterFile") -> list[str]:
    """Where the operator's token is, if it needs one."""
    from ithaca.model.security.token import TOKEN_FILE

    if file.users is None or file.are_servers_certified:
        return []
    return [f"  export {TOKEN_FILE}={file.users.secret_path}"]


def _print_welcome(directory: Path, file: "ClusterFile", *, detached: bool) -> None:
    from ithaca.cluster.layout import bootstrap_of, servers_of, shard_notes, spares_of
    from ithaca.model.security.tls import VARIABLES

    tls = file.client_tls
    first = file.orderers[0].address
    where = "" if directory == Path("ithaca-data").absolute() else f" --dir {directory}"
    stop = f"ithaca down{where}" if detached else "Ctrl-C"
    lines = [
        f"The cluster is up: {len(servers_of(file) + spares_of(file))} servers, data in {directory}",
        f"  bootstrap  {bootstrap_of(file)}",
        *(f"  export {name}={path}" for name, path in zip(VARIABLES, () if tls is None else tls.files, strict=False)),
        *_token_lines(file),
        *shard_notes(file),
        "Try, in another terminal:" if not detached else "Try:",
        f"  echo hello | ithaca append -b {first}",
        f"  ithaca follow -b {first} --from earliest",
        f"  ithaca status{where}",
        f"  ithaca logs{where} -f",
        f"Stop it with {stop}",
    ]
    emit("".join(f"{line}\n" for line in lines).encode())
    sys.stdout.flush()
