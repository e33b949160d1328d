"""Records that an operator declares lost: the leader asks those that might hold them, and has it ordered."""

import asyncio
import logging
from collections.abc import Callable, Sequence

from ithaca.engines.scalog.messages.losing import DeclareLoss, GetHeldLength, HeldLengthIs
from ithaca.engines.scalog.ordering.decisions.losses import HeldLength, check_ordered, declared, is_declared
from ithaca.engines.scalog.ordering.entries import DeclareLost
from ithaca.engines.scalog.ordering.outcomes import Outcome
from ithaca.engines.scalog.ordering.state import OrderingState
from ithaca.engines.scalog.server.orderer.ports import Submit
from ithaca.model.errors import InvalidInput, IthacaError, Overloaded, Unavailable
from ithaca.model.limits import ATTEMPT_TIMEOUT_S
from ithaca.model.view import Replica
from ithaca.runtime.connection import OnlyAnswers
from ithaca.runtime.dialling import Said, dial

_log = logging.getLogger("ithaca.orderer")

_ANSWER_S = ATTEMPT_TIMEOUT_S / 3
"""A replica has so long to be dialled, and so long to answer: whoever asks waits no longer for the leader."""

Done = Callable[[list[Outcome]], None]
Failed = Callable[[IthacaError], None]


class LossKeeping:
    """Takes declarations, one at a time, during one term."""

    def __init__(self, state: OrderingState, hello: Callable[[], Said], submit: Submit) -> None:
        self._state = state
        self._hello = hello
        self._submit = submit
        self._task: asyncio.Task[None] | None = None

    def declare(self, message: DeclareLoss, done: Done, failed: Failed) -> None:
        """Have it ordered, if nobody holds what is said to be lost; one of the two is called."""
        if self._task is not None:
            failed(Overloaded("another loss is being declared: repeat this one in a moment"))
            return
        self._task = asyncio.create_task(self._declare(message, done, failed))
        self._task.add_done_callback(self._ended)

    def end(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if not task.cancelled() and task.exception() is not None:
            _log.error("declaring a loss failed", exc_info=task.exception())

    async def _declare(self, message: DeclareLoss, done: Done, failed: Failed) -> None:
        try:
            entry = await self._decided(message)
        except IthacaError as error:
            failed(error)
        except asyncio.CancelledError:
            failed(Unavailable("this orderer does not lead any more"))
            raise
        else:
            _log.warning("lane %s: LSNs %d to %d are declared lost", entry.lane, entry.start, entry.stop - 1)
            self._submit(entry, done, failed)

    async def _decided(self, message: DeclareLoss) -> DeclareLost:
        state, lane, start, stop = self._state, message.lane, message.start, message.stop
        check_ordered(state, lane, start, stop)
        if is_declared(state, lane, start, stop):
            return DeclareLost(lane, start, stop)  # which changes nothing
        replicas = [each for each in state.shards.by_number[lane.shard].replicas if each.replica not in message.without]
        held = await self._held(replicas, message)
        check_ordered(state, lane, start, stop)  # the lane may have been trimmed meanwhile
        return declared(lane, start, stop, state.lanes.ordered_length(lane) or 0, held)

    async def _held(self, replicas: Sequence[Replica], message: DeclareLoss) -> dict[int, HeldLength]:
        """What each of the replicas holds; `InvalidInput` when one does not say."""
        answers = await asyncio.gather(*(self._ask(each, message) for each in replicas), return_exceptions=True)
        held: dict[int, HeldLength] = {}
        for replica, answer in zip(replicas, answers, strict=True):
            if isinstance(answer, IthacaError):
                name, lane = f"{message.lane.shard}/{replica.replica}", message.lane
                raise InvalidInput(  # whoever asks would try again what takes another decision
                    f"replica {name} at {replica.address} does not say what it holds of lane {lane}: start it, or say "
                    f"that it is gone for good (without={replica.replica}): {answer}"
                )
            if isinstance(answer, BaseException):
                raise answer
            held[replica.replica] = answer
        return held

    async def _ask(self, replica: Replica, message: DeclareLoss) -> HeldLength:
        connection = await dial(replica.address, self._hello(), OnlyAnswers(), timeout=_ANSWER_S)
        try:
            answer = (await connection.request(GetHeldLength(message.lane), timeout=_ANSWER_S)).message
        finally:
            connection.abort()
        if not isinstance(answer, HeldLengthIs):
            raise Unavailable(f"it answers GetHeldLength with {type(answer).__name__}")
        return HeldLength(answer.synced, answer.placed)
