"""Requests that came while nobody could answer them as the leader: kept for a moment, instead of being turned away.

Whoever looks for a leader in the middle of an election would come back later and later, and find it late. A server that
has known of no leader for longer answers at once: whoever asks may find one elsewhere.
"""

import asyncio
from collections.abc import Callable

from ithaca.model.limits import LEADER_WAIT_S_MAX, LEADER_WAITS_MAX
from ithaca.protocol.codec import Received
from ithaca.runtime.connection import Connection

Held = tuple[Connection, Received]


class LeaderWaits:
    """The requests of one orderer that wait for a leader: for a while since the last one was lost."""

    def __init__(self, turn_away: Callable[[Connection, Received], None]) -> None:
        """`turn_away` answers a request that has waited in vain."""
        self._turn_away = turn_away
        self._loop = asyncio.get_running_loop()
        self._since_s: float | None = self._loop.time()
        self._held: list[Held] = []
        self._timer: asyncio.TimerHandle | None = None

    def lost(self) -> None:
        """From now on nobody leads, as far as is known here."""
        if self._since_s is None:
            self._since_s = self._loop.time()

    def found(self) -> list[Held]:
        """Somebody leads: whoever waits can be answered."""
        self._since_s = None
        return self._take()

    def hold(self, connection: Connection, request: Received) -> bool:
        """Keep a request until somebody leads, if that is to be expected."""
        if self._since_s is None or len(self._held) >= LEADER_WAITS_MAX:
            return False
        left_s = self._since_s + LEADER_WAIT_S_MAX - self._loop.time()
        if left_s <= 0:
            return False
        self._held.append((connection, request))
        if self._timer is None:
            self._timer = self._loop.call_later(left_s, self._give_up)
        return True

    def close(self) -> None:
        self._take()

    def _give_up(self) -> None:
        for connection, request in self._take():
            if connection.is_open:
                self._turn_away(connection, request)

    def _take(self) -> list[Held]:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        held, self._held = self._held, []
        return held
