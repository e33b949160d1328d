"""Deadlines of appends, without a timer per record: all have the same time, so they run out as they came."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from ithaca.client.intake import Slot, refuse
from ithaca.runtime.checks import too_late

_COMPACT_MIN = 4096


class Deadlines:
    """Slots in the order in which their time is up, those together that came together; what was answered is forgotten
    early.
    """

    def __init__(self, timeout_s: float, passed: Callable[[], object]) -> None:
        """`passed` is called when the time of some was up."""
        self._timeout_s = timeout_s
        self._passed = passed
        self._loop = asyncio.get_running_loop()
        self._runs: deque[tuple[float, Sequence[Slot]]] = deque()
        self._count = 0
        self._compact_at = _COMPACT_MIN
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return self._count

    @property
    def is_waited_for(self) -> bool:
        """Whether somebody wants an answer that there is not."""
        return any(not slot.done() for _, slots in self._runs for slot in slots)

    def add(self, slots: Sequence[Slot]) -> None:
        """These have the same time from now on."""
        self._runs.append((self._loop.time() + self._timeout_s, slots))
        self._count += len(slots)
        if self._timer is None:
            self._timer = self._loop.call_at(self._runs[0][0], self._run_out)
        if self._count > self._compact_at:
            self._compact()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._runs.clear()
        self._count = 0

    def _compact(self) -> None:
        unanswered = ((due_s, [slot for slot in slots if not slot.done()]) for due_s, slots in self._runs)
        self._runs = deque(run for run in unanswered if run[1])
        self._count = sum(len(slots) for _, slots in self._runs)
        self._compact_at = max(_COMPACT_MIN, 2 * self._count)

    def _run_out(self) -> None:
        self._timer = None
        now_s, runs = self._loop.time(), self._runs
        while runs and (runs[0][0] <= now_s or all(slot.done() for slot in runs[0][1])):
            _, slots = runs.popleft()
            self._count -= len(slots)
            for slot in slots:
                refuse(slot, too_late(self._timeout_s))
        if runs:
            self._timer = self._loop.call_at(runs[0][0], self._run_out)
        self._passed()
