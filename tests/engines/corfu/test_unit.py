"""The core of a unit: write once, one epoch at a time, and nothing told before it is durable."""

from typing import Any
from uuid import UUID

from tests.engines.corfu.world import Rows

from ithaca.engines.corfu.sequencing.calls import (
    AwaitRow,
    CallRefused,
    EpochIs,
    GetSessionTail,
    Install,
    ListMissing,
    MissingRows,
    OtherIdentity,
    Read,
    RowsTrimmed,
    RowTrimmed,
    RowUnwritten,
    RowWritten,
    Seal,
    SessionTailReply,
    TrimRows,
    UnitInstalled,
    UnitSealed,
    Write,
)
from ithaca.engines.corfu.sequencing.entries import JUNK, Entry, Stamp
from ithaca.engines.corfu.sequencing.limits import UNIT_READERS_MAX, UNIT_WRITES_MAX
from ithaca.engines.corfu.sequencing.rows import first_position
from ithaca.engines.corfu.sequencing.unit import (
    Asked,
    Persist,
    Reply,
    ReplyHeld,
    RowChange,
    StartWait,
    Synced,
    Unit,
    UnitState,
    WaitOver,
)

IDENTITY = UUID(int=1)


def batch(number: int) -> Entry:
    return Entry(Stamp(1, 1, number, 1, number), time_us=number)


class Desk:
    """A unit whose disk syncs when it is told to."""

    def __init__(self) -> None:
        self.rows = Rows()
        self.unit: Unit[str] = Unit(IDENTITY, UnitState.new(), self.rows)
        self.unsynced: list[Persist] = []
        self.asks("i", Install(1, IDENTITY))
        self.sync()

    def asks(self, caller: str, call: Any) -> list[Any]:
        return self._perform(self.unit.step(Asked(caller, call)))

    def sync(self, count: int | None = None) -> list[Any]:
        synced = self.unsynced[: len(self.unsynced) if count is None else count]
        del self.unsynced[: len(synced)]
        for each in synced:
            if isinstance(each.change, RowChange):
                self.rows[each.change.row] = each.change.entry
        return self._perform(self.unit.step(Synced(synced[-1].number))) if synced else []

    def waits_no_more(self, reader: int) -> list[Any]:
        return self._perform(self.unit.step(WaitOver(reader)))

    def _perform(self, effects: Any) -> list[Any]:
        told = []
        for effect in effects:
            if isinstance(effect, Persist):
                self.unsynced.append(effect)
            else:
                told.append(effect)
        return told


def test_a_write_is_told_when_it_is_durable_and_not_shown_before() -> None:
    desk = Desk()
    assert desk.asks("a", Write(1, 5, batch(1))) == []
    assert desk.asks("b", Read(1, 5)) == [Reply("b", RowUnwritten())]
    assert desk.asks("c", Write(1, 5, JUNK)) == [], "somebody else has the row: told when that is durable"
    assert desk.sync() == [Reply("a", RowWritten()), ReplyHeld("c", 5)]
    assert desk.asks("d", Read(1, 5)) == [ReplyHeld("d", 5)]
    assert desk.asks("e", Write(1, 5, batch(2))) == [ReplyHeld("e", 5)]


def test_who_waits_for_a_row_is_told_when_it_is_durable() -> None:
    desk = Desk()
    assert desk.asks("r", AwaitRow(1, 5, 100)) == [StartWait(1, 100)]
    assert desk.asks("s", AwaitRow(1, 5, 200)) == [StartWait(2, 200)]
    assert desk.asks("t", AwaitRow(1, 6, 100)) == [StartWait(3, 100)]
    assert desk.waits_no_more(2) == [Reply("s", RowUnwritten())]
    desk.asks("a", Write(1, 5, batch(1)))
    assert desk.unit.readers == 2, "nothing is shown before it is durable"
    assert desk.sync() == [Reply("a", RowWritten()), ReplyHeld("r", 5)]
    assert desk.waits_no_more(1) == [], "it has its answer"
    assert desk.asks("u", AwaitRow(1, 5, 100)) == [ReplyHeld("u", 5)]
    assert desk.asks("u", AwaitRow(1, 7, 0)) == [Reply("u", RowUnwritten())]
    assert desk.unit.readers == 1


def test_who_waits_is_told_of_a_trim_and_of_the_end_of_the_epoch() -> None:
    desk = Desk()
    desk.asks("r", AwaitRow(1, 5, 100))
    desk.asks("s", AwaitRow(1, 9, 100))
    desk.asks("t", TrimRows(1, 0, 6))
    assert desk.sync() == [Reply("t", RowsTrimmed()), Reply("r", RowTrimmed())]
    assert desk.asks("e", Seal(1, IDENTITY)) == [Reply("s", EpochIs(1, True))]
    assert desk.unit.readers == 0
    assert desk.waits_no_more(2) == []


def test_readers_that_wait_are_bounded() -> None:
    desk = Desk()
    for row in range(UNIT_READERS_MAX):
        desk.asks("r", AwaitRow(1, row, 100))
    assert desk.asks("s", AwaitRow(1, 0, 100)) == [Reply("s", RowUnwritten())]
    desk.waits_no_more(1)
    assert desk.asks("s", AwaitRow(1, 0, 100)) == [StartWait(UNIT_READERS_MAX + 1, 100)]


def test_the_seal_comes_behind_every_write_that_was_accepted() -> None:
    desk = Desk()
    desk.asks("a", Write(1, 3, batch(1)))
    assert desk.asks("s", Seal(1, IDENTITY)) == []
    assert desk.asks("b", Write(1, 4, batch(2))) == [Reply("b", EpochIs(1, True))], "nothing is accepted behind it"
    assert desk.sync(1) == [Reply("a", RowWritten())]
    assert desk.sync() == [Reply("s", UnitSealed(1, 3, 1))]
    assert desk.asks("t", Seal(1, IDENTITY)) == [Reply("t", UnitSealed(1, 3, 1))], "the same again is the same"


def test_a_seal_that_is_asked_for_again_waits_for_the_first() -> None:
    desk = Desk()
    desk.asks("s", Seal(1, IDENTITY))
    assert desk.asks("t", Seal(1, IDENTITY)) == []
    assert [reply.caller for reply in desk.sync()] == ["s", "t"]


def test_epochs_rise() -> None:
    desk = Desk()
    desk.asks("s", Seal(1, IDENTITY))
    desk.sync()
    assert desk.asks("i", Install(1, IDENTITY)) == [Reply("i", EpochIs(1, True))], "it was sealed"
    desk.asks("i", Install(2, IDENTITY))
    assert desk.sync() == [Reply("i", UnitInstalled())]
    assert desk.asks("i", Install(2, IDENTITY)) == [Reply("i", UnitInstalled())]
    assert desk.asks("s", Seal(1, IDENTITY)) == [Reply("s", EpochIs(2, False))]
    assert desk.asks("r", Read(1, 1)) == [Reply("r", EpochIs(2, False))]
    assert desk.asks("r", Read(3, 1)) == [Reply("r", EpochIs(2, False))]
    assert desk.asks("r", Read(2, 1)) == [Reply("r", RowUnwritten())]


def test_a_unit_that_lost_its_disk_is_another_one() -> None:
    desk = Desk()
    assert desk.asks("i", Install(2, UUID(int=2))) == [Reply("i", OtherIdentity(IDENTITY))]
    assert desk.asks("s", Seal(1, UUID(int=2))) == [Reply("s", OtherIdentity(IDENTITY))], "it vouches for no seal"
    assert desk.asks("r", Read(1, 1)) == [Reply("r", RowUnwritten())], "nor is it sealed by it"


def test_what_was_trimmed_is_not_written_and_a_batch_that_was_there_is_remembered() -> None:
    desk = Desk()
    desk.asks("a", Write(1, 0, batch(1)))
    desk.sync()
    assert desk.asks("t", TrimRows(1, 0, 2)) == []
    assert desk.asks("b", Write(1, 1, batch(2))) == [], "the trim is not durable yet: nothing is told of it"
    assert desk.sync() == [Reply("t", RowsTrimmed()), Reply("b", RowTrimmed())]
    assert desk.asks("c", Write(1, 0, batch(1))) == [Reply("c", RowWritten())]
    assert desk.asks("d", Write(1, 0, JUNK)) == [Reply("d", RowTrimmed())]
    assert desk.asks("e", Read(1, 0)) == [Reply("e", RowTrimmed())]
    assert desk.asks("f", GetSessionTail(1, 1))[0].answer.batches[0].row == 0


def test_a_trim_may_end_inside_a_row() -> None:
    desk = Desk()
    desk.asks("a", Write(1, 1, batch(1)))
    desk.sync()
    before = first_position(1) + 3
    assert desk.asks("t", TrimRows(1, 0, 1, before)) == []
    assert desk.sync() == [Reply("t", RowsTrimmed())]
    assert desk.asks("b", Read(1, 0)) == [Reply("b", RowTrimmed(before))]
    assert desk.asks("c", Read(1, 1)) == [ReplyHeld("c", 1)]
    assert desk.asks("t", TrimRows(1, 0, 1, before)) == [Reply("t", RowsTrimmed())], "the same again is the same"
    assert desk.asks("t", TrimRows(1, 0, 1, before + 1)) == []
    desk.sync()
    assert desk.unit.state.trims.first == before + 1


def test_missing_rows_are_those_neither_written_nor_trimmed() -> None:
    desk = Desk()
    for row in (1, 5, 9):
        desk.asks("w", Write(1, row, batch(row)))
    desk.asks("t", TrimRows(1, 7, 8))
    desk.asks("t", TrimRows(1, 0, 2))
    desk.sync()
    assert desk.asks("m", ListMissing(1, 1, 14, 2)) == [Reply("m", MissingRows((3, 11, 13), 14))]


def test_writes_that_wait_for_the_disk_are_bounded() -> None:
    desk = Desk()
    for row in range(UNIT_WRITES_MAX):
        desk.asks("w", Write(1, row, JUNK))
    answer = desk.asks("w", Write(1, UNIT_WRITES_MAX, JUNK))[0].answer
    assert isinstance(answer, CallRefused)
    desk.sync()
    assert desk.asks("w", Write(1, UNIT_WRITES_MAX, JUNK)) == []


def test_a_session_keeps_its_last_batches_whatever_order_they_came_in() -> None:
    desk = Desk()
    for row in (20, 3, 11):
        desk.asks("w", Write(1, row, batch(row)))
    desk.sync()
    answer = desk.asks("p", GetSessionTail(1, 1))[0].answer
    assert isinstance(answer, SessionTailReply)
    assert [placed.row for placed in answer.batches] == [3, 11, 20]
