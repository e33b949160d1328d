"""`ithaca read` and `ithaca follow`: records out of a log, once or for ever."""

import os
import sys
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from ithaca.cli.options import BootstrapOption, JsonOption, PathOption, examples, parse_position
from ithaca.cli.output import FormatOption, RawOption, emit, renderer
from ithaca.cli.target import chosen_target
from ithaca.model.limits import POLL_RECORDS_MAX

if TYPE_CHECKING:
    from ithaca.model.records import KeyFilter, Start

READ_EXAMPLES = examples(
    "ithaca read -p ./events",
    "ithaca read -p ./events --from 1000 --to 1010 --json",
    "ithaca read -p ./events --prefix user- -n 5",
    r"ithaca read -p ./events --format '%p %k %v\n'",
    "ithaca read -p ./events --from 7 -n 1 --raw > picture.png",
    "ithaca read -b 127.0.0.1:7600 -n 5   (a cluster)",
)
FOLLOW_EXAMPLES = examples(
    "ithaca follow -p ./events",
    "ithaca follow -p ./events --from earliest --json | jq .value",
    "ithaca follow -p ./events --from 2026-01-31T12:00:00+01:00 --key user-7",
    "ithaca follow -p ./events -n 1 --timeout 5",
    "ithaca follow -b 127.0.0.1:7600 --from earliest   (a cluster)",
)

LimitOption = Annotated[int | None, typer.Option("-n", "--limit", min=1, help="Stop after so many records.")]
KeyOption = Annotated[str | None, typer.Option("--key", "-k", help="Only records with this key.")]
PrefixOption = Annotated[str | None, typer.Option(help="Only records whose key starts so.")]


def read(
    context: typer.Context,
    path: PathOption = None,
    bootstrap: BootstrapOption = None,
    start: Annotated[str, typer.Option("--from", metavar="POSITION|earliest", help="The first record.")] = "earliest",
    stop: Annotated[
        str | None, typer.Option("--to", metavar="POSITION", help="Up to here, without it; else to the tail.")
    ] = None,
    limit: LimitOption = None,
    key: KeyOption = None,
    prefix: PrefixOption = None,
    template: FormatOption = None,
    as_json: JsonOption = False,
    raw: RawOption = False,
) -> None:
    """Print records in the order of their positions, up to the tail as it is now.

    Each is a line of position, time, key and value, with bytes that are not text escaped.
    """
    target = chosen_target(context, path, bootstrap)
    render = renderer(template, as_json, raw)
    where = _filter(key, prefix)
    from_position = None if start == "earliest" else parse_position(start)
    to_position = None if stop is None else parse_position(stop)
    with target.reader() as log:
        first = log.first() if from_position is None else from_position
        _refuse_unwritten(first, log.tail())
        with log.read_range(first, to_position, where=where) as records:
            chosen = islice(records, limit)
            while some := list(islice(chosen, POLL_RECORDS_MAX)):  # a write per record is slow when unbuffered
                emit(b"".join(map(render, some)))


def _refuse_unwritten(position: int, tail: int) -> None:
    """Reading from the tail gives nothing, rightly; from beyond it is a mistake worth telling."""
    from ithaca.model.errors import NotWritten

    if position > tail:
        raise NotWritten(f"position {position} is not written yet; the tail is {tail}", tail=tail)


def follow(
    context: typer.Context,
    path: PathOption = None,
    bootstrap: BootstrapOption = None,
    start: Annotated[
        str,
        typer.Option("--from", metavar="latest|earliest|POSITION|TIME", help="Where to begin; times as ISO 8601."),
    ] = "latest",
    limit: LimitOption = None,
    timeout: Annotated[
        float | None, typer.Option(min=0, metavar="SECONDS", help="Stop when nothing has come for so long.")
    ] = None,
    key: KeyOption = None,
    prefix: PrefixOption = None,
    template: FormatOption = None,
    as_json: JsonOption = False,
    raw: RawOption = False,
) -> None:
    """Print records as they are appended, until Ctrl-C.

    A time without an offset is local time; it selects by the order's own clock.
    """
    target = chosen_target(context, path, bootstrap)
    render = renderer(template, as_json, raw)
    where = _filter(key, prefix)
    begin = _parse_start(start)
    left = limit
    with target.reader() as log, log.subscribe(begin, where=where) as subscription:
        while left is None or left > 0:
            wanted = POLL_RECORDS_MAX if left is None else min(left, POLL_RECORDS_MAX)
            records = subscription.poll(timeout, max_records=wanted)
            if not records:
                break
            emit(b"".join(map(render, records)))
            sys.stdout.flush()
            if left is not None:
                left -= len(records)


def _filter(key: str | None, prefix: str | None) -> "KeyFilter | None":
    from ithaca.model.records import KeyFilter

    if key is not None and prefix is not None:
        raise typer.BadParameter("--key and --prefix exclude each other; give one of them")
    if key is not None:
        return KeyFilter.equals(os.fsencode(key))
    return None if prefix is None else KeyFilter.prefix(os.fsencode(prefix))


def _parse_start(text: str) -> "Start":
    if text == "latest":
        return "latest"
    if text == "earliest":
        return "earliest"
    if text.isdecimal():
        return parse_position(text)
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is neither latest, earliest, a position, nor a time such as 2026-01-31T12:00:00Z",
            param_hint="'--from'",
        ) from None
