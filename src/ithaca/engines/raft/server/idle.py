"""Sessions that nobody uses expire: a leader looks every `SESSIONS_CHECK_S`, during one term."""

import asyncio
import logging

from ithaca.engines.raft.replog.idle import IdleSessions
from ithaca.engines.raft.server.leading import RangeLeaderService
from ithaca.model.errors import IthacaError
from ithaca.model.limits import SESSIONS_CHECK_S
from ithaca.runtime.raft.ports import Waiter

_log = logging.getLogger("ithaca.raft")


class IdleLooks:
    """What `replog.idle` says is proposed."""

    def __init__(self, named_idle_s: float | None, leading: RangeLeaderService) -> None:
        self._idle = IdleSessions(named_idle_s)
        self._leading = leading
        self._task = asyncio.create_task(self._look_on())

    def end(self) -> None:
        self._task.cancel()

    async def _look_on(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._leading.flush()  # what was taken is use of its session, too
            sessions = self._leading.sessions
            entry = None if sessions is None else self._idle.look(sessions, loop.time())
            if entry is not None:
                _log.info("%d session(s) were idle, and expire", len(entry.sessions))
                self._leading.propose(entry, Waiter(lambda _: None, _not_expired))
            await asyncio.sleep(SESSIONS_CHECK_S)


def _not_expired(error: IthacaError) -> None:
    _log.info("idle sessions did not expire, which is tried again: %s", error)
