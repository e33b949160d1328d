"""Events become columns: judging a million of them one at a time would take minutes, by columns it takes seconds."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from operator import attrgetter, itemgetter
from typing import Any, TypeVar, cast

import numpy as np
from msgspec import UNSET, UnsetType

from ithaca.proof.columns import (
    EMPTY,
    FAIL,
    INFO,
    JUNK,
    LOST,
    NO_KEY,
    NOOP,
    NULL,
    OK,
    TRIMMED,
    UNKNOWN_KEY,
    UNKNOWN_SHARD,
    UNKNOWN_TIME,
    Bounds,
    Collected,
    Deliveries,
    Dump,
    Firsts,
    Ints,
    Lines,
    Marks,
    Reads,
    Rows,
    Tails,
    distinct,
)
from ithaca.proof.history import (
    AnyEvent,
    Append,
    BadHistory,
    Commit,
    Confirm,
    Deliver,
    Fail,
    Fault,
    Final,
    First,
    Hand,
    Mark,
    Own,
    Plan,
    Publish,
    Range,
    Read,
    Spec,
    Sub,
    Tail,
    Trim,
)

Event = TypeVar("Event")

_STATUS = {"ok": OK, "fail": FAIL, "info": INFO}
_SPECIAL: dict[object, tuple[int, int]] = {
    None: NULL,
    "noop": NOOP,
    "junk": JUNK,
    "lost": LOST,
    "trimmed": TRIMMED,
    "empty": EMPTY,
}

_KINDS = (
    *(Plan, Append, Publish, Read, Tail, Trim, First, Sub, Deliver, Mark, Own, Hand, Commit, Range),
    *(Spec, Confirm, Fail, Final, Fault),
)
_CODE: dict[type, int] = {kind: code for code, kind in enumerate(_KINDS)}


class Collector:
    """Takes events in, a list at a time."""

    def __init__(self) -> None:
        self._plan: Plan | None = None
        self._columns: dict[type, list[list[Ints]]] = {
            kind: [] for kind in (Lines, Reads, Tails, Firsts, Deliveries, Marks, Rows)
        }
        self._scattered: dict[int, tuple[int, ...]] = {}
        self._lines = self._units = self._seen = 0
        self._keys: dict[str, int] = {}
        self._trims: list[Trim] = []
        self._subs: dict[int, Sub] = {}
        self._owns: list[Own] = []
        self._hands: list[Hand] = []
        self._commits: list[Commit] = []
        self._ranges: list[Bounds] = []
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
            ids = _ids_or_specials([event.id for event in events])
            self._columns[Reads].append([*times, *ids, *self._told(events)])
        elif kind is Tail or kind is First:
            self._columns[Tails if kind is Tail else Firsts].append(
                [_column(events, name) for name in ("inv", "ret", "n")]
            )
        elif kind is Deliver:
            fields = (_column(events, name) for name in ("sub", "ret", "pos"))
            self._columns[Deliveries].append([*fields, *_ids(events), lines, *self._told(events)])
        elif kind is Mark:
            self._columns[Marks].append([*(_column(events, name) for name in ("sub", "t", "up_to")), lines])
        elif kind is Hand:
            self._hands.extend(events)
        elif kind is Commit:
            self._commits.extend(events)
        elif kind is Range:
            for event in events:
                self._range(event)
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
                _known((event.shard for event in events), count, UNKNOWN_SHARD),
                _known((UNSET if event.ts is UNSET else event.ts[0] for event in events), count, UNKNOWN_TIME),
                _known((UNSET if event.ts is UNSET else event.ts[1] for event in events), count, UNKNOWN_TIME),
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
            shards = (UNKNOWN_SHARD,) * len(event.parts) if event.shards is UNSET else event.shards
            if len(shards) != len(event.parts):
                raise BadHistory(f"the publish {event.key!r} has {len(event.parts)} parts and {len(shards)} shards")
            offset = 0
            for (session, seq, count), shard in zip(event.parts, shards, strict=True):
                pos = -1 if event.pos is None else event.pos + offset
                place = (session, seq, count, event.inv, event.ret, _STATUS[event.st], pos, UNKNOWN_KEY)
                rows.append((*place, self._units, offset, shard, UNKNOWN_TIME, UNKNOWN_TIME))
                offset += count
            self._units += 1
        self._lines += len(rows)
        self._columns[Lines].append(list(np.array(rows, np.int64).reshape(-1, len(Lines._fields)).T))

    def _key(self, key: Any) -> int:
        if key is None:
            return NO_KEY
        return UNKNOWN_KEY if key is UNSET else self._keys.setdefault(key, len(self._keys))

    def _told(self, events: list[Any]) -> list[Ints]:
        count = len(events)
        return [
            np.fromiter(map(self._key, map(attrgetter("key"), events)), np.int64, count),
            _known(map(attrgetter("ts"), events), count, UNKNOWN_TIME),
            _known(map(attrgetter("shard"), events), count, UNKNOWN_SHARD),
        ]

    def _range(self, event: Range) -> None:
        number, count = len(self._ranges), len(event.ids)
        if any(len(told) != count for told in (event.keys, event.ts, event.shards) if told is not UNSET):
            raise BadHistory(
                f"the range from {event.start} to {event.stop} says more or less than one thing per record"
            )
        self._ranges.append(Bounds(event.inv, event.ret, event.start, event.stop, event.filter))
        keys = [UNKNOWN_KEY] * count if event.keys is UNSET else list(map(self._key, event.keys))
        self._columns[Rows].append(
            [
                np.full(count, number, np.int64),
                np.full(count, event.ret, np.int64),
                np.fromiter(map(itemgetter(0), event.ids), np.int64, count),
                *_pairs(map(itemgetter(1), event.ids), count),
                np.array(keys, np.int64),
                np.array([UNKNOWN_TIME] * count if event.ts is UNSET else event.ts, np.int64),
                np.array([UNKNOWN_SHARD] * count if event.shards is UNSET else event.shards, np.int64),
            ]
        )

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
            case Own():
                self._owns.append(event)
            case Fault():
                self._faults[(event.what.split() or [""])[0]] += 1

    def collected(self) -> Collected:
        """Everything so far."""
        deliveries = self._table(Deliveries)
        marks = self._table(Marks)
        unknown = set(distinct(np.concatenate((deliveries.sub, marks.sub))).tolist())
        unknown |= {event.sub for _, event in self._speculation} | {event.sub for event in self._owns}
        if unknown - self._subs.keys():
            raise BadHistory(
                f"something was delivered to subscription {min(unknown - self._subs.keys())}, which is none"
            )
        own = {event.sub for event in self._owns}
        strange = ({event.sub for event in self._hands} | {event.sub for event in self._commits}) - own
        if strange:
            raise BadHistory(f"subscription {min(strange)} belongs to no consumer")
        return Collected(
            plan=self._plan if self._plan is not None else Plan(),
            lines=self._table(Lines),
            scattered=self._scattered,
            keys=self._keys,
            reads=self._table(Reads),
            tails=self._table(Tails),
            firsts=self._table(Firsts),
            trims=self._trims,
            subs=self._subs,
            deliveries=deliveries,
            marks=marks,
            owns=self._owns,
            hands=self._hands,
            commits=self._commits,
            ranges=self._ranges,
            rows=self._table(Rows),
            speculation=sorted(self._speculation, key=itemgetter(0)),
            dumps=list(self._dumps.values()),
            faults=self._faults,
            events=self._events,
        )

    def _table(self, kind: type[Event]) -> Event:
        parts = self._columns[kind]
        fields = kind._fields  # type: ignore[attr-defined]
        return kind(*(_joined([part[at] for part in parts]) for at in range(len(fields))))


def _tag(kind: type) -> str:
    return str(kind.__struct_config__.tag)  # type: ignore[attr-defined]


def _column(events: list[Any], name: str) -> Ints:
    return np.fromiter(map(attrgetter(name), events), np.int64, len(events))


def _known(values: Iterable[int | UnsetType], count: int, unknown: int) -> Ints:
    return np.fromiter((unknown if value is UNSET else value for value in values), np.int64, count)


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
