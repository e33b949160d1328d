"""What goes by itself: a leader trims what is older, or more, than the cluster's file says.

Age is that of the producers' times, as in a directory: a batch is as old as the newest time up to it.
"""

import asyncio
import logging

from ithaca.consumers.holding import ConsumerHold
from ithaca.engines.raft.replog.entries import TrimLog
from ithaca.engines.raft.server.leading import RangeLeaderService
from ithaca.engines.raft.server.machine import LogMachine
from ithaca.engines.raft.storage.shared_log import SharedLog
from ithaca.model.errors import IthacaError
from ithaca.model.limits import RETENTION_CHECK_S
from ithaca.model.positions import lsn_of, position_of
from ithaca.model.records import Retention
from ithaca.runtime.machine import monotonic_s, wall_us
from ithaca.runtime.raft.ports import Waiter

_log = logging.getLogger("ithaca.raft")


class Retaining:
    """Looks every `RETENTION_CHECK_S`, during one term."""

    def __init__(
        self, retention: Retention | None, machine: LogMachine, store: SharedLog, leading: RangeLeaderService
    ) -> None:
        self._retention = retention
        self._machine = machine
        self._store = store
        self._leading = leading
        self._hold = None if retention is None else ConsumerHold.of(retention)
        self._task = None if retention is None else asyncio.create_task(self._look_on(retention))

    def end(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _look_on(self, retention: Retention) -> None:
        while True:
            await asyncio.sleep(RETENTION_CHECK_S)
            if not self._leading.is_ready:
                continue
            try:
                lsn = await asyncio.to_thread(self._due, retention)
            except IthacaError as error:
                _log.warning("retention could not look: %s", error)
                continue
            if self._hold is not None:
                allowed = self._hold.allowed(position_of(lsn), self._machine.state.consumers, monotonic_s())
                lsn = lsn_of(allowed)
            if lsn > self._machine.state.trim_lsn:
                self._leading.propose(TrimLog(lsn), Waiter(lambda _: None, _not_trimmed))

    def _due(self, retention: Retention) -> int:
        """The LSN before which everything is to go, of what is agreed on."""
        lane, due = self._store.lane, 0
        if retention.bytes is not None:
            due = lane.oldest_beyond(retention.bytes)
        if retention.age is not None:
            due = max(due, lane.seek_time(wall_us() - int(retention.age.total_seconds() * 1_000_000)))
        return min(due, self._machine.state.length)


def _not_trimmed(error: IthacaError) -> None:
    _log.info("retention trimmed nothing, and tries again: %s", error)
