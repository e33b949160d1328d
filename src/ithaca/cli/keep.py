"""`ithaca backup`, `restore`, `copy`, `salvage`: keeping what a log holds, and moving it."""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ithaca.cli.options import BootstrapOption, JsonOption, PathOption, TimeoutOption, examples, parse_size
from ithaca.cli.output import emit, emit_json, note
from ithaca.cli.progress import archive_progress
from ithaca.cli.target import Cluster, Embedded, chosen_target, parse_bootstrap

if TYPE_CHECKING:
    from ithaca.archive.copying import Copied

BACKUP_EXAMPLES = examples(
    "ithaca backup -p ./events --to /backups/events",
    "ithaca backup -b 127.0.0.1:7600 --to /backups/events   (again, each night: it adds what is new)",
    "ithaca backup -b 127.0.0.1:7600 --to s3://bucket/events",
)
RESTORE_EXAMPLES = examples(
    "ithaca restore --from /backups/events -p ./events",
    "ithaca restore --from /backups/events -b 127.0.0.1:7600",
)
COPY_EXAMPLES = examples("ithaca copy ./events 127.0.0.1:7600", "ithaca copy 127.0.0.1:7600 ./events")
SALVAGE_EXAMPLES = examples("ithaca salvage ./damaged ./saved")

LOWEST_PRIORITY = 19
LEFT_OUT = 3
"""The exit status of `salvage` when something could not be read."""

_ADDRESSES = re.compile(r"[^/\s]+:\d+(,[^/\s]+:\d+)*")


def backup(
    context: typer.Context,
    to: Annotated[str, typer.Option("--to", metavar="DIR|URL", help="The backup: made if missing, else added to.")],
    path: PathOption = None,
    bootstrap: BootstrapOption = None,
    pace: Annotated[
        int | None, typer.Option(parser=parse_size, metavar="SIZE", help="Take at most so much a second: 20MB.")
    ] = None,
    yields: Annotated[
        bool, typer.Option("--yield/--no-yield", help="Rest nine tenths of the time while others append.")
    ] = True,
    timeout: TimeoutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Keep all that a log holds by now in a directory or an object store, or add what came since the last time.

    Appends go on meanwhile: it runs at the lowest priority, so that others have this machine's processors first, and
    rests while others append; --pace bounds what it takes of disks and network. Killed at any point, it goes on where
    it was. Check it with ithaca verify -p DIR. URLs of object stores, such as s3://bucket/events, need the package
    fsspec and what it needs for that store.
    """
    from ithaca.archive.backup import back_up

    os.nice(LOWEST_PRIORITY)
    with chosen_target(context, path, bootstrap, timeout).reader() as log, archive_progress() as advance:
        made = back_up(log, to, advance, pace=pace, yields=yields)
    if as_json:
        emit_json(made._asdict())
    else:
        emit(f"positions {made.first} to {made.stop - 1} are in {to}, {made.added} of them new\n".encode())


def restore(
    context: typer.Context,
    source: Annotated[str, typer.Option("--from", metavar="DIR|URL", help="The backup.")],
    path: PathOption = None,
    bootstrap: BootstrapOption = None,
    renumber: Annotated[
        bool, typer.Option("--renumber", help="Give other positions where the same cannot be given; the order stays.")
    ] = False,
    timeout: TimeoutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Put a backup into an empty log, at the same positions. Killed at any point, the same again goes on.

    Times of records are those of the restore.
    """
    from ithaca.archive.copying import restore as restored
    from ithaca.archive.folder import check_version
    from ithaca.archive.places import place_of

    target = chosen_target(context, path, bootstrap, timeout)
    check_version(place_of(source))  # before anything is made
    with target.writer(create=True) as log, archive_progress() as advance:
        _say(restored(source, log, advance, renumber=renumber), as_json)


def copy(
    source: Annotated[str, typer.Argument(metavar="FROM", help="A directory, or HOST:PORT of a cluster.")],
    target: Annotated[str, typer.Argument(metavar="TO", help="A directory, or HOST:PORT of a cluster.")],
    start: Annotated[int, typer.Option("--from", min=1, metavar="POSITION", help="Begin here.")] = 1,
    timeout: TimeoutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Append to one log what another holds, each record once, up to its tail as it is now.

    The same command again goes on where the last one ended, whatever ended it, and adds what came since. Positions in
    the target are those that come; times of records are those of the copy.
    """
    from ithaca.archive.copying import copy_log

    if _place(source, None) == _place(target, None):
        raise typer.BadParameter("FROM and TO are the same log")
    with (
        _place(source, timeout).reader() as one,
        _place(target, timeout).writer(create=True) as other,
        archive_progress() as advance,
    ):
        _say(copy_log(one, other, _name(source), advance, start=start), as_json)


def salvage(
    source: Annotated[Path, typer.Argument(metavar="FROM", help="The directory of a damaged log.")],
    target: Annotated[Path, typer.Argument(metavar="TO", help="The directory of a new log for what can be read.")],
    as_json: JsonOption = False,
) -> None:
    """Save what can be read of a damaged embedded log into another, and say what was left out.

    The damaged one is not changed. Exit status 0 when everything could be read, 3 when something was left out.
    """
    import ithaca
    from ithaca.archive.salvaging import Salvage
    from ithaca.archive.salvaging import salvage as salvaged

    if source.absolute() == target.absolute():
        raise typer.BadParameter("FROM and TO are the same directory")
    Salvage(source)  # before anything is made
    with ithaca.open(target) as log, archive_progress() as advance:
        copied, left_out = salvaged(source, log, advance)
    for each in left_out:
        if as_json:
            emit_json(each._asdict())
        else:
            place = f"{each.file} at byte {each.offset}"
            emit(f"left out: positions {each.start} to {each.stop - 1}: {place}: {each.problem}\n".encode())
    _say(copied, as_json)
    if left_out:
        note(f"{len(left_out)} range{'' if len(left_out) == 1 else 's'} could not be read")
        raise typer.Exit(LEFT_OUT)


def _say(copied: "Copied", as_json: bool) -> None:
    if as_json:
        emit_json(copied._asdict())
    else:
        emit(f"{copied.records} records are there, {copied.added} of them new\n".encode())


def _place(text: str, timeout_s: float | None) -> Embedded | Cluster:
    if _ADDRESSES.fullmatch(text) and not os.path.exists(text):
        return Cluster(tuple(map(str, parse_bootstrap(text))), timeout_s)
    return Embedded(Path(text).expanduser().absolute())


def _name(source: str) -> str:
    """What a source is called, however it is written."""
    place = _place(source, None)
    return str(place.path) if isinstance(place, Embedded) else ",".join(sorted(place.bootstrap))
