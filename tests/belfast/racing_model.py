"""Entries that race: whatever leaders proposed from whatever they had applied, in any order, once or again.

A leader proposes what is due in a state; the proposal may be applied at once, or after others that overtook it, as when
leaders change with entries uncommitted. So every state hands its proposals to all states behind it, and each of them
may come next. What the lanes hold is fixed: the truth that every leader is told.
"""

import copy
from collections import deque
from collections.abc import Iterator

import msgspec

from ithaca.engines.belfast.speculation.entries import CutRange, EndFree, FailLane, OpenWindow, SlotEntry, TakeLane
from ithaca.engines.belfast.speculation.order import SlotOrder
from ithaca.engines.belfast.speculation.outcomes import SlotsOrdered, VoidEntry, WindowOpened
from ithaca.engines.belfast.speculation.windows import Window
from ithaca.engines.scalog.ordering.lanes import LaneTable
from ithaca.model.positions import LaneId

Truth = dict[LaneId, dict[int, int]]
"""Of each lane: the cuts in which it has records, and its length behind each."""


class Violation(AssertionError):
    """An entry did what it must not."""


class RacingState:
    """An order with the history that judges it."""

    def __init__(self, lanes: tuple[LaneId, ...]) -> None:
        self.table = LaneTable()
        for lane in lanes:
            self.table.open(lane, 0)
        self.order = SlotOrder(self.table)
        self.windows: dict[int, Window] = {}
        """By number, as they were opened."""
        self.records: dict[int, tuple[LaneId, int]] = {}
        """What is at each position."""

    def key(self) -> bytes:
        return msgspec.msgpack.encode((self.order.packed(), self.table.packed()))

    def after(self, entry: SlotEntry) -> "RacingState | None":
        """None if the entry is void; it changed nothing then."""
        then = copy.deepcopy(self)
        before, tail, attempt = then.key(), then.order.tail, then.order.attempt
        outcomes = then.order.apply(entry)
        if any(isinstance(outcome, VoidEntry) for outcome in outcomes):
            _see(len(outcomes) == 1 and then.key() == before, f"{entry} is void, and changed something")
            return None
        _see(then.order.tail >= tail and then.order.attempt >= attempt, f"{entry} turned the order back")
        for outcome in outcomes:
            if isinstance(outcome, WindowOpened):
                then._opened(outcome.window)
            elif isinstance(outcome, SlotsOrdered):
                then._ordered(outcome)
        if isinstance(entry, CutRange):
            said = {lane: length for _, lanes in entry.used for lane, length in lanes}
            _see(all(then.table.ordered_length(lane) == length for lane, length in said.items()), f"{entry} in part")
        return then

    def _opened(self, window: Window) -> None:
        _see(window.number not in self.windows, f"window {window.number} is opened twice")
        for other in self.windows.values():
            _see(other.end <= window.base and other.end_cut <= window.first_cut, "windows overlap")
        _see(all(map(self.table.is_open, window.layout.lanes)), "a closed lane has slots")
        self.windows[window.number] = window

    def _ordered(self, ordered: SlotsOrdered) -> None:
        (window,) = (each for each in self.windows.values() if each.first_cut <= ordered.cut < each.end_cut)
        for run in ordered.lane_runs():
            share = window.share(run.lane)
            _see(share is not None and share.start(ordered.cut) == run.position, f"{run} is not where it was predicted")
            for number in range(run.count):
                _see(run.position + number not in self.records, f"position {run.position + number} is used twice")
                self.records[run.position + number] = (run.lane, run.lsn + number)


def proposals(state: RacingState, truth: Truth, cuts_max: int) -> Iterator[SlotEntry]:
    """What a leader that has applied all of it may propose."""
    order = state.order
    is_open = [lane for lane in truth if state.table.is_open(lane)]
    for lane in is_open:
        yield FailLane(lane)
        length = state.table.ordered_length(lane)
        if order.mode == "fixed" and length:
            yield TakeLane(lane, length)
    if order.mode == "free":
        yield EndFree(order.number, order.attempt)
    elif order.mode == "ending":
        lengths = tuple((lane, state.table.ordered_length(lane) or 0) for lane in is_open)
        if is_open:
            yield OpenWindow(order.number + 1, 0, 2, 1, (1,), tuple(is_open), order.attempt, lengths)
    else:
        if is_open and order.end_cut < cuts_max:
            yield OpenWindow(order.number + 1, order.end, 2, 1, (1,), tuple(is_open), order.attempt)
        yield OpenWindow(order.number + 1, order.end, 0, 1, (), (), order.attempt)
        for stop in range(order.cut + 1, min(order.end_cut, order.cut + 2) + 1):
            used = ((cut, _used(truth, is_open, cut)) for cut in range(order.cut, stop))
            yield CutRange(order.attempt, order.cut, stop, tuple(each for each in used if each[1]))


def _used(truth: Truth, lanes: list[LaneId], cut: int) -> tuple[tuple[LaneId, int], ...]:
    return tuple((lane, truth[lane][cut]) for lane in lanes if cut in truth[lane])


def search(truth: Truth, *, depth: int, cuts_max: int) -> tuple[int, int]:
    """Visit every race; how many states there were, and how many entries were void."""
    start = RacingState(tuple(truth))
    pool = frozenset(proposals(start, truth, cuts_max))
    seen = {(start.key(), pool)}
    queue = deque([(start, pool, 0)])
    void = 0
    while queue:
        state, pool, steps = queue.popleft()
        for entry in sorted(pool, key=msgspec.msgpack.encode):  # so that the first violation is always the same
            then = state.after(entry)
            if then is None:
                void += 1
                continue
            wider = pool | frozenset(proposals(then, truth, cuts_max))
            if steps + 1 < depth and (then.key(), wider) not in seen:
                seen.add((then.key(), wider))
                queue.append((then, wider, steps + 1))
    return len(seen), void


def _see(holds: bool, what: str) -> None:
    if not holds:
        raise Violation(what)
