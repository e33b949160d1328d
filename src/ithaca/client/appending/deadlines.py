"""Deadlines of appends, without a timer per record: all have the same time, so they run out as they came."""

import asyncio
from collections import deque
from collections.abc import Callable

from ithaca.client.intake import Slot, refuse
from ithaca.runtime.checks import too_late

_COMPACT_MIN = 4096


class Deadlines:
    """Slots in the order in which their time is up; what was answered is forgotten early."""

    def __init__(self, timeout_s: float, passed: Callable[[], object]) -> None:
        """`passed` is called when the time of some was up."""
        self._timeout_s = timeout_s
        self._passed = passed
        self._loop = asyncio.get_running_loop()
        self._slots: deque[tuple[float, Slot]] = deque()
        self._compact_at = _COMPACT_MIN
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._slots)

    @property
    def is_waited_for(self) -> bool:
        """Whether somebody wants an answer that there is not."""
        return any(not slot.done() for _, slot in self._slots)

    def add(self, slot: Slot) -> None:
        self._slots.append((self._loop.time() + self._timeout_s, slot))
        if self._timer is None:
            self._timer = self._loop.call_at(self._slots[0][0], self._run_out)
        if len(self._slots) > self._compact_at:
            self._slots = deque(each for each in self._slots if not each[1].done())
            self._compact_at = max(_COMPACT_MIN, 2 * len(self._slots))

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._slots.clear()

    def _run_out(self) -> None:
        self._timer = None
        now_s, slots = self._loop.time(), self._slots
        while slots and (slots[0][0] <= now_s or slots[0][1].done()):
            refuse(slots.popleft()[1], too_late(self._timeout_s))
        if slots:
            self._timer = self._loop.call_at(slots[0][0], self._run_out)
        self._passed()
