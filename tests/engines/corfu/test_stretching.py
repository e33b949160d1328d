"""Stretches of rows: what is complete and nothing else, no row left out, nothing believed that was not asked for."""

from random import Random
from typing import Any
from uuid import UUID

import pytest
from msgspec import structs
from tests.engines.corfu.played import ENTRY, Played
from tests.engines.corfu.test_unit import Desk

from ithaca.engines.corfu.messages import RowsContent, heard_answer, said_answer
from ithaca.engines.corfu.sequencing import unit as units
from ithaca.engines.corfu.sequencing.calls import EpochIs, ReadRows, RowsHold, TrimRows, Write
from ithaca.engines.corfu.sequencing.commands import NextEpoch
from ithaca.engines.corfu.sequencing.entries import JUNK, Entry, entry_of
from ithaca.engines.corfu.sequencing.flows.flow import NO_ANSWER, AskUnits
from ithaca.engines.corfu.sequencing.flows.knowledge import Knowledge
from ithaca.engines.corfu.sequencing.flows.stretching import Stretch, stretched
from ithaca.engines.corfu.sequencing.unit import Reply, ReplyRange, RowChange, TrimChange
from ithaca.engines.corfu.storage.unit_store import UnitStore, create
from ithaca.model.errors import IthacaError
from ithaca.sim.disk import SimDisk
from ithaca.wire.build import build


class Held:
    """A unit that has all rows below one, in answers of so many rows."""

    def __init__(self, below: int, rows_max: int = 100) -> None:
        self._below = below
        self._rows_max = rows_max

    def answer(self, call: ReadRows) -> RowsHold:
        wanted = range(call.start, call.stop, call.step)
        given = [row for row in wanted[: self._rows_max] if row < self._below]
        left = [row for row in wanted if row not in given]
        return RowsHold(left[0] if left else call.stop, tuple((row, ENTRY) for row in given), 0, self._below - 1)


class Cluster(Played):
    """Two sets of two units each: (1 2) and (3 4). No unit but those that are told of has anything."""

    def _unit(self, unit: int, call: Any) -> Any:
        told = self.units.get(unit)
        if isinstance(told, Held):
            return told.answer(call)
        return NO_ANSWER if told is None else told

    @property
    def calls(self) -> list[tuple[int, Any]]:
        return [asked for effect in self.effects if isinstance(effect, AskUnits) for asked in effect.asked]

    def known(self, **changes: Any) -> None:
        """Clients know a projection with these changes."""
        known = self.knowledge.known
        projection = structs.replace(known.projection, **changes)
        self.knowledge = Knowledge(structs.replace(known, projection=projection), sequencers=(1, 2))


def rows_of(cluster: Cluster, start: int, stop: int, bytes_max: int = 1000, parts: int = 1) -> tuple[int, list[int]]:
    found: Stretch = cluster.run(stretched(cluster.knowledge, start, stop, bytes_max, parts))
    assert all(entry == ENTRY for _, entry in found.rows)
    return found.up_to, [row for row, _ in found.rows]


def test_every_set_is_asked_for_its_share_at_the_last_unit_of_its_chain() -> None:
    cluster = Cluster({2: Held(100), 4: Held(100)})
    assert rows_of(cluster, 3, 9) == (9, [3, 4, 5, 6, 7, 8])
    assert cluster.calls == [(4, ReadRows(1, 3, 9, 2, 500)), (2, ReadRows(1, 4, 9, 2, 500))]
    assert cluster.knowledge.highest == 99


def test_a_stretch_ends_before_the_first_row_that_one_set_does_not_give() -> None:
    assert rows_of(Cluster({2: Held(6), 4: Held(100)}), 0, 20) == (6, [0, 1, 2, 3, 4, 5])
    assert rows_of(Cluster({2: Held(100), 4: Held(100, rows_max=2)}), 0, 20) == (5, [0, 1, 2, 3, 4])


@pytest.mark.parametrize(
    "answer", [NO_ANSWER, EpochIs(9, True), RowsHold(99, ((1, ENTRY),)), RowsHold(9, ((2, ENTRY),))]
)
def test_a_set_that_does_not_say_what_was_asked_gives_nothing(answer: Any) -> None:
    assert rows_of(Cluster({2: Held(100), 4: answer}), 0, 10) == (1, [0])
    assert rows_of(Cluster({2: Held(100), 4: answer}), 1, 10) == (1, [])


def test_parts_are_asked_for_at_once_and_count_as_far_as_those_before_are_whole() -> None:
    cluster = Cluster({2: Held(100), 4: Held(100)})
    assert rows_of(cluster, 0, 16, parts=4) == (16, list(range(16)))
    assert [(unit, call.start, call.stop, call.bytes_max) for unit, call in cluster.calls] == [
        (2, 0, 8, 250),
        (4, 1, 8, 250),
        (2, 8, 16, 250),
        (4, 9, 16, 250),
    ]
    assert rows_of(Cluster({2: Held(100, rows_max=2), 4: Held(100)}), 0, 16, parts=4) == (4, [0, 1, 2, 3])


def test_below_what_was_settled_any_unit_is_asked_and_no_further() -> None:
    cluster = Cluster(dict.fromkeys((1, 2, 3, 4), Held(1000)))
    cluster.known(settled=300)
    assert rows_of(cluster, 298, 310) == (300, [298, 299])
    rows_of(cluster, 299, 310)
    rows_of(cluster, 0, 310)
    assert {unit for unit, _ in cluster.calls} == {1, 2, 3, 4}
    assert all(call.stop == 300 for _, call in cluster.calls)
    cluster.effects.clear()
    rows_of(cluster, 300, 310)
    assert [(unit, call.stop) for unit, call in cluster.calls] == [(2, 310), (4, 310)], "the last ones"


def test_rows_that_are_empty_by_the_projection_are_passed_and_a_stretch_ends_with_its_range() -> None:
    cluster = Cluster({2: Held(1000), 4: Held(1000)})
    cluster.raft.apply(cluster.raft.index + 1, NextEpoch(1, (1, 2, 3, 4), 20, 5, ((1, 2), (3, 4)), 1, 100))
    known = cluster.raft.known
    assert known is not None
    cluster.knowledge = Knowledge(known, sequencers=(1, 2))
    assert rows_of(cluster, 18, 150) == (21, [18, 19, 20])
    assert rows_of(cluster, 21, 150) == (100, [])
    assert rows_of(cluster, 100, 103) == (103, [100, 101, 102])


def test_a_unit_gives_rows_up_to_the_first_that_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk()
    for row in (1, 3, 5, 9):
        desk.asks("w", Write(1, row, ENTRY))
    desk.sync()
    desk.asks("w", Write(1, 7, ENTRY))
    call = ReadRows(1, 1, 20, 2, 1000)
    assert desk.asks("r", call) == [ReplyRange("r", call, 7)], "the row is not on the disk yet"
    desk.sync()
    desk.asks("t", TrimRows(1, 11, 12))
    desk.sync()
    assert desk.asks("r", call) == [ReplyRange("r", call, 13)], "what was trimmed is not waited for"
    assert desk.asks("r", ReadRows(2, 1, 20, 2, 1000)) == [Reply("r", EpochIs(1, False))]
    monkeypatch.setattr(units, "STRETCH_ROWS_MAX", 2)
    assert desk.asks("r", call) == [ReplyRange("r", call, 5)]


# On a disk, and over the wire


def entry(number: int, size: int = 100) -> Entry:
    return entry_of(build([bytes([number % 251]) * size], timestamp_us=number, producer=(1, 1, number)), number)


def store_of(disk: SimDisk, *groups: dict[int, Entry]) -> UnitStore:
    create(disk, "unit", UUID(int=5))
    store = UnitStore(disk, "unit", segment_bytes=4096)
    for group in groups:
        changes = [RowChange(row, each) for row, each in group.items()]
        store.noted(changes, store.commit(changes))
        for change in changes:
            store.state.apply(change)
    return store


def test_rows_are_read_in_order_however_they_lie() -> None:
    rows = list(range(60))
    for low in range(0, 60, 6):
        Random(low).shuffle(chunk := rows[low : low + 6])
        rows[low : low + 6] = chunk
    disk = SimDisk()
    store = store_of(disk, *({row: JUNK if row % 7 == 0 else entry(row)} for row in rows))
    store.state.apply(TrimChange(11, 13))
    for each in (store, UnitStore(disk, "unit", segment_bytes=4096)):
        each.state.trims.apply(11, 13, 0)
        for bytes_max in (1, 500, 1 << 20):
            at = 0
            found: dict[int, Entry] = {}
            while at < 60:
                some, following = each.read_some(at, 60, 1, bytes_max)
                assert following > at
                sizes = [held.batch.total_bytes for _, held in some if held.batch is not None]
                assert len(sizes) < 2 or sum(sizes) <= bytes_max
                found |= dict(some)
                at = following
            wanted = {row: JUNK if row % 7 == 0 else entry(row) for row in range(60) if row not in (11, 12)}
            assert (found, list(found)) == (wanted, sorted(wanted))
            assert [held.time_us for row, held in found.items() if row % 7] == [row for row in wanted if row % 7]
        assert [row for row, _ in each.read_some(5, 60, 10, 1 << 20)[0]] == [5, 15, 25, 35, 45, 55]


def test_what_does_not_check_out_ends_a_stretch() -> None:
    disk = SimDisk()
    store = store_of(disk, {row: entry(row, 70_000) for row in range(4)})
    path = next(f"unit/lane/{name}" for name in disk.list("unit/lane") if name.endswith(".seg"))
    disk.flip_bit(path, 2 * 70_500, 1)
    assert store.read_some(0, 4, 1, 1 << 20)[1] == 2
    assert store.read_some(2, 4, 1, 1 << 20) == ([], 2)


def test_rows_come_over_the_wire_as_they_are_and_nothing_that_was_changed_does() -> None:
    answer = RowsHold(9, ((1, entry(1)), (3, JUNK), (5, entry(5, 3))), 7, 8)
    message, parts = said_answer(answer)
    payload = b"".join(map(bytes, parts))
    heard = heard_answer(message, payload)
    assert isinstance(heard, RowsHold)
    assert (heard, heard.first, heard.highest) == (answer, 7, 8)
    assert isinstance(message, RowsContent)
    wrong = [
        structs.replace(message, rows=(1, 3)),
        structs.replace(message, sizes=(0, 0, 0)),
        structs.replace(message, sizes=message.sizes[::-1]),
        structs.replace(message, sizes=(message.sizes[0] - 8, 8, message.sizes[2])),
        structs.replace(message, sizes=(message.sizes[0] - 8, 0, message.sizes[2] + 8)),
        structs.replace(message, times_us=()),
    ]
    for each in wrong:
        with pytest.raises(IthacaError):
            heard_answer(each, payload)
    placed = {at + offset for at in (0, message.sizes[0]) for offset in range(48, 60)}
    for at in sorted(set(range(len(payload))) - placed):
        with pytest.raises(IthacaError):
            heard_answer(message, payload[:at] + bytes([payload[at] ^ 4]) + payload[at + 1 :])
    for cut in range(0, len(payload), 8):
        with pytest.raises(IthacaError):
            heard_answer(message, payload[:cut])
