"""Events become columns: judging a million of them one at a time would take minutes, by columns it takes seconds."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from ithaca.proof.history import (
    AnyEvent,
    Append,
    BadHistory,
    Confirm,
    Deliver,
    Fail,
    Fault,
    Final,
    Plan,
    Publish,
    Read,
    Spec,
    Sub,
    Tail,
    Trim,
)

Ints = NDArray[np.int64]
Event = TypeVar("Event")

OK, FAIL, INFO = 0, 1, 2
_STATUS = {"ok": OK, "fail": FAIL, "info": INFO}

NULL, NOOP, JUNK, LOST, TRIMMED = (-1, 0), (-1, 1), (-1, 2), (-1, 3), (-1, 4)
"""What stands where an id stands, when there is none."""
_SPECIAL: dict[object, tuple[int, int]] = {None: NULL, "noop": NOOP, "junk": JUNK, "lost": LOST, "trimmed": TRIMMED}

NO_KEY, UNKNOWN_KEY = -1, -2

_KINDS = (Plan, Append, Publish, Read, Tail, Trim, Sub, Deliver, Spec, Confirm, Fail, Final, Fault)
_CODE: dict[type, int] = {kind: code for code, kind in enumerate(_KINDS)}


class Lines(NamedTuple):
    """Stretches of numbers of a session that were appended together: an append is one, a publish has one per part.

    A *unit* is what must be whole, an append or a publish; `offset` says how many of its records come before
    the line's. `pos` is that of the line's first record, if the outcome is known to be `OK`.
    """

    session: Ints
    seq: Ints
    size: Ints
    inv: Ints
    ret: Ints
    status: Ints
    pos: Ints
    key: Ints
    unit: Ints
    offset: Ints


class Reads(NamedTuple):
    """Reads of single positions; `session` and `seq` may be one of the specials."""

    pos: Ints
    inv: Ints
    ret: Ints
    session: Ints
    seq: Ints


class Tails(NamedTuple):
    """Tails that clients were told."""

    inv: Ints
    ret: Ints
    n: Ints


class Deliveries(NamedTuple):
    """Records that subscriptions passed on as confirmed, in the order of lines; `line` is where the event stood."""

    sub: Ints
    time: Ints
    pos: Ints
    session: Ints
    seq: Ints
    line: Ints


class Dump(NamedTuple):
    """What one replica holds."""

    node: str
    pos: Ints
    session: Ints
    seq: Ints


class Collected(NamedTuple):
    """A whole history, by kind."""

    plan: Plan
    lines: Lines
    scattered: dict[int, tuple[int, ...]]
    """Positions of the records of those lines (by their number) that came as a list."""
    keys: dict[str, int]
    """The numbers that stand for keys."""
    reads: Reads
    tails: Tails
    trims: list[Trim]
    subs: dict[int, Sub]
    deliveries: Deliveries
    speculation: list[tuple[int, Spec | Confirm | Fail]]
    """With the line of each event."""
    dumps: list[Dump]
    faults: Counter[str]
    events: Counter[str]


class Collector:
    """Takes events in, a list at a time."""

    def __init__(self) -> None:
        self._plan: Plan | None = None
        self._columns: dict[type, list[list[Ints]]] = {Lines: [], Reads: [], Tails: [], Deliveries: []}
        self._scattered: dict[int, tuple[int, ...]] = {}
        self._lines = self._units = self._seen = 0
        self._keys: dict[str, int] = {}
        self._trims: list[Trim] = []
        self._subs: dict[int, Sub] = {}
        self._speculation: list[tuple[int, Spec | Confirm | Fail]] = []
        self._dumps: dict[str, Dump] = {}
        self._faults: Counter[str] = Counter()
        self._events: Counter[str] = Counter()

    def add(self, events: Sequence[AnyEvent]) -> None:
        """Take in the next events."""
        codes = np.fromiter(map(_CODE.__getitem__, map(type, events)), np.int64, len(events))
        for code in np.flatnonzero(np.bincount(codes)).tolist():
            places = np.flatnonzero(codes == code)
            chosen: list[Any] = [events[at] for at in places.tolist()]
            self._events[_tag(_KINDS[code])] += len(chosen)
            self._take(_KINDS[code], chosen, places + self._seen)
        self._seen += len(events)

    def _take(self, kind: type, events: list[Any], lines: Ints) -> None:
        if kind is Append:
            self._appends(events)
        elif kind is Publish:
            self._publishes(events)
        elif kind is Read:
            times = (_column(events, name) for name in ("pos", "inv", "ret"))
            self._columns[Reads].append([*times, *_ids_or_specials([event.id for event in events])])
        elif kind is Tail:
            self._columns[Tails].append([_column(events, name) for name in ("inv", "ret", "n")])
        elif kind is Deliver:
            fields = (_column(events, name) for name in ("sub", "ret", "pos"))
            self._columns[Deliveries].append([*fields, *_ids(events), lines])
        elif kind in (Spec, Confirm, Fail):
            self._speculation.extend(zip(lines.tolist(), events, strict=True))
        elif kind is Final:
            for event in events:
                self._final(event)
        else:
            for event in events:
                self._rare(event)

    def _appends(self, events: list[Append]) -> None:
        positions = [-1 if event.pos is None else event.pos for event in events]
        for at, pos in enumerate(positions):
            if type(pos) is not int:
                positions[at] = self._list_of(events[at], self._lines + at)
        status = np.fromiter(map(_STATUS.__getitem__, map(attrgetter("st"), events)), np.int64, len(events))
        first = np.array(positions, np.int64)
        if (first[status == OK] < 0).any():
            event = next(event for event in events if event.st == "ok" and event.pos is None)
            raise BadHistory(f"the append {event.id[0]}/{event.id[1]} is ok and has no position")
        count = len(events)
        self._columns[Lines].append(
            [
                *_ids(events),
                *(_column(events, name) for name in ("n", "inv", "ret")),
                status,
                first,
                np.fromiter(map(self._key, map(attrgetter("key"), events)), np.int64, count),
                np.arange(self._units, self._units + count),
                np.zeros(count, np.int64),
            ]
        )
        self._lines += count
        self._units += count

    def _list_of(self, event: Append, line: int) -> int:
        positions = cast("tuple[int, ...]", event.pos)
        if len(positions) != event.n:
            raise BadHistory(
                f"the append {event.id[0]}/{event.id[1]} has {event.n} records and {len(positions)} positions"
            )
        self._scattered[line] = positions
        return positions[0]

    def _publishes(self, events: list[Publish]) -> None:
        rows: list[tuple[int, ...]] = []
        for event in events:
            if event.st == "ok" and event.pos is None:
                raise BadHistory(f"the publish {event.key!r} is ok and has no position")
            offset = 0
            for session, seq, count in event.parts:
                pos = -1 if event.pos is None else event.pos + offset
                status = _STATUS[event.st]
                rows.append((session, seq, count, event.inv, event.ret, status, pos, UNKNOWN_KEY, self._units, offset))
                offset += count
            self._units += 1
        self._lines += len(rows)
        self._columns[Lines].append(list(np.array(rows, np.int64).reshape(-1, len(Lines._fields)).T))

    def _key(self, key: str | None) -> int:
        return NO_KEY if key is None else self._keys.setdefault(key, len(self._keys))

    def _final(self, event: Final) -> None:
        if event.node in self._dumps:
            raise BadHistory(f"there are two final dumps of {event.node}")
        positions = [np.arange(first, first + len(items), dtype=np.int64) for first, items in event.runs]
        session, seq = _ids_or_specials(list(chain.from_iterable(items for _, items in event.runs)))
        self._dumps[event.node] = Dump(event.node, _joined(positions), session, seq)

    def _rare(self, event: AnyEvent) -> None:
        match event:
            case Plan():
                if self._plan is not None:
                    raise BadHistory("there are two plans")
                self._plan = event
            case Trim():
                self._trims.append(event)
            case Sub():
                if event.sub in self._subs:
                    raise BadHistory(f"there are two subscriptions {event.sub}")
                self._subs[event.sub] = event
            case Fault():
                self._faults[(event.what.split() or [""])[0]] += 1

    def collected(self) -> Collected:
        """Everything so far."""
        deliveries = self._table(Deliveries)
        unknown = set(distinct(deliveries.sub).tolist()) | {event.sub for _, event in self._speculation}
        if unknown - self._subs.keys():
            raise BadHistory(
                f"something was delivered to subscription {min(unknown - self._subs.keys())}, which is none"
            )
        return Collected(
            plan=self._plan if self._plan is not None else Plan(),
            lines=self._table(Lines),
            scattered=self._scattered,
            keys=self._keys,
            reads=self._table(Reads),
            tails=self._table(Tails),
            trims=self._trims,
            subs=self._subs,
            deliveries=deliveries,
            speculation=sorted(self._speculation, key=itemgetter(0)),
            dumps=list(self._dumps.values()),
            faults=self._faults,
            events=self._events,
        )

    def _table(self, kind: type[Event]) -> Event:
        parts = self._columns[kind]
        fields = kind._fields  # type: ignore[attr-defined]
        return kind(*(_joined([part[at] for part in parts]) for at in range(len(fields))))


def distinct(values: Ints) -> Ints:
    """The values without repetitions, in order; `np.unique` hashes, and is much slower."""
    ordered: Ints = np.sort(values)
    kept: Ints = ordered[np.concatenate((np.ones(min(1, len(ordered)), bool), ordered[1:] != ordered[:-1]))]
    return kept


def _tag(kind: type) -> str:
    return str(kind.__struct_config__.tag)  # type: ignore[attr-defined]


def _column(events: list[Any], name: str) -> Ints:
    return np.fromiter(map(attrgetter(name), events), np.int64, len(events))


def _ids(events: list[Any]) -> tuple[Ints, Ints]:
    return _pairs(map(attrgetter("id"), events), len(events))


def _ids_or_specials(found: list[Any]) -> tuple[Ints, Ints]:
    """Sessions and numbers; what is no id becomes a special."""
    return _pairs((each if type(each) is tuple else _SPECIAL[each] for each in found), len(found))


def _pairs(pairs: Iterable[tuple[int, int]], count: int) -> tuple[Ints, Ints]:
    flat = np.fromiter(chain.from_iterable(pairs), np.int64, 2 * count).reshape(-1, 2)
    return flat[:, 0], flat[:, 1]


def _joined(parts: list[Ints]) -> Ints:
    return np.concatenate(parts) if parts else np.empty(0, np.int64)
