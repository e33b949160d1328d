"""Names that nobody uses: the leader has idle sessions expire, and idle writers forgotten (design §5 "Exactly once").

The order knows when a session was opened or moved; whether it has appended since is known to its home alone. So the
home is asked which number it goes on with: if that is another one than the last time, the session was active, and the
order notes it. A session is idle if its number stayed the same for as long as is asked for, whoever led meanwhile.
What lost its home counts as active until then. A home that does not answer is asked again, and nothing expires.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable

from ithaca.engines.scalog.messages.appending import GetNextSeq, NextSeqIs
from ithaca.engines.scalog.ordering.entries import ExpireIdle, NoteSessions
from ithaca.engines.scalog.ordering.outcomes import Outcome, Session
from ithaca.engines.scalog.ordering.prepared.entries import ForgetWriters
from ithaca.engines.scalog.ordering.state import OrderingState
from ithaca.engines.scalog.server.orderer.failures import Submit
from ithaca.model.config.cluster import ClusterFile
from ithaca.model.errors import IthacaError
from ithaca.model.limits import (
    ORDERING_NAMED_SESSIONS_MAX,
    ORDERING_SESSIONS_MAX,
    SESSION_ANONYMOUS_IDLE_S,
    SESSION_CROWD_IDLE_S,
    SESSIONS_TOGETHER_MAX,
    WRITERS_TOGETHER_MAX,
)
from ithaca.model.positions import LaneId
from ithaca.protocol.greeting import Hello
from ithaca.runtime.connection import OnlyAnswers, dial

_log = logging.getLogger("ithaca.orderer")


class NameKeeping:
    """Looks which names are idle, during one term."""

    def __init__(
        self,
        file: ClusterFile,
        state: OrderingState,
        hello: Callable[[], Hello],
        submit: Submit,
        time_us: Callable[[], int],
    ) -> None:
        """`time_us` is the order's time, as the leader says it."""
        self._session_idle_s = file.session_idle_s
        self._writer_idle_s = file.writer_idle_s
        self._state = state
        self._hello = hello
        self._submit = submit
        self._time_us = time_us
        self._after = 0  # the last session that was looked at: the next look goes on behind it
        self._looking: asyncio.Task[None] | None = None

    def look(self) -> None:
        """Look at sessions and writers, unless that is still under way."""
        if self._looking is None:
            self._looking = asyncio.create_task(self._look())
            self._looking.add_done_callback(self._looked)

    def end(self) -> None:
        if self._looking is not None:
            self._looking.cancel()

    def _looked(self, looking: asyncio.Task[None]) -> None:
        self._looking = None
        if not looking.cancelled() and looking.exception() is not None:
            _log.error("looking for idle names failed", exc_info=looking.exception())

    async def _look(self) -> None:
        time_us = self._time_us()
        self._forget_writers(time_us)
        if self._session_idle_s is not None:
            await self._look_at(time_us - int(self._session_idle_s * 1e6), time_us, anonymous=False)
        await self._look_at(time_us - int(SESSION_ANONYMOUS_IDLE_S * 1e6), time_us, anonymous=True)
        if self._is_crowded:
            await self._look_at(time_us - int(SESSION_CROWD_IDLE_S * 1e6), time_us, anonymous=True, expire=False)

    @property
    def _is_crowded(self) -> bool:
        """Whether anonymous sessions may soon have to make room: then it counts which of them are idle."""
        return self._state.sessions.anonymous * 2 > ORDERING_SESSIONS_MAX - ORDERING_NAMED_SESSIONS_MAX

    def _forget_writers(self, time_us: int) -> None:
        if self._writer_idle_s is None:
            return
        since_us = time_us - int(self._writer_idle_s * 1e6)
        if since_us < 0:
            return
        idle = [(each.writer, each.key) for each in self._state.parts.writers.idle_since(since_us)]
        if idle:
            entry = ForgetWriters(tuple(idle[:WRITERS_TOGETHER_MAX]), since_us, time_us)
            self._submit(entry, _told("writer(s) were idle, and are forgotten"), _not_done)

    async def _look_at(self, since_us: int, time_us: int, *, anonymous: bool, expire: bool = True) -> None:
        """Of the sessions that seem idle since then, ask the homes, and say what came of it."""
        if since_us < 0:
            return
        found = self._state.sessions.idle_since(since_us, anonymous=anonymous)
        later = [each for each in found if each.producer_id > self._after]
        some = [*later, *(each for each in found if each.producer_id <= self._after)][:SESSIONS_TOGETHER_MAX]
        self._after = some[-1].producer_id if some else 0
        seen: list[tuple[int, int]] = []
        idle: list[tuple[int, int]] = []
        for home, sessions in _by_home(some).items():
            if not self._state.lanes.is_open(home):
                idle += [(each.producer_id, each.epoch) for each in sessions]
                continue
            for session, next_seq in await self._asked(home, sessions):
                if next_seq != session.seen_seq:
                    seen.append((session.producer_id, next_seq))
                else:
                    idle.append((session.producer_id, session.epoch))
        if seen:
            self._submit(NoteSessions(tuple(seen), time_us), lambda _: None, _not_done)
        if idle and expire:
            self._submit(
                ExpireIdle(tuple(idle), since_us, time_us), _told("session(s) were idle, and expire"), _not_done
            )

    async def _asked(self, home: LaneId, sessions: list[Session]) -> list[tuple[Session, int]]:
        """The numbers with which the home of these sessions goes on, of those of which it says so."""
        shard = self._state.shards.by_number.get(home.shard)
        replica = None if shard is None else shard.find(home.replica)
        answered: list[tuple[Session, int]] = []
        if replica is None:
            return answered
        try:
            connection = await dial(replica.address, self._hello(), OnlyAnswers())
        except IthacaError as error:
            _log.info("idle sessions: lane %s does not say: %s", home, error)
            return answered
        try:
            for session in sessions:
                try:
                    question = GetNextSeq(home, session.producer_id, session.epoch)
                    answer = (await connection.request(question)).message
                except IthacaError:
                    continue  # it is active just now, has been opened again, or the home is gone: the next look tells
                if isinstance(answer, NextSeqIs):
                    answered.append((session, answer.next_seq))
        finally:
            connection.abort()
        return answered


def _by_home(sessions: Iterable[Session]) -> dict[LaneId, list[Session]]:
    homes: dict[LaneId, list[Session]] = {}
    for session in sessions:
        homes.setdefault(session.home, []).append(session)
    return homes


def _told(what: str) -> Callable[[list[Outcome]], None]:
    def tell(outcomes: list[Outcome]) -> None:
        if outcomes:
            _log.info("%d %s", len(outcomes), what)

    return tell


def _not_done(error: IthacaError) -> None:
    _log.info("idle names: nothing was done, which is tried again: %s", error)
