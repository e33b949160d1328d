"""Whether anybody is at the other end of a link to the order, be it the leader or an aggregator.

TCP tells when a process or a machine is gone, late; not when a process hangs. Idle links are quiet by design, so
silence alone says nothing: whoever waits asks, and leaves when nobody answers.
"""

import asyncio
from collections.abc import Callable

from ithaca.engines.scalog.messages.aggregation import Probe
from ithaca.model.limits import ORDER_PROBE_IDLE_S, ORDER_PROBE_S, ORDER_SILENT_S
from ithaca.runtime.connection import Connection


class Watch:
    """Watches one connection from now on, until it is stopped."""

    def __init__(self, connection: Connection, silent: Callable[[], None]) -> None:
        """`silent` is called once, when nobody has answered for too long."""
        self._connection = connection
        self._silent = silent
        self._loop = asyncio.get_running_loop()
        self._heard_s = self._loop.time()
        self._asked_s: float | None = None
        self._is_waiting = False
        self._timer = self._loop.call_later(ORDER_PROBE_S, self._look)

    def heard(self) -> None:
        """Something came."""
        self._heard_s = self._loop.time()
        self._asked_s = None
        self._is_waiting = False

    def waits(self) -> None:
        """Something was sent that is to be followed by news."""
        self._is_waiting = True

    def stop(self) -> None:
        self._timer.cancel()

    def _look(self) -> None:
        now_s = self._loop.time()
        if self._asked_s is not None:
            if now_s - self._asked_s >= ORDER_SILENT_S:
                self._silent()
                return
        elif now_s - self._heard_s >= (ORDER_PROBE_S if self._is_waiting else ORDER_PROBE_IDLE_S):
            self._asked_s = now_s
            self._connection.send(Probe(), correlation=self._connection.next_correlation())
        self._timer = self._loop.call_later(ORDER_PROBE_S, self._look)
