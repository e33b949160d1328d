"""The client's part: the streams of all lanes merged by position, confirmed by real cuts, and undone by failures.

A position is passed when it was delivered, or when its owner's watermark says that it is empty; so the merge waits for
exactly the lanes that have slots where it stands. Nothing is inferred from silence. What is ordered and was read counts
for all lanes, so that a stream that breaks is made up for.
"""

from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

from ithaca.engines.belfast.limits import SPECULATED_RECORDS_MAX
from ithaca.engines.belfast.speculation.delivery_events import (
    AttemptFailed,
    Confirmed,
    Delivered,
    Failed,
    FetchWindow,
    LaneEnds,
    LaneRecords,
    LaneWatermark,
    OrderedRange,
    OrderedRecords,
    OrderedWatermark,
    OrderReached,
    SpeculatorEffect,
    SpeculatorEvent,
    WindowFetched,
)
from ithaca.engines.belfast.speculation.windows import Window
from ithaca.model.positions import FIRST, LaneId


class _Piece(NamedTuple):
    """Records at consecutive positions."""

    position: int
    records: int
    batch: object

    @property
    def stop(self) -> int:
        return self.position + self.records


class _Lane:
    """What came of one lane and is not confirmed, in order."""

    __slots__ = ("end", "failed_from", "last", "pieces", "watermark")

    def __init__(self) -> None:
        self.pieces: list[_Piece] = []
        self.watermark = 0
        self.last: int | None = None
        """No record from here on, once the lane is closed."""
        self.end = 0
        self.failed_from: int | None = None

    def take(self, piece: _Piece) -> int:
        """Keep it, unless it is known or has failed; returns how many records are here that were not."""
        if self.failed_from is not None and piece.position >= self.failed_from:
            return 0
        row = bisect_right(self.pieces, piece.position, key=_position)
        if row and self.pieces[row - 1].stop > piece.position:
            return 0
        self.pieces.insert(row, piece)
        return piece.records

    def fail_from(self, position: int) -> int:
        """Nothing from this position on is of this lane; returns how many records that was."""
        self.failed_from = position
        row = bisect_left(self.pieces, position, key=_position)
        dropped = sum(piece.records for piece in self.pieces[row:])
        del self.pieces[row:]
        return dropped

    def is_over(self, position: int) -> bool:
        """Whether the lane is closed, and has nothing of its own at this position or behind it."""
        return self.last is not None and max(self.last, self.end) <= position

    def passed(self, position: int) -> int:
        """Below it every slot is here, or empty, for a merge that has come to this position."""
        is_over = self.last is not None and max(self.watermark, position) >= self.last
        return max(self.watermark, self.end) if is_over else self.watermark

    def find(self, position: int) -> _Piece | None:
        """The piece at this position, or else the first behind it."""
        row = bisect_right(self.pieces, position, key=_position)
        if row and self.pieces[row - 1].stop > position:
            return self.pieces[row - 1]
        return self.pieces[row] if row < len(self.pieces) else None

    def drop_below(self, position: int) -> int:
        """Forget what is confirmed; returns how many records that is."""
        row = bisect_right(self.pieces, position, key=_stop)
        dropped = sum(piece.records for piece in self.pieces[:row])
        del self.pieces[:row]
        return dropped


class Speculator:
    """One subscription, from a position on."""

    def __init__(self, start: int = FIRST, attempt: int = 1) -> None:
        self._start = start
        self.position = start
        """The next position: all before it is delivered or empty."""
        self.attempt = attempt
        self._lanes: dict[LaneId, _Lane] = {}
        """Those that are open, or have slots that are not confirmed."""
        self._over: dict[int, LaneId] = {}
        """The last lane of each shard that is not among them any more."""
        self.held = 0
        """Records that are here and not confirmed: at `SPECULATED_RECORDS_MAX` the streams wait."""
        self._windows: list[Window] = []
        self._ranges: list[OrderedRange] = []
        self._read = _Lane()
        """What was read of ranges without slots."""
        self._confirmed = start
        """All before this position is confirmed."""
        self._said = start - 1
        """Up to which position that was said."""
        self._tails: dict[int, int] = {attempt: start}
        """How far the order is known to reach, by attempt."""
        self._failures: deque[AttemptFailed] = deque()
        self._asked = 0
        self._effects: list[SpeculatorEffect] = []

    @property
    def confirmed(self) -> int:
        """All before this position is final."""
        return self._confirmed

    @property
    def has_room(self) -> bool:
        return self.held < SPECULATED_RECORDS_MAX

    @property
    def is_behind(self) -> bool:
        """Whether more is ordered than was delivered, or found to be empty."""
        return self.position < max(self._tails.values())

    def goes_by_streams(self, sent_from: Mapping[LaneId, int]) -> bool:
        """Whether the lanes say all that comes next, so that what is ordered need not be read: windows are known, and
        each lane of theirs is among those that have sent all that they have from some position on, which is passed."""
        ahead = [window for window in self._windows if window.end > self.position]
        lanes = {lane for window in ahead for lane in window.layout.lanes}
        sent = (sent_from.get(lane) for lane in lanes)
        return self._window() is not None and all(start is not None and start <= self.position for start in sent)

    def waits_for(self) -> LaneId | None:
        """The lane without which the merge cannot go on, if it is one."""
        window = self._window()
        return None if window is None else window.slot(self.position).lane

    def step(self, event: SpeculatorEvent) -> list[SpeculatorEffect]:
        match event:
            case LaneRecords():
                piece = _Piece(event.position, event.records, event.batch)
                if piece.stop > self._confirmed:
                    self.held += self._lane(event.lane).take(piece)
            case LaneWatermark():
                if event.position > self._confirmed:
                    lane = self._lane(event.lane)
                    lane.watermark = max(lane.watermark, event.position)
            case LaneEnds():
                if event.lane in self._lanes or max(event.last, event.end) > self._confirmed:
                    lane = self._lane(event.lane)
                    lane.last, lane.end = event.last, event.end
            case WindowFetched():
                if event.window.base not in {window.base for window in self._windows}:
                    insort(self._windows, event.window, key=_base)
            case OrderedRange():
                self._ranges = sorted([*(each for each in self._ranges if each.base != event.base), event])
            case OrderedRecords():
                piece = _Piece(event.position, event.records, event.batch)
                if piece.stop > self._confirmed:
                    self.held += self._read.take(piece)
            case OrderedWatermark():
                self._read.watermark = max(self._read.watermark, event.position)
            case OrderReached():
                self._tails[event.attempt] = max(self._tails.get(event.attempt, 0), event.tail)
            case AttemptFailed():
                if event.attempt > self.attempt and event not in self._failures:
                    insort(self._failures, event, key=_attempt)
        self._merge()
        effects, self._effects = self._effects, []
        return effects

    def _lane(self, lane: LaneId) -> _Lane:
        return self._lanes.setdefault(lane, _Lane())

    # Merging

    def _merge(self) -> None:
        while True:
            self._deliver()
            self._confirm()
            if not self._fail():
                return

    def _limit(self) -> int | None:
        """Nothing from here on is delivered under this attempt: it has failed there."""
        if not self._failures or self._failures[0].attempt != self.attempt + 1:
            # A failure before this one is not known yet: where it was, everything may have changed.
            return self.position if self._failures else None
        return self._failures[0].after + 1

    def _deliver(self) -> None:
        limit = self._limit()
        while limit is None or self.position < limit:
            before = self.position
            window = self._window()
            if self.position < self._read.watermark:
                stop = self._read.watermark if limit is None else min(self._read.watermark, limit)
                self._pass(self._read, stop, stop)
            elif window is not None:
                if window.attempt > self.attempt:
                    return  # the failure before it is to be learnt first
                self._pass_slots(window, limit)
            elif (found := self._range()) is not None:
                self._pass_ordered(found, limit)
            elif self._asked != self.position:
                self._asked = self.position
                self._effects.append(FetchWindow(self.position))
            if self.position == before:
                return

    def _pass_slots(self, window: Window, limit: int | None) -> None:
        """Go on by the slots of one lane in one cut, or less."""
        slot = window.slot(self.position)
        stop = self.position - slot.rank + window.layout.shares[slot.lane].q
        lane = self._lane(slot.lane)
        if limit is not None:
            stop = min(stop, limit)
        self._pass(lane, min(stop, lane.passed(self.position)), stop)

    def _pass_ordered(self, found: OrderedRange, limit: int | None) -> None:
        stop = found.end if limit is None else min(found.end, limit)
        self._pass(self._read, self.position, stop)

    def _pass(self, lane: _Lane, empty_to: int, stop: int) -> None:
        """Deliver what is next of the lane before `stop`; without that, all before `empty_to` is empty."""
        piece = lane.find(self.position)
        if piece is not None and piece.position <= self.position < stop:
            skipped = self.position - piece.position
            self._effects.append(Delivered(piece.position, piece.records, piece.batch, self.attempt, skipped))
            self.position = piece.stop
        elif piece is not None and piece.position < empty_to:
            self.position = max(self.position, piece.position)
        else:
            self.position = max(self.position, empty_to)

    def _window(self) -> Window | None:
        row = bisect_right(self._windows, self.position, key=_base) - 1
        return self._windows[row] if row >= 0 and self.position < self._windows[row].end else None

    def _range(self) -> OrderedRange | None:
        return next((each for each in self._ranges if each.base <= self.position < each.end), None)

    # Confirming and failing

    def _confirm(self) -> None:
        """Never more than was delivered."""
        reached = min(self._tails.get(self.attempt, 0), self.position)
        if reached > self._confirmed:
            self._confirmed = reached
            self._say_confirmed()
            self._forget()

    def _say_confirmed(self) -> None:
        if self._said < self._confirmed - 1:
            self._said = self._confirmed - 1
            self._effects.append(Confirmed(self._said, self.attempt))

    def _forget(self) -> None:
        self.held -= sum(lane.drop_below(self._confirmed) for lane in (*self._lanes.values(), self._read))
        for name in [name for name, lane in self._lanes.items() if lane.is_over(self._confirmed)]:
            # All that is said of it from here on is about positions that are confirmed.
            del self._lanes[name]
            self._over[name.shard] = name
        self._windows = [window for window in self._windows if window.end > self._confirmed]
        self._ranges = [each for each in self._ranges if each.end > self._confirmed]

    def _fail(self) -> bool:
        """The next failure, once all before it is delivered and confirmed."""
        limit = self._limit()
        if limit is None or not self._failures or self._failures[0].attempt != self.attempt + 1:
            return False
        if self.position < limit:
            return False
        failure = self._failures.popleft()
        self._tails[self.attempt] = max(self._tails.get(self.attempt, 0), limit)
        self._confirmed = max(self._confirmed, limit)
        self._say_confirmed()
        self._forget()
        if self._over.get(failure.lane.shard) != failure.lane:
            self.held -= self._lane(failure.lane).fail_from(limit)
        self._tails.pop(self.attempt)
        self.attempt = failure.attempt
        self._tails.setdefault(self.attempt, limit)
        self.position = max(limit, self._start)
        self._effects.append(Failed(failure.after, failure.attempt))
        return True


def _position(piece: _Piece) -> int:
    return piece.position


def _stop(piece: _Piece) -> int:
    return piece.stop


def _base(window: Window) -> int:
    return window.base


def _attempt(failure: AttemptFailed) -> int:
    return failure.attempt
