"""The appends of a handle that are under way: their bytes, their deadlines, and whether somebody waits for one."""

import asyncio
from collections.abc import Callable, Sequence
from weakref import WeakSet

from ithaca.client.appending.deadlines import Deadlines
from ithaca.client.deadline import Deadline
from ithaca.client.inflight import InflightBytes
from ithaca.client.intake import Slot
from ithaca.model.records import Receipt


class UnderWay:
    """Those of named sessions have deadlines of their own, and are counted here all the same."""

    def __init__(
        self, inflight: InflightBytes, timeout_s: float, on_settled: Callable[[], None] = lambda: None
    ) -> None:
        """`inflight` is the handle's; `on_settled` is called when something is not under way any more."""
        self.inflight = inflight
        self._deadlines = Deadlines(timeout_s, inflight.look)
        self._session_slots: WeakSet[asyncio.Future[Receipt]] = WeakSet()
        self._on_settled = on_settled

    def add(self, size: int, slots: Sequence[Slot]) -> None:
        """So many bytes are under way in all; whoever waits is told when their time is up."""
        self.inflight.add(size)
        self._deadlines.add(slots)

    def add_of_session(self, size: int, slot: "asyncio.Future[Receipt]") -> None:
        """So many bytes of a session are under way, and this is where their answer goes."""
        self.inflight.add(size)
        self._session_slots.add(slot)

    def settle(self, size: int) -> None:
        """So many bytes are not under way any more."""
        self.inflight.settle(size)
        self._on_settled()

    async def drained(self, deadline: Deadline) -> None:
        """Wait until nothing is under way that somebody waits for; no longer than this."""
        await self.inflight.fallen_to(0, deadline.left_s, lambda: not self._is_waited_for)

    @property
    def _is_waited_for(self) -> bool:
        return self._deadlines.is_waited_for or any(not slot.done() for slot in self._session_slots)

    def close(self) -> None:
        """No deadline runs any more."""
        self._deadlines.close()
