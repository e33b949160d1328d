"""`ithaca store`: keys and values on a log, without writing a program."""

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ithaca.cli.option_groups import with_groups
from ithaca.cli.options import (
    BootstrapOption,
    JsonOption,
    PathOption,
    TimeoutOption,
    examples,
    parse_path,
    parse_position,
)
from ithaca.cli.output import RawOption, emit, emit_json, json_bytes, note, printable
from ithaca.cli.target import Cluster, Embedded, chosen_target
from ithaca.cli.template import iso_time

if TYPE_CHECKING:
    from ithaca.model.interface import Log
    from ithaca.objects import Store

app = typer.Typer(
    no_args_is_help=True,
    help="Keys and values on a log: every operation atomic over all its keys.",
    epilog=examples("ithaca store put -p ./shop stock/7=3 price/7=20", "ithaca store get -p ./shop --prefix stock/"),
)

GET_EXAMPLES = examples(
    "ithaca store get -p ./shop stock/7 price/7",
    "ithaca store get -p ./shop --prefix stock/ --json",
    "ithaca store get -p ./shop price/7 --as-of 41   (as it was behind that record)",
    "ithaca store get -b 127.0.0.1:7600 --name shop picture/7 --raw > picture.png",
)
PUT_EXAMPLES = examples(
    "ithaca store put -p ./shop stock/7=3 price/7=20   (all at once)",
    "ithaca store put -p ./shop --delete cart/ann",
    "ithaca store put -b 127.0.0.1:7600 picture/7=@picture.png   (the bytes of a file)",
)
CAS_EXAMPLES = examples(
    "ithaca store cas -p ./shop --expect price/7=20 price/7=18",
    "ithaca store cas -p ./shop --absent lock lock=me || echo taken",
    "ithaca store cas -b 127.0.0.1:7600 --expect stock/7=3 stock/7=2 cart/ann=7",
)
MIRROR_EXAMPLES = examples(
    "ithaca store mirror -b 127.0.0.1:7600 --state ./mirror.db",
    "ithaca store mirror -p ./shop --state ./copy.db --once   (up to the tail as it is now)",
)

NameOption = Annotated[str, typer.Option("--name", metavar="STORE", help="Which store of the log.")]
DeleteOption = Annotated[list[str] | None, typer.Option(metavar="KEY", help="Have no such key; may be repeated.")]
PairsArgument = Annotated[list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="What to put.")]


@dataclass(frozen=True, slots=True)
class WhichStore:
    """Which store of which log."""

    path: PathOption = None
    bootstrap: BootstrapOption = None
    timeout: TimeoutOption = None
    name: NameOption = "store"

    def target(self, context: typer.Context) -> Embedded | Cluster:
        return chosen_target(context, self.path, self.bootstrap, self.timeout)

    def opened(self, log: "Log", *, read_only: bool = True) -> "Store":
        from ithaca.objects import Store

        return Store(log, self.name, read_only=read_only, checks="off")


@app.command(epilog=GET_EXAMPLES)
@with_groups
def get(
    *,
    context: typer.Context,
    keys: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY]...", help="Keys, all read at one position.")
    ] = None,
    which: WhichStore,
    prefix: Annotated[str | None, typer.Option(help="All keys that begin so, in order.")] = None,
    as_of: Annotated[
        str | None, typer.Option(metavar="POSITION", help="As it was behind the record at this position.")
    ] = None,
    as_json: JsonOption = False,
    raw: RawOption = False,
) -> None:
    """Print keys and their values, a line each, as of one position.

    Exit status 1 if one of the keys is not there.
    """
    if (prefix is None) == (not keys):
        raise typer.BadParameter("which keys? Name some, or give --prefix; --prefix '' is all of them")
    if as_json and raw:
        raise typer.BadParameter("--json and --raw exclude each other; give one of them")
    position = None if as_of is None else parse_position(as_of)
    wanted = [os.fsencode(key) for key in keys or []]
    with which.target(context).reader() as log, which.opened(log) as store:
        view = None if position is None else store.as_of(position)
        if prefix is not None:
            found: dict[bytes, bytes | None] = dict((view or store).scan(os.fsencode(prefix)))
        else:
            found = (view or store).get_many(wanted)
    missing = [key for key, value in found.items() if value is None]
    for key, value in found.items():
        if value is not None:
            _print(key, value, as_json, raw)
    if missing:
        note(f"ithaca: there is no {', '.join(map(printable, missing))}")
        raise typer.Exit(1)


def _print(key: bytes, value: bytes, as_json: bool, raw: bool) -> None:
    if raw:
        emit(value)
    elif as_json:
        emit_json(json_bytes("key", key) | json_bytes("value", value))
    else:
        emit(f"{printable(key)}\t{printable(value)}\n".encode())


@app.command(epilog=PUT_EXAMPLES)
@with_groups
def put(
    *,
    context: typer.Context,
    pairs: PairsArgument = None,
    which: WhichStore,
    delete: DeleteOption = None,
    as_json: JsonOption = False,
) -> None:
    """Put all of these keys at once, and print the position at which they stand.

    A value @FILE is the bytes of that file, and @@ begins one with an @.
    An embedded log is made if there is none.
    """
    target = which.target(context)
    writes = _writes(pairs, delete)
    with target.writer(create=True) as log, which.opened(log, read_only=False) as store:
        position = store.put_many(writes)
    if as_json:
        emit_json({"position": position, "keys": len(writes)})
    else:
        emit(f"{position}\n".encode())


@app.command(epilog=CAS_EXAMPLES)
@with_groups
def cas(
    *,
    context: typer.Context,
    pairs: PairsArgument = None,
    which: WhichStore,
    expect: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="Only if this key has this value; may be repeated.")
    ] = None,
    absent: Annotated[
        list[str] | None, typer.Option(metavar="KEY", help="Only if there is no such key; may be repeated.")
    ] = None,
    delete: DeleteOption = None,
    as_json: JsonOption = False,
) -> None:
    """Put all of these keys at once, but only if others are as expected: decided by the order of the log.

    Exit status 1, and nothing is put, if one of them is not.
    """
    target = which.target(context)
    if not expect and not absent:
        raise typer.BadParameter("what is expected? Give --expect KEY=VALUE or --absent KEY, or use ithaca store put")
    expected = _expected(expect, absent)
    writes = _writes(pairs, delete)
    with target.writer(create=True) as log, which.opened(log, read_only=False) as store:
        done = store.test_and_put(expected, writes)
    if as_json:
        emit_json({"done": done})
    if not done:
        note("ithaca: not as expected; nothing was put")
        raise typer.Exit(1)


@app.command(epilog=MIRROR_EXAMPLES)
@with_groups
def mirror(
    *,
    context: typer.Context,
    state: Annotated[
        Path, typer.Option(parser=parse_path, metavar="FILE", help="The file of SQLite in which the mirror is.")
    ],
    which: WhichStore,
    once: Annotated[bool, typer.Option("--once", help="Stop at the tail as it is now.")] = False,
    every: Annotated[float, typer.Option(min=0.01, metavar="SECONDS", help="Say how far it is so often.")] = 1.0,
    as_json: JsonOption = False,
) -> None:
    """Follow a store into a file, and say how far the mirror is, until Ctrl-C.

    The file is always the store as it was at one position; started again, the
    mirror goes on from there. Tables: entries (key, value, position), progress.
    """
    from ithaca.objects import Store

    target = which.target(context)
    with target.reader() as log, Store(log, which.name, state=state, read_only=True) as store:
        while True:
            progress = store.progress()
            fields = {"position": progress.position, "tail": progress.tail, "is_current": progress.is_current}
            if as_json:
                emit_json(fields | {"time": iso_time(progress.time_us)})
            else:
                behind = "current" if progress.is_current else "behind"
                emit(f"{progress.position} of {progress.tail}, {behind}, {iso_time(progress.time_us)}\n".encode())
            if once and progress.is_current:
                return
            time.sleep(0.01 if once else every)


def _writes(pairs: list[str] | None, delete: list[str] | None) -> dict[bytes, bytes | None]:
    writes: dict[bytes, bytes | None] = dict(map(_pair, pairs or []))
    for key in delete or []:
        if os.fsencode(key) in writes:
            raise typer.BadParameter(f"{key!r} is to be put and deleted at once; say one of it")
        writes[os.fsencode(key)] = None
    if not writes:
        raise typer.BadParameter("nothing to put: write KEY=VALUE, or --delete KEY")
    return writes


def _expected(expect: list[str] | None, absent: list[str] | None) -> dict[bytes, bytes | None]:
    expected: dict[bytes, bytes | None] = dict(map(_pair, expect or []))
    return expected | {os.fsencode(key): None for key in absent or []}


def _pair(text: str) -> tuple[bytes, bytes]:
    key, separator, value = text.partition("=")
    if not separator:
        raise typer.BadParameter(f"{text!r} has no =: write KEY=VALUE")
    if value.startswith("@@"):
        return os.fsencode(key), os.fsencode(value[1:])
    return os.fsencode(key), Path(value[1:]).read_bytes() if value.startswith("@") else os.fsencode(value)
