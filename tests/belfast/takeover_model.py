"""A small exhaustive model of takeover: one shard of three replicas, two records, three windows of one slot each.

Every interleaving of placing, passing, copying, acknowledging, delivering, ordering, crashes, followers that lose their
disk, a takeover that may be begun twice, and the lane that follows. The order is the real `SlotOrder`, built again for
every state of it; which copy wins and where it is ordered is decided by the real functions. What a replica does is
written out here, so that each of the five rules can be left out. What is written and not synced at a follower is as
good as not there, and is left out; so is the way of a report, since an order that is late for it is late only.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from ithaca.engines.belfast.speculation.entries import CutRange, EndFree, OpenWindow, SlotEntry, TakeLane
from ithaca.engines.belfast.speculation.order import SlotOrder
from ithaca.engines.belfast.speculation.outcomes import VoidEntry
from ithaca.engines.belfast.speculation.places import PlacedRun
from ithaca.engines.belfast.speculation.takeover import final_ends, longest
from ithaca.engines.scalog.ordering.lanes import LaneTable
from ithaca.model.positions import LaneId

FIRST_LANE, NEXT_LANE = LaneId(0, 0, 1), LaneId(0, 1, 1)
COPIES = 2


@dataclass(frozen=True)
class Rules:
    """What is left out to see that it is needed."""

    durable_promises: bool = True
    longest_copy: bool = True
    order_before_close: bool = True
    horizon: bool = True
    disks: bool = True


@dataclass(frozen=True)
class Bounds:
    crashes: int = 1
    takeovers: int = 1
    losses: int = 0
    """Followers that are back with an emptied disk."""
    records: int = 2
    windows: int = 3


class Order(NamedTuple):
    """Where the order stands."""

    first_windows: int = 1
    next_windows: int = 0
    """Those that list the next lane, behind the others."""
    cut: int = 0
    ordered: int = 0
    """Of the first lane."""
    is_open: bool = True
    has_next: bool = False


class Copy(NamedTuple):
    """A replica, and what it has of the first lane."""

    synced: int = 0
    sent: int = 0
    """Acknowledged, and on the way."""
    acked: int = 0
    """Acknowledged, and arrived."""
    is_alive: bool = True
    has_promised: bool = False
    answered: int = -1
    """The length that came with the promise."""
    is_other: bool = False
    """Whether its disk is another than the one that the order names."""


class State(NamedTuple):
    order: Order = Order()
    places: tuple[int, ...] = ()
    """The cut of each record that the first primary has placed."""
    cut: int = 0
    """Where it places next."""
    copies: tuple[Copy, ...] = (Copy(), Copy(), Copy())
    delivered: int = 0
    told: int = 0
    """The highest watermark that a client heard: a cut."""
    is_primary: bool = True
    """Whether the first primary was never started again."""
    phase: str = "none"
    length: int = 0
    final: tuple[tuple[int, int], ...] | None = None
    second: int | None = None
    """The cut in which the next lane has placed a record."""
    crashes: int = 0
    takeovers: int = 0
    losses: int = 0


START = State()


@cache
def built(order: Order, places: tuple[int, ...]) -> SlotOrder:
    """The real one; none of its entries is void."""
    lanes = LaneTable()
    lanes.open(FIRST_LANE, 0)
    slots = SlotOrder(lanes)

    def apply(entry: SlotEntry) -> None:
        for outcome in slots.apply(entry):
            assert not isinstance(outcome, VoidEntry), f"{outcome}"

    apply(EndFree(0, 1))
    for number in range(1, order.first_windows + 1):
        lengths = ((FIRST_LANE, 0),) if number == 1 else ()
        apply(OpenWindow(number, slots.end if number > 1 else 0, 1, 1, (1,), (FIRST_LANE,), 1, lengths))
    ends = {cut: record + 1 for record, cut in enumerate(places[: order.ordered])}
    for cut in range(order.cut):
        apply(CutRange(1, cut, cut + 1, ((cut, ((FIRST_LANE, ends[cut]),)),) if cut in ends else ()))
    if not order.is_open:
        apply(TakeLane(FIRST_LANE, order.ordered))
    if order.has_next:
        lanes.open(NEXT_LANE, 0)
    for _ in range(order.next_windows):
        apply(OpenWindow(slots.number + 1, slots.end, 1, 1, (1,), (NEXT_LANE,), 1))
    assert lanes.ordered_length(FIRST_LANE) == order.ordered
    assert slots.cut == order.cut
    return slots


def violation(state: State) -> str | None:
    """What must never be so."""
    order = state.order
    for record in range(state.delivered):
        if record >= order.ordered and (not order.is_open or state.places[record] < order.cut):
            return f"record {record} was delivered in cut {state.places[record]} and is not ordered there"
    for record in range(order.ordered):
        if state.places[record] < state.told and record >= state.delivered:
            return f"record {record} is ordered below a watermark under which it was not delivered"
    if state.second is not None and state.second < state.told:
        return f"cut {state.second} was told to be passed, and the next lane uses it"
    return None


class Model:
    """All that can happen next."""

    def __init__(self, rules: Rules, bounds: Bounds) -> None:
        self._rules = rules
        self._bounds = bounds

    def search(self) -> tuple[int, str | None]:
        """How many states there are, and the first violation on a shortest way to one."""
        seen = {START}
        queue = deque([START])
        while queue:
            for step in self.steps(queue.popleft()):
                first, *followers = step.copies
                state = step._replace(copies=(first, *sorted(followers)))  # either follower may be the other
                if state not in seen:
                    found = violation(state)
                    if found is not None:
                        return len(seen), found
                    seen.add(state)
                    queue.append(state)
        return len(seen), None

    def steps(self, state: State) -> Iterator[State]:
        yield from self._first_primary(state)
        yield from self._crashes(state)
        yield from self._orders(state)
        if state.order.is_open:
            yield from self._takes_over(state)
        else:
            yield from self._goes_on(state)

    # The first primary

    def _first_primary(self, state: State) -> Iterator[State]:
        own = state.copies[0]
        if not (own.is_alive and state.is_primary):
            return
        for replica in (1, 2):
            copy = state.copies[replica]
            if copy.is_alive and copy.synced < len(state.places):
                # Whoever has promised syncs, and does not acknowledge; another disk does, and it does not count.
                counts = not (copy.has_promised or self._is_out(copy))
                sent = max(copy.sent, copy.synced + 1) if counts else copy.sent
                yield _with(state, replica, copy._replace(synced=copy.synced + 1, sent=sent))
            if copy.acked < copy.sent:
                yield self._tells(_with(state, replica, copy._replace(acked=copy.sent)))
        if own.synced < len(state.places):
            yield self._tells(_with(state, 0, own._replace(synced=len(state.places))))
        if state.cut < state.order.first_windows and not own.has_promised:
            passed = state._replace(cut=state.cut + 1)
            yield self._tells(passed)
            if len(state.places) < self._bounds.records:
                yield self._tells(passed._replace(places=(*state.places, state.cut)))

    def _durable(self, state: State) -> int:
        own, *followers = state.copies
        return sorted((own.synced, *(copy.acked for copy in followers)), reverse=True)[COPIES - 1]

    def _tells(self, state: State) -> State:
        """What is durable is delivered at once, unless the primary itself has promised."""
        if state.copies[0].has_promised:
            return state
        durable = self._durable(state)
        told = state.places[durable] if durable < len(state.places) else state.cut
        return state._replace(delivered=max(durable, state.delivered), told=max(told, state.told))

    # Trouble

    def _crashes(self, state: State) -> Iterator[State]:
        for replica, copy in enumerate(state.copies):
            if not copy.is_alive:
                yield _with(state, replica, copy._replace(is_alive=True))
            elif state.crashes < self._bounds.crashes:
                promised = copy.has_promised and self._rules.durable_promises
                down = copy._replace(is_alive=False, has_promised=promised, sent=copy.acked)
                yield _with(state, replica, down)._replace(
                    is_primary=state.is_primary and replica != 0, crashes=state.crashes + 1
                )

        if state.losses < self._bounds.losses:
            for replica in (1, 2):
                # What it acknowledged is on its way or has arrived; what it promised is gone with the disk.
                lost = state.copies[replica]._replace(synced=0, has_promised=False, is_other=True)
                yield _with(state, replica, lost)._replace(losses=state.losses + 1)

    def _is_out(self, copy: Copy) -> bool:
        """Whether neither its acknowledgements nor its promises count."""
        return copy.is_other and self._rules.disks

    # The order

    def _orders(self, state: State) -> Iterator[State]:
        order = state.order
        if order.first_windows + order.next_windows < self._bounds.windows:
            if order.is_open:
                yield state._replace(order=order._replace(first_windows=order.first_windows + 1))
            elif order.has_next:
                yield state._replace(order=order._replace(next_windows=order.next_windows + 1))
        if order.cut < order.first_windows:
            ends = self._ends(state)
            if ends is not None:
                after = order._replace(cut=order.cut + 1, ordered=ends.get(order.cut, order.ordered))
                built(after, state.places)
                yield state._replace(order=after)

    def _ends(self, state: State) -> dict[int, int] | None:
        """Where the first lane's cuts end, if the next one is done."""
        if not state.order.is_open:
            return {}
        if state.final is not None:
            return dict(state.final)
        if not (state.is_primary and state.copies[0].is_alive):
            return None
        ends = {placed: number + 1 for number, placed in enumerate(state.places)}
        is_done = state.order.cut < state.cut and ends.get(state.order.cut, 0) <= self._durable(state)
        return ends if is_done and not state.copies[0].has_promised else None

    # Takeover

    def _takes_over(self, state: State) -> Iterator[State]:
        if state.takeovers < self._bounds.takeovers:
            # Another leader begins again: promises are there, and are answered again.
            yield state._replace(
                phase="promising",
                takeovers=state.takeovers + 1,
                copies=tuple(copy._replace(answered=-1) for copy in state.copies),
                final=None,
                length=0,
            )
        if state.phase == "promising":
            yield from self._promises(state)
        elif state.phase == "copying":
            yield from self._completes(state)
        elif state.phase == "ordering" and (state.order.ordered >= state.length or not self._rules.order_before_close):
            after = state.order._replace(is_open=False)
            built(after, state.places)
            yield state._replace(order=after, phase="done")

    def _promises(self, state: State) -> Iterator[State]:
        for replica, copy in enumerate(state.copies):
            if copy.is_alive and copy.answered < 0 and not self._is_out(copy):
                after = _with(state, replica, copy._replace(has_promised=True, answered=copy.synced))
                promised = {each: copy.answered for each, copy in enumerate(after.copies) if copy.answered >= 0}
                if len(promised) >= COPIES:
                    length = promised[longest(promised)] if self._rules.longest_copy else min(promised.values())
                    after = after._replace(phase="copying", length=length)
                yield after

    def _completes(self, state: State) -> Iterator[State]:
        """Copies are completed from each other, and synced."""
        has = [copy for copy in state.copies if copy.answered >= 0 and copy.synced >= state.length]
        if len(has) >= COPIES:
            placed = [PlacedRun(number, cut + 1, 1) for number, cut in enumerate(state.places)]
            order = built(state.order, state.places)
            ends, length = final_ends(order, placed, state.order.ordered, state.length)
            yield state._replace(phase="ordering", final=tuple(sorted(ends.items())), length=length)
        elif any(copy.is_alive for copy in has):
            for replica, copy in enumerate(state.copies):
                if copy.is_alive and copy.answered >= 0 and copy.synced < state.length:
                    yield _with(state, replica, copy._replace(synced=state.length))

    def _goes_on(self, state: State) -> Iterator[State]:
        """The next lane opens, and places one record."""
        order = state.order
        if not order.has_next:
            yield state._replace(order=order._replace(has_next=True))
        elif state.second is None:
            first = order.first_windows if self._rules.horizon else order.cut
            for cut in range(max(first, order.cut), order.first_windows + order.next_windows):
                yield state._replace(second=cut)


def _with(state: State, replica: int, copy: Copy) -> State:
    copies = state.copies
    return state._replace(copies=(*copies[:replica], copy, *copies[replica + 1 :]))
