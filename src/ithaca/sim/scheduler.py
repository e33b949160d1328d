"""Virtual time: what is to happen when, on which simulated process, one thing after the other.

Things happen in the order of their times and, at the same time, in the order in which they were planned, so a
run depends on nothing but what plans them. A process that is dead does nothing any more. One that is paused, or
busy with a slow disk, does what is due once it goes on, in the same order.
"""

import heapq
from collections.abc import Callable

NS_PER_S = 1_000_000_000


class Planned:
    """One thing that is to happen. It can be called off."""

    __slots__ = ("act", "at_ns", "number", "who")

    def __init__(self, at_ns: int, number: int, who: "Actor | None", act: Callable[[], object] | None) -> None:
        self.at_ns = at_ns
        self.number = number
        self.who = who
        self.act = act

    def cancel(self) -> None:
        self.act = None


class Actor:
    """Whatever things happen to: a simulated process, alive until it is killed."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_alive = True
        self.is_paused = False
        self.busy_until_ns = 0
        """It does nothing else before."""
        self.stalled: list[Planned] = []
        """What came due while it was paused."""

    def enter(self) -> None:
        """Called before something happens to it."""


class Scheduler:
    """The one clock of a world."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.count = 0
        """Things that have happened."""
        self._heap: list[tuple[int, int, Planned]] = []
        """By time and number, which no two share: comparing goes no further."""
        self._number = 0

    def plan(self, delay_ns: int, who: Actor | None, act: Callable[[], object]) -> Planned:
        """Have something happen after a delay."""
        return self.plan_at(self.now_ns + max(0, delay_ns), who, act)

    def plan_at(self, at_ns: int, who: Actor | None, act: Callable[[], object]) -> Planned:
        self._number += 1
        planned = Planned(max(at_ns, self.now_ns), self._number, who, act)
        if who is None or who.is_alive:
            self._push(planned)
        return planned

    def _push(self, planned: Planned) -> None:
        heapq.heappush(self._heap, (planned.at_ns, planned.number, planned))

    def resume(self, who: Actor) -> None:
        """Let a paused process go on with what came due meanwhile."""
        who.is_paused = False
        stalled, who.stalled = who.stalled, []
        for planned in stalled:
            planned.at_ns = self.now_ns
            self._push(planned)

    def clear(self) -> None:
        """Nothing that was planned happens any more."""
        self._heap.clear()

    def next_ns(self) -> int | None:
        """When the next thing happens; None when nothing is planned."""
        while self._heap and self._heap[0][2].act is None:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def step(self) -> Actor | None:
        """Let the next thing happen, if it can; says to whom it did."""
        planned = heapq.heappop(self._heap)[2]
        act, who = planned.act, planned.who
        if act is None:
            return None
        self.now_ns = planned.at_ns
        if who is not None:
            if not who.is_alive:
                return None
            if who.is_paused:
                who.stalled.append(planned)
                return None
            if who.busy_until_ns > self.now_ns:
                planned.at_ns = who.busy_until_ns
                self._push(planned)
                return None
            who.enter()
        self.count += 1
        act()
        return who
