"""The sequencer on an orderer: it begins when the projection names this server, and asks Raft for more rows in time."""

import asyncio
import logging
from collections.abc import Coroutine, Iterable
from typing import Any, NamedTuple

from ithaca.engines.corfu.client.driving import Driver, knowledge_of
from ithaca.engines.corfu.client.links import Links
from ithaca.engines.corfu.messages import Decide
from ithaca.engines.corfu.sequencing.calls import Known, SequencerCall
from ithaca.engines.corfu.sequencing.commands import Grant, Void
from ithaca.engines.corfu.sequencing.flows.beginning import begun
from ithaca.engines.corfu.sequencing.limits import KEPT_MS, RETRY_MS
from ithaca.engines.corfu.sequencing.sequencer import (
    Asked,
    AskGrant,
    Granted,
    Keep,
    Overdue,
    Reply,
    Sequencer,
    SequencerEffect,
)
from ithaca.model.errors import IthacaError, Unavailable
from ithaca.protocol.codec import Received
from ithaca.runtime.connection import Connection
from ithaca.runtime.machine import wall_us

_log = logging.getLogger("ithaca.sequencer")

BEGIN_AGAIN_S = 1.0
"""Pause before a sequencer tries again to begin."""


class Caller(NamedTuple):
    connection: Connection
    request: Received


class SequencerService:
    """The sequencer of one server, whether or not it is its turn."""

    def __init__(self, number: int, links: Links) -> None:
        self.core: Sequencer[Caller] = Sequencer()
        self._number = number
        self._links = links
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._preparing = 0
        """The epoch that it is about to begin in."""
        self._again: asyncio.TimerHandle | None = None

    @property
    def is_preparing(self) -> bool:
        return self._preparing > self.core.epoch

    def look(self, known: Known) -> None:
        """Raft has decided something: perhaps it is this server's turn."""
        projection = known.projection
        if projection.sequencer == self._number and projection.epoch > max(self.core.epoch, self._preparing):
            self._preparing = projection.epoch
            self._spawn(self._begin(known))

    def ask(self, caller: Caller, call: SequencerCall) -> None:
        self._perform(self.core.step(Asked(caller, call, wall_us())))

    async def close(self) -> None:
        if self._again is not None:
            self._again.cancel()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _begin(self, known: Known) -> None:
        """Settle what precedes, then hand out rows."""
        epoch = known.projection.epoch
        knowledge = knowledge_of(known)
        try:
            began = await Driver(self._links, knowledge).run(begun(knowledge, self._number))
        except IthacaError:
            _log.exception("what precedes epoch %d cannot be settled yet; this server tries again", epoch)
            self._preparing = self.core.epoch
            self._again = asyncio.get_running_loop().call_later(BEGIN_AGAIN_S, self.look, knowledge.known)
            return
        if began is None:
            _log.info("this server does not hand out rows in epoch %d", epoch)
            self._preparing = self.core.epoch
            self.look(knowledge.known)
            return
        _log.info("this server hands out rows in epoch %d, from %d on", began.epoch, began.start)
        self._perform(self.core.step(began))

    def _perform(self, effects: Iterable[SequencerEffect[Caller]]) -> None:
        for effect in effects:
            match effect:
                case Reply(caller, answer):
                    caller.connection.answer(caller.request, answer)
                case AskGrant():
                    self._spawn(self._grant(effect))
                case Keep(number):
                    asyncio.get_running_loop().call_later(KEPT_MS / 1000, self._end_keeping, number)

    def _end_keeping(self, number: int) -> None:
        self._perform(self.core.step(Overdue(number)))

    async def _grant(self, effect: AskGrant) -> None:
        """Ask until Raft has decided, one way or the other."""
        while self.core.epoch == effect.epoch:
            try:
                answer = await self._links.ask_leader(Decide(Grant(effect.epoch, effect.bound)))
            except Unavailable as error:
                _log.warning("Raft grants no more rows yet: %s", error)
                await asyncio.sleep(RETRY_MS / 1000)
                continue
            if isinstance(answer, Known):
                self.core.step(Granted(effect.epoch, answer.bound))
                return
            if isinstance(answer, Void):
                _log.info("no more rows are granted: %s", answer.reason)
                return

    def _spawn(self, work: "Coroutine[Any, Any, None]") -> None:
        task = asyncio.create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("the sequencer failed", exc_info=error)
