"""Asks the homes of sessions for `ordering.decisions.names`, which says who is idle, during one term."""

import logging
from collections.abc import Callable

from ithaca.engines.scalog.messages.appending import GetNextSeq, NextSeqIs
from ithaca.engines.scalog.ordering.decisions.names import IdleLook, IdleNames
from ithaca.engines.scalog.ordering.outcomes import Outcome, Session
from ithaca.engines.scalog.ordering.state import OrderingState
from ithaca.engines.scalog.server.orderer.ports import Looking, Submit
from ithaca.model.config.cluster import ClusterFile
from ithaca.model.errors import IthacaError
from ithaca.model.positions import LaneId
from ithaca.runtime.connection import OnlyAnswers
from ithaca.runtime.dialling import Said, dial

_log = logging.getLogger("ithaca.orderer")


class NameKeeping:
    """Looks which names are idle, during one term."""

    def __init__(
        self,
        file: ClusterFile,
        state: OrderingState,
        hello: Callable[[], Said],
        submit: Submit,
        time_us: Callable[[], int],
    ) -> None:
        """`time_us` is the order's time, as the leader says it."""
        self._names = IdleNames(state, session_idle_s=file.session_idle_s, writer_idle_s=file.writer_idle_s)
        self._state = state
        self._hello = hello
        self._submit = submit
        self._time_us = time_us
        looking = Looking("looking for idle names", self._look)
        self.look, self.end = looking.begin, looking.end

    async def _look(self) -> None:
        time_us, names = self._time_us(), self._names
        forgotten = names.writers(time_us)
        if forgotten is not None:
            self._submit(forgotten, _told("writer(s) were idle, and are forgotten"), _not_done)
        for kind in (names.named, names.anonymous, names.crowd):
            look = kind(time_us)
            if look is not None:
                await self._ask(look)

    async def _ask(self, look: IdleLook) -> None:
        """Ask the homes of the sessions that seem idle, and have ordered what came of it."""
        for home in look.homes:
            sessions = look.to_ask(home)
            for session, next_seq in await self._asked(home, sessions) if sessions else ():
                look.answered(session, next_seq)
        found = look.found()
        if found.active is not None:
            self._submit(found.active, lambda _: None, _not_done)
        if found.idle is not None:
            self._submit(found.idle, _told("session(s) were idle, and expire"), _not_done)

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


def _told(what: str) -> Callable[[list[Outcome]], None]:
    def tell(outcomes: list[Outcome]) -> None:
        if outcomes:
            _log.info("%d %s", len(outcomes), what)

    return tell


def _not_done(error: IthacaError) -> None:
    _log.info("idle names: nothing was done, which is tried again: %s", error)
