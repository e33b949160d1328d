"""Where rows lie for readers of files: by the last unit of a chain, or below what it says, and under one epoch."""

from random import Random
from typing import Any

import pytest
from tests.engines.corfu.played import ENTRY, Played
from tests.engines.corfu.test_unit import Desk

from ithaca.engines.corfu.sequencing import unit as units
from ithaca.engines.corfu.sequencing.calls import EpochIs, LocateRows, RowLocations, TrimRows, Write
from ithaca.engines.corfu.sequencing.commands import NextEpoch
from ithaca.engines.corfu.sequencing.flows.flow import NO_ANSWER
from ithaca.engines.corfu.sequencing.flows.locating import LaneRows, LocatedRows, located
from ithaca.engines.corfu.sequencing.unit import Reply, ReplyRange
from ithaca.engines.corfu.storage import row_index
from ithaca.engines.corfu.storage.row_index import FrozenBlock, Place, RowIndex
from ithaca.sim.disk import SimDisk


class Held:
    """A unit that has all rows below some row, in a directory here or, without one, on another machine."""

    def __init__(self, directory: str, up_to: int, first: int = 0, page: int = 100) -> None:
        self._directory = directory
        self._up_to = up_to
        self._first = first
        self._page = page

    def answer(self, call: LocateRows) -> RowLocations:
        asked = range(call.start, call.stop, call.step)[: self._page]
        rows = [row for row in asked if row < self._up_to]
        missing = [row for row in asked if row >= self._up_to]
        up_to = missing[0] if missing else min(call.stop, asked[-1] + call.step)
        if not self._directory:
            return RowLocations(up_to, self._first)
        return RowLocations(up_to, self._first, self._directory, 1, 2, tuple(rows), tuple(10 * row for row in rows))


class World(Played):
    """Two sets of two units each: (1 2) and (3 4)."""

    def _unit(self, unit: int, call: Any) -> Any:
        told = self.units.get(unit)
        return (
            told.answer(call) if isinstance(told, Held) and isinstance(call, LocateRows) else super()._unit(unit, call)
        )


def found_in(world: World, start: int, stop: int) -> LocatedRows:
    found: LocatedRows = world.run(located(world.knowledge, start, stop, "here"))
    return found


def test_rows_of_all_sets_are_found_at_the_last_units_of_their_chains() -> None:
    world = World({2: Held("/two", 100, page=2), 4: Held("/four", 100)})
    found = found_in(world, 3, 12)
    assert found.up_to == 12
    assert dict(found.lanes) == {
        0: LaneRows(12, ("/two", 1, 2), [4, 6, 8, 10], [40, 60, 80, 100]),
        1: LaneRows(12, ("/four", 1, 2), [3, 5, 7, 9, 11], [30, 50, 70, 90, 110]),
    }


def test_where_the_last_unit_is_elsewhere_it_says_what_is_complete() -> None:
    world = World({1: Held("/one", 100), 2: Held("", 6), 4: Held("/four", 100)})
    found = found_in(world, 0, 20)
    assert found.up_to == 6, "the head has more, which may not be complete"
    assert dict(found.lanes)[0].rows == [0, 2, 4]


def test_files_end_where_a_row_is_missing() -> None:
    found = found_in(World({2: Held("/two", 100), 4: Held("/four", 7)}), 0, 20)
    assert found.up_to == 7


@pytest.mark.parametrize("answer", [NO_ANSWER, EpochIs(9, True)])
def test_without_a_unit_of_a_set_there_are_no_files(answer: Any) -> None:
    world = World({1: answer, 2: answer, 4: Held("/four", 100)})
    assert found_in(world, 0, 20).up_to == 0
    assert found_in(world, 1, 2).up_to == 2, "of a range without rows of that set there are"


def test_what_was_found_under_an_epoch_that_is_over_does_not_count() -> None:
    world = World({2: Held("/two", 100), 4: Held("/four", 100)})
    world.raft.apply(world.raft.index + 1, NextEpoch(1, (1, 2, 3, 4), 20, 5, ((1, 2), (3, 4)), 1, 100))
    assert found_in(world, 0, 20) == LocatedRows(0, [])
    assert world.knowledge.epoch == 2, "the next scan knows better"


def test_what_was_trimmed_is_heard() -> None:
    world = World({2: Held("/two", 100, first=77), 4: Held("/four", 100)})
    found_in(world, 0, 20)
    assert world.knowledge.first == 77


def test_a_unit_tells_of_rows_up_to_the_first_that_it_lacks() -> None:
    desk = Desk()
    for row in (1, 3, 5, 9):
        desk.asks("w", Write(1, row, ENTRY))
    desk.sync()
    desk.asks("w", Write(1, 7, ENTRY))
    call = LocateRows(1, "here", 1, 20, 2)
    assert desk.asks("r", call) == [ReplyRange("r", call, 7)], "the row is not on the disk yet"
    desk.sync()
    assert desk.asks("r", call) == [ReplyRange("r", call, 11)]
    desk.asks("t", TrimRows(1, 11, 12))
    desk.sync()
    assert desk.asks("r", call) == [ReplyRange("r", call, 13)], "what was trimmed is not waited for"
    assert desk.asks("r", LocateRows(2, "here", 1, 20, 2)) == [Reply("r", EpochIs(1, False))]


def test_a_unit_tells_of_some_rows_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(units, "LOCATED_ROWS_MAX", 2)
    desk = Desk()
    for row in range(1, 13):
        desk.asks("w", Write(1, row, ENTRY))
    desk.sync()
    call = LocateRows(1, "here", 1, 13, 3)
    assert desk.asks("r", call) == [ReplyRange("r", call, 7)]


def test_the_index_says_where_rows_are_in_whatever_order_they_came(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_index, "BLOCK_ROWS", 8)
    random = Random(1)
    disk = SimDisk()
    disk.make_directory("unit")
    index = RowIndex(disk, "unit")
    rows = random.sample(range(100), 60)
    frozen: list[FrozenBlock] = []
    for lsn, row in enumerate(rows):
        index.add(row, lsn, 0)
        if index.is_due:
            frozen.append(index.freeze(lsn + 1))
            while frozen and random.random() < 0.5:
                index.store(frozen[0])
                index.stored(frozen.pop(0))
    assert frozen, "some are still on their way to the file"
    for _ in range(200):
        start, stop, step = random.randrange(110), random.randrange(110), random.randint(1, 5)
        wanted = [row for row in range(start, stop, step) if row in rows]
        assert index.places(start, stop, step) == (wanted, [Place(rows.index(row), 0) for row in wanted])
