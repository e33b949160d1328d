"""A storage unit: rows that are written once, one epoch at a time (§2.1 of the paper).

Changes become durable in the order in which they were accepted, and an answer that tells of one waits for it. What was
accepted and is not synced yet takes its row, and is shown to nobody. Since the seal is a change like any other, its
answer comes behind all writes that were accepted before it: none of them lands later.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar
from uuid import UUID

from ithaca.engines.corfu.sequencing.calls import (
    AwaitRow,
    CallRefused,
    EpochIs,
    GetHighest,
    GetSessionTail,
    GetTrims,
    HighestIs,
    Install,
    ListMissing,
    LocateRows,
    MissingRows,
    OtherIdentity,
    Read,
    ReadRows,
    RowsTrimmed,
    RowTrimmed,
    RowUnwritten,
    RowWritten,
    Seal,
    SessionTailReply,
    TakeTrims,
    TrimRows,
    TrimsAre,
    UnitAnswer,
    UnitCall,
    UnitInstalled,
    UnitSealed,
    Write,
)
from ithaca.engines.corfu.sequencing.entries import Entry
from ithaca.engines.corfu.sequencing.limits import (
    LOCATED_ROWS_MAX,
    MISSING_ROWS_MAX,
    STRETCH_ROWS_MAX,
    UNIT_READERS_MAX,
    UNIT_WRITES_MAX,
)
from ithaca.engines.corfu.sequencing.placed import PlacedTable
from ithaca.engines.corfu.sequencing.rows import NONE
from ithaca.engines.corfu.sequencing.trims import Trims

CallerT = TypeVar("CallerT")


class HeldRows(Protocol):
    """The rows that a unit has durably, trimmed or not."""

    def __contains__(self, row: int) -> bool: ...

    def missing(self, start: int, stop: int, step: int, count: int) -> tuple[list[int], int]:
        """The first rows of `range(start, stop, step)` that are not among them, at most `count`, and where to go on."""


@dataclass(frozen=True, slots=True)
class RowChange:
    """A row is written."""

    row: int
    entry: Entry


@dataclass(frozen=True, slots=True)
class EpochChange:
    """The unit accepts this epoch, or has sealed it."""

    epoch: int
    is_sealed: bool


@dataclass(frozen=True, slots=True)
class TrimChange:
    """The rows `[low, high)` go, and of the log everything before a position."""

    low: int
    high: int
    before: int = 0


@dataclass(frozen=True, slots=True)
class CopiedChange:
    """What another unit has trimmed, and what it remembers of sessions."""

    copied: TakeTrims


Change = RowChange | EpochChange | TrimChange | CopiedChange


@dataclass(slots=True)
class UnitState:
    """What a unit's changes add up to, beside its rows; made again from them when it starts."""

    epoch: int
    is_sealed: bool
    highest: int
    time_us: int
    trims: Trims
    placed: PlacedTable

    @classmethod
    def new(cls) -> "UnitState":
        return cls(0, True, NONE, 0, Trims(), PlacedTable())

    def apply(self, change: Change) -> None:
        """Take in the next change; the same again changes nothing."""
        match change:
            case RowChange(row, entry):
                self.highest = max(self.highest, row)
                self.time_us = max(self.time_us, entry.time_us)
                if entry.stamp is not None:
                    self.placed.add(row, entry.stamp)
            case EpochChange(epoch, is_sealed):
                if (epoch, is_sealed) > (self.epoch, self.is_sealed):
                    self.epoch, self.is_sealed = epoch, is_sealed
            case TrimChange():
                self.trims.apply(change.low, change.high, change.before)
            case CopiedChange(copied):
                self.trims.take(copied.below, copied.ranges, copied.first)
                self.placed.take(copied.placed, is_forgetful=copied.is_forgetful)


@dataclass(frozen=True, slots=True)
class Asked(Generic[CallerT]):
    """Somebody asks; the answer goes to `caller`."""

    caller: CallerT
    call: UnitCall


@dataclass(frozen=True, slots=True)
class Synced:
    """The changes up to this number are durable, and the rows in them are among the held ones."""

    number: int


@dataclass(frozen=True, slots=True)
class WaitOver:
    """This reader has waited long enough."""

    reader: int


@dataclass(frozen=True, slots=True)
class Persist:
    """Make a change durable behind all earlier ones. Numbers rise by one."""

    number: int
    change: Change


@dataclass(frozen=True, slots=True)
class Reply(Generic[CallerT]):
    caller: CallerT
    answer: UnitAnswer


@dataclass(frozen=True, slots=True)
class ReplyHeld(Generic[CallerT]):
    """Answer with what is in this row, which is held: `RowHolds`."""

    caller: CallerT
    row: int


@dataclass(frozen=True, slots=True)
class StartWait:
    """Have `WaitOver` come after this time."""

    reader: int
    ms: int


@dataclass(frozen=True, slots=True)
class ReplyRange(Generic[CallerT]):
    """Answer with where the rows lie that were asked for, and are below this one, or with what they hold:
    `RowLocations`, `RowsHold`.
    """

    caller: CallerT
    call: LocateRows | ReadRows
    up_to: int


UnitEvent = Asked[CallerT] | Synced | WaitOver
UnitEffect = Persist | Reply[CallerT] | ReplyHeld[CallerT] | ReplyRange[CallerT] | StartWait


class Unit(Generic[CallerT]):
    """The core of one unit. `state` is of what is durable; `held` grows as changes are synced."""

    def __init__(self, identity: UUID, state: UnitState, held: HeldRows) -> None:
        self.identity = identity
        self.state = state
        self._held = held
        self.epoch, self.is_sealed = state.epoch, state.is_sealed
        """With what is accepted and not yet durable."""
        self._number = self._synced = 0
        self._changes: deque[Change] = deque()
        self._rows: dict[int, int] = {}
        """Rows that are accepted and not yet held, and the numbers of their changes."""
        self._trims: list[TrimChange] = []
        self._waiting: deque[tuple[int, UnitEffect[CallerT]]] = deque()
        """Answers that wait for a number, in the order of these."""
        self._readers: dict[int, tuple[int, CallerT]] = {}
        """Readers that wait, each for a row."""
        self._awaited: dict[int, list[int]] = {}
        """The same by row."""
        self._reader = 0

    @property
    def writes(self) -> int:
        """How many are accepted and not yet durable."""
        return len(self._rows)

    @property
    def readers(self) -> int:
        """How many wait for a row."""
        return len(self._readers)

    def step(self, event: UnitEvent[CallerT]) -> Sequence[UnitEffect[CallerT]]:
        match event:
            case Synced(number):
                return self._note_synced(number)
            case WaitOver(reader):
                return self._told(reader, RowUnwritten())
            case Asked(caller, call):
                return self._answer(caller, call)

    def _note_synced(self, number: int) -> list[UnitEffect[CallerT]]:
        assert self._synced <= number <= self._number, f"{number} changes are synced of {self._number}"
        there: list[int] = []
        while self._synced < number:
            self._synced += 1
            change = self._changes.popleft()
            self.state.apply(change)
            if isinstance(change, RowChange):
                self._rows.pop(change.row)
                if change.row in self._awaited:
                    there.append(change.row)
            elif isinstance(change, TrimChange):
                self._trims.remove(change)
                there += [row for row in self._awaited if row in self.state.trims]
        told: list[UnitEffect[CallerT]] = []
        while self._waiting and self._waiting[0][0] <= number:
            told.append(self._waiting.popleft()[1])
        told = [effect if not _is_seal(effect) else self._sealed_now(effect) for effect in told]
        for row in there:
            for reader in self._awaited.pop(row, ()):
                told.append(self._read(self._readers.pop(reader)[1], row))
        return told

    def _sealed_now(self, effect: UnitEffect[CallerT]) -> Reply[CallerT]:
        """What is highest counts with everything that was synced before the seal."""
        assert isinstance(effect, Reply)
        assert isinstance(effect.answer, UnitSealed)
        return Reply(effect.caller, UnitSealed(effect.answer.epoch, self.state.highest, self.state.time_us))

    def _answer(self, caller: CallerT, call: UnitCall) -> Sequence[UnitEffect[CallerT]]:
        match call:
            case Seal():
                return self._seal(caller, call)
            case Install():
                return self._install(caller, call)
            case GetTrims():
                return [Reply(caller, self._trims_told())]
            case TakeTrims():
                return self._take_trims(caller, call)
        if call.epoch != self.epoch or self.is_sealed:
            return [Reply(caller, EpochIs(self.epoch, self.is_sealed))]
        match call:
            case Write():
                return self._write(caller, call)
            case Read(_, row):
                return [self._read(caller, row)]
            case AwaitRow(_, row, wait_ms):
                return [self._await(caller, row, wait_ms)]
            case TrimRows(_, low, high, before):
                return self._trim(caller, TrimChange(low, high, before))
            case ListMissing(_, start, stop, step):
                return [Reply(caller, self._missing(start, stop, step))]
            case LocateRows():
                return [self._range(caller, call, LOCATED_ROWS_MAX)]
            case ReadRows():
                return [self._range(caller, call, STRETCH_ROWS_MAX)]
            case GetSessionTail(_, producer):
                return [Reply(caller, SessionTailReply(self.state.placed.of(producer), self.state.placed.is_forgetful))]
            case GetHighest():
                return [Reply(caller, HighestIs(self.state.highest, self.state.time_us))]

    # Rows

    def _write(self, caller: CallerT, call: Write) -> Sequence[UnitEffect[CallerT]]:
        row, entry = call.row, call.entry
        if self._is_trimmed(row):
            return self._after(self._number, Reply(caller, self._trimmed_answer(row, entry)))
        if row in self._rows:
            return self._after(self._rows[row], ReplyHeld(caller, row))
        if row in self._held:
            return [ReplyHeld(caller, row)]
        if len(self._rows) >= UNIT_WRITES_MAX:
            return [Reply(caller, CallRefused("too many writes wait for the disk"))]
        self._rows[row] = self._number + 1
        return self._change(RowChange(row, entry), Reply(caller, RowWritten()))

    def _trimmed_answer(self, row: int, entry: Entry) -> UnitAnswer:
        """A batch that was there before its row was trimmed was written, and must not be written elsewhere."""
        if entry.stamp is not None and self.state.placed.holds(row, entry.stamp):
            return RowWritten()
        return RowTrimmed(self.state.trims.first)

    def _read(self, caller: CallerT, row: int) -> Reply[CallerT] | ReplyHeld[CallerT]:
        if row in self.state.trims:
            return Reply(caller, RowTrimmed(self.state.trims.first))
        return ReplyHeld(caller, row) if row in self._held else Reply(caller, RowUnwritten())

    def _await(self, caller: CallerT, row: int, wait_ms: int) -> UnitEffect[CallerT]:
        found = self._read(caller, row)
        is_there = isinstance(found, ReplyHeld) or not isinstance(found.answer, RowUnwritten)
        if is_there or not wait_ms or len(self._readers) >= UNIT_READERS_MAX:
            return found
        self._reader += 1
        self._readers[self._reader] = row, caller
        self._awaited.setdefault(row, []).append(self._reader)
        return StartWait(self._reader, wait_ms)

    def _told(self, reader: int, answer: UnitAnswer) -> Sequence[UnitEffect[CallerT]]:
        """The answer to a reader, unless it has got one."""
        if reader not in self._readers:
            return []
        row, caller = self._readers.pop(reader)
        waiting = self._awaited[row]
        waiting.remove(reader)
        if not waiting:
            del self._awaited[row]
        return [Reply(caller, answer)]

    def _missing(self, start: int, stop: int, step: int) -> MissingRows:
        start = _aligned(self.state.trims.below, start, step)
        rows, following = self._held.missing(start, stop, step, MISSING_ROWS_MAX)
        return MissingRows(tuple(row for row in rows if row not in self.state.trims), min(following, stop))

    def _range(self, caller: CallerT, call: LocateRows | ReadRows, rows_max: int) -> UnitEffect[CallerT]:
        """At most so many rows, up to the first that is missing."""
        missing = self._missing(call.start, min(call.stop, call.start + rows_max * call.step), call.step)
        return ReplyRange(caller, call, missing.rows[0] if missing.rows else missing.next)

    def _is_trimmed(self, row: int) -> bool:
        """Also by what is not durable yet: nothing may be written behind it."""
        return row in self.state.trims or any(each.low <= row < each.high for each in self._trims)

    def _trim(self, caller: CallerT, change: TrimChange) -> Sequence[UnitEffect[CallerT]]:
        trims = self.state.trims
        is_done = change.low >= change.high or change.high <= trims.below
        if is_done and change.before <= trims.first:
            return [Reply(caller, RowsTrimmed())]
        if change.low and trims.is_full:
            return [
                Reply(caller, CallRefused("too many ranges of rows were trimmed: trim the log up to some position"))
            ]
        self._trims.append(change)
        return self._change(change, Reply(caller, RowsTrimmed()))

    def _trims_told(self) -> TrimsAre:
        trims, placed = self.state.trims, self.state.placed
        sessions = tuple((producer, tuple(batches)) for producer, batches in placed.items())
        return TrimsAre(trims.below, trims.ranges, trims.first, sessions, placed.is_forgetful)

    def _take_trims(self, caller: CallerT, call: TakeTrims) -> Sequence[UnitEffect[CallerT]]:
        if call.epoch != self.epoch or not self.is_sealed:
            return [Reply(caller, EpochIs(self.epoch, self.is_sealed))]
        return self._change(CopiedChange(call), Reply(caller, RowsTrimmed()))

    # Epochs

    def _seal(self, caller: CallerT, call: Seal) -> Sequence[UnitEffect[CallerT]]:
        epoch = call.epoch
        if call.identity != self.identity:  # it has lost what it had: it vouches for nothing
            return [Reply(caller, OtherIdentity(self.identity))]
        if epoch < self.epoch:
            return [Reply(caller, EpochIs(self.epoch, self.is_sealed))]
        answer = Reply(caller, UnitSealed(epoch, NONE, 0))  # the rest is filled in when it is durable
        if (epoch, True) == (self.epoch, self.is_sealed):
            return self._after(self._number, answer)
        return self._enter(epoch, is_sealed=True, answer=answer)

    def _install(self, caller: CallerT, call: Install) -> Sequence[UnitEffect[CallerT]]:
        if call.identity != self.identity:
            return [Reply(caller, OtherIdentity(self.identity))]
        if call.epoch < self.epoch or (call.epoch == self.epoch and self.is_sealed):
            return [Reply(caller, EpochIs(self.epoch, self.is_sealed))]
        if call.epoch == self.epoch:
            return self._after(self._number, Reply(caller, UnitInstalled()))
        return self._enter(call.epoch, is_sealed=False, answer=Reply(caller, UnitInstalled()))

    def _enter(self, epoch: int, *, is_sealed: bool, answer: UnitEffect[CallerT]) -> Sequence[UnitEffect[CallerT]]:
        """Whoever waits under the epoch before has waited for nothing."""
        self.epoch, self.is_sealed = epoch, is_sealed
        ended = [Reply(caller, EpochIs(epoch, is_sealed)) for _, caller in self._readers.values()]
        self._readers.clear()
        self._awaited.clear()
        return [*ended, *self._change(EpochChange(epoch, is_sealed), answer)]

    # Durability

    def _change(self, change: Change, answer: UnitEffect[CallerT]) -> Sequence[UnitEffect[CallerT]]:
        self._number += 1
        self._changes.append(change)
        self._waiting.append((self._number, answer))
        return [Persist(self._number, change)]

    def _after(self, number: int, answer: UnitEffect[CallerT]) -> Sequence[UnitEffect[CallerT]]:
        """Once everything up to this number is durable."""
        if number <= self._synced:
            return [self._sealed_now(answer) if _is_seal(answer) else answer]
        at = len(self._waiting)
        while at and self._waiting[at - 1][0] > number:
            at -= 1
        self._waiting.insert(at, (number, answer))
        return []


def _is_seal(effect: UnitEffect[CallerT]) -> bool:
    return isinstance(effect, Reply) and isinstance(effect.answer, UnitSealed)


def _aligned(row: int, start: int, step: int) -> int:
    """The first row of `start`, `start + step` … that is not below `row`."""
    return start + max(0, -(-(row - start) // step)) * step
