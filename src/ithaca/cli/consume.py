"""`ithaca read` and `ithaca follow`: records out of a log, once or for ever."""

import os
import re
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from ithaca.cli.option_groups import with_groups
from ithaca.cli.options import (
    BootstrapOption,
    JsonOption,
    PathOption,
    TimeoutOption,
    examples,
    parse_duration,
    parse_position,
)
from ithaca.cli.output import FormatOption, RawOption, emit, renderer
from ithaca.cli.target import Cluster, Embedded, chosen_target
from ithaca.model.limits import POLL_RECORDS_MAX

if TYPE_CHECKING:
    from collections.abc import Callable

    from ithaca.model.records import KeyFilter, Record, Start

READ_EXAMPLES = examples(
    "ithaca read -p ./events",
    "ithaca read -p ./events --from 1000 --to 1010 --json",
    "ithaca read -p ./events --from 2026-01-31T12:00 --to 2026-01-31T13:00",
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
    "ithaca follow -p ./events --consumer billing --from earliest",
    "ithaca follow -b 10.0.0.11:7600 --consumer billing --group",
    "ithaca follow -b 127.0.0.1:7600 --speculate       (one with the engine belfast)",
)


@dataclass(frozen=True, slots=True)
class Selection:
    """Which records of which log, and how they are printed."""

    context: typer.Context
    path: PathOption = None
    bootstrap: BootstrapOption = None
    limit: Annotated[int | None, typer.Option("-n", "--limit", min=1, help="Stop after so many records.")] = None
    key: Annotated[str | None, typer.Option("--key", "-k", help="Only records with this key.")] = None
    prefix: Annotated[str | None, typer.Option(help="Only records whose key starts so.")] = None
    template: FormatOption = None
    as_json: JsonOption = False
    raw: RawOption = False

    def target(self, timeout_s: float | None) -> Embedded | Cluster:
        return chosen_target(self.context, self.path, self.bootstrap, timeout_s)

    @property
    def render(self) -> "Callable[[Record], bytes]":
        return renderer(self.template, self.as_json, self.raw)

    @property
    def where(self) -> "KeyFilter | None":
        from ithaca.model.records import KeyFilter

        if self.key is not None and self.prefix is not None:
            raise typer.BadParameter("--key and --prefix exclude each other; give one of them")
        if self.key is not None:
            return KeyFilter.equals(os.fsencode(self.key))
        return None if self.prefix is None else KeyFilter.prefix(os.fsencode(self.prefix))


@with_groups
def read(
    *,
    selection: Selection,
    timeout: TimeoutOption = None,
    start: Annotated[
        str,
        typer.Option("--from", metavar="POSITION|TIME|earliest|latest", help="The first record; times as ISO 8601."),
    ] = "earliest",
    stop: Annotated[
        str | None, typer.Option("--to", metavar="POSITION|TIME", help="Up to here, without it; else to the tail.")
    ] = None,
) -> None:
    """Print records in the order of their positions, up to the tail as it is now.

    Each is a line of position, time, key and value, with bytes that are not text escaped.
    """
    target, render, where = selection.target(timeout), selection.render, selection.where
    begin = parse_start(start)
    end = None if stop is None else parse_start(stop, "--to")
    with target.reader() as log:
        if isinstance(begin, int):
            _refuse_unwritten(begin, log.tail())
        with log.read_range(begin, end, where=where) as records:
            chosen = islice(records, selection.limit)
            while some := list(islice(chosen, POLL_RECORDS_MAX)):  # a write per record is slow when unbuffered
                emit(b"".join(map(render, some)))


def _refuse_unwritten(position: int, tail: int) -> None:
    """Reading from the tail gives nothing, rightly; from beyond it is a mistake worth telling."""
    from ithaca.model.errors import NotWritten

    if position > tail:
        raise NotWritten(f"position {position} is not written yet; the tail is {tail}", tail=tail)


@with_groups
def follow(
    *,
    selection: Selection,
    start: Annotated[
        str,
        typer.Option("--from", metavar="latest|earliest|POSITION|TIME", help="Where to begin; times as ISO 8601."),
    ] = "latest",
    timeout: Annotated[
        float | None,
        typer.Option(
            parser=parse_duration,
            metavar="DURATION",
            show_default=False,
            help="Stop when nothing has come for so long; nor wait longer for a cluster that does not answer.",
        ),
    ] = None,
    consumer: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Go on as this named consumer, and commit what was printed; a new one begins at --from.",
        ),
    ] = None,
    group: Annotated[
        bool,
        typer.Option(
            "--group", help="With --consumer: as a member of this group, which shares its records by their keys."
        ),
    ] = False,
    speculate: Annotated[
        bool,
        typer.Option(
            "--speculate",
            help="Print records before their places are final, then '= POSITION' when all up to there is, and "
            "'! POSITION' when what was printed behind it is void. With -n it ends when so many are final.",
        ),
    ] = False,
) -> None:
    """Print records as they are appended, until Ctrl-C.

    A time without an offset is local time; it selects by the order's own clock.
    """
    begin = parse_start(start)
    if consumer is not None:
        if speculate:
            raise typer.BadParameter("--consumer commits, and speculative records may change: leave one of them out")
        _consume(selection, consumer, begin, timeout, group=group)
    elif group:
        raise typer.BadParameter("--group is of a consumer: name it, with --consumer NAME")
    elif speculate:
        _speculate(selection, begin, timeout)
    else:
        _subscribe(selection, begin, timeout)


def _subscribe(selection: Selection, begin: "Start", timeout: float | None) -> None:
    """Print records as they come."""
    left, render = selection.limit, selection.render
    target = selection.target(timeout or None)
    with target.reader() as log, log.subscribe(begin, where=selection.where) as subscription:
        while left is None or left > 0:
            wanted = POLL_RECORDS_MAX if left is None else min(left, POLL_RECORDS_MAX)
            records = subscription.poll(timeout, max_records=wanted)
            if not records:
                break
            emit(b"".join(map(render, records)))
            sys.stdout.flush()
            if left is not None:
                left -= len(records)


def _consume(selection: Selection, name: str, begin: "Start", timeout: float | None, *, group: bool) -> None:
    """Print what a named consumer has not committed yet, and commit it once it is written out."""
    left, render = selection.limit, selection.render
    target = selection.target(timeout or None)
    with (
        target.writer(create=False) as log,
        log.consumer(name, start=begin, where=selection.where, group=group) as consumer,
    ):
        while left is None or left > 0:
            wanted = POLL_RECORDS_MAX if left is None else min(left, POLL_RECORDS_MAX)
            records = consumer.poll(timeout, max_records=wanted)
            if not records:
                break
            emit(b"".join(map(render, records)))
            sys.stdout.flush()
            consumer.commit()
            if left is not None:
                left -= len(records)


def _speculate(selection: Selection, begin: "Start", timeout: float | None) -> None:
    """Print what a speculator is told; with --json each event is an object of its own."""
    from ithaca.model.engine import Feature
    from ithaca.model.interface import ClusterLog
    from ithaca.model.interface.unsupported import unsupported
    from ithaca.model.speculation import Confirmed, Delivered, Failed

    if selection.raw:
        raise typer.BadParameter("--raw leaves no room to say what became of records: leave --speculate or --raw out")
    printed: list[int] = []
    """The positions of records that are not final yet."""
    left = selection.limit
    with selection.target(timeout or None).reader() as log:
        if not isinstance(log, ClusterLog):
            raise unsupported(Feature.SPECULATION)
        with log.speculate(begin, where=selection.where) as speculation:
            while events := speculation.take(timeout):
                for event in events:
                    match event:
                        case Delivered(record, _) if left is None or len(printed) < left:
                            emit(selection.render(record))
                            printed.append(record.position)
                        case Confirmed(up_to):
                            emit(_said(selection, "=", "confirmed", up_to))
                            waiting = [each for each in printed if each > up_to]
                            left = None if left is None else left - len(printed) + len(waiting)
                            printed = waiting
                            if left == 0:
                                return
                        case Failed(after):
                            emit(_said(selection, "!", "failed", after))
                            printed = [each for each in printed if each <= after]
                sys.stdout.flush()


def _said(selection: Selection, sign: str, name: str, position: int) -> bytes:
    return f'{{"{name}": {position}}}\n'.encode() if selection.as_json else f"{sign} {position}\n".encode()


def parse_start(text: str, option: str = "--from") -> "Start":
    """Where to begin, or to end."""
    if text == "latest":
        return "latest"
    if text == "earliest":
        return "earliest"
    if re.fullmatch(r"-?[0-9.]+", text):
        return parse_position(text)
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is neither latest, earliest, a position, nor a time such as 2026-01-31T12:00:00Z",
            param_hint=f"'{option}'",
        ) from None
