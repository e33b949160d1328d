"""Retention: what is older, or more, than the cluster's file says is trimmed by the leader (design §5 "Trim").

The replicas know where a time, or so many bytes, begin in their shard; the leader knows nothing of either. So it asks
one replica of each shard now and then, and proposes the trim that follows, as a client could. The order's times rise
with its positions: what is too old ends at the least position that any shard says, so all must answer. No shard may
hold too much: where that ends is the greatest position that any says.
"""

import asyncio
import logging
from collections.abc import Callable

from ithaca.model.errors import IthacaError
from ithaca.model.records import Retention
from ithaca.model.view import Shard
from ithaca.ordering.entries import TrimTo
from ithaca.ordering.state import OrderingState
from ithaca.protocol.codec import Message
from ithaca.protocol.greeting import Hello
from ithaca.protocol.reading import KeptFrom, SeekBytes, SeekTime, TimeIs
from ithaca.runtime.connection import OnlyAnswers, dial
from ithaca.runtime.machine import wall_us
from ithaca.server.orderer_failures import Submit

_log = logging.getLogger("ithaca.orderer")


class Retaining:
    """Looks what may go, during one term."""

    def __init__(self, kept: Retention, state: OrderingState, hello: Callable[[], Hello], submit: Submit) -> None:
        self._kept = kept
        self._state = state
        self._hello = hello
        self._submit = submit
        self._looking: asyncio.Task[None] | None = None

    def look(self) -> None:
        """Ask the shards, unless that is still under way, and trim what may go."""
        if self._looking is None:
            self._looking = asyncio.create_task(self._look())
            self._looking.add_done_callback(self._looked)

    def end(self) -> None:
        if self._looking is not None:
            self._looking.cancel()

    def _looked(self, looking: asyncio.Task[None]) -> None:
        self._looking = None
        if not looking.cancelled() and looking.exception() is not None:
            _log.error("looking for what may be trimmed failed", exc_info=looking.exception())

    async def _look(self) -> None:
        shards = list(self._state.shards.by_number.values())
        before = max(await self._too_old(shards), await self._too_much(shards))
        if before > self._state.first:
            self._submit(TrimTo(before), lambda _: _log.info("retention: trimmed before %d", before), _not_trimmed)

    async def _too_old(self, shards: list[Shard]) -> int:
        """The position before which everything is too old; 0 if that is not known."""
        if self._kept.age is None:
            return 0
        tail = self._state.tail
        question = SeekTime(wall_us() - int(self._kept.age.total_seconds() * 1e6), tail)
        starts: list[int] = []
        for shard in shards:
            answer = await self._ask(shard, question)
            if not isinstance(answer, TimeIs):
                return 0
            starts.append(answer.position or tail)
        return min(starts, default=0)

    async def _too_much(self, shards: list[Shard]) -> int:
        """The position before which some shard has more than it may hold; 0 if none has."""
        if self._kept.bytes is None:
            return 0
        answers = [await self._ask(shard, SeekBytes(self._kept.bytes)) for shard in shards]
        return max((answer.position for answer in answers if isinstance(answer, KeptFrom)), default=0)

    async def _ask(self, shard: Shard, question: SeekTime | SeekBytes) -> Message | None:
        """What one replica of the shard answers, whichever does; None when there is none."""
        for replica in shard.replicas:
            try:
                connection = await dial(replica.address, self._hello(), OnlyAnswers())
                try:
                    return (await connection.request(question)).message
                finally:
                    connection.abort()
            except IthacaError as error:
                _log.info("retention: replica %d/%d does not say: %s", shard.shard, replica.replica, error)
        return None


def _not_trimmed(error: IthacaError) -> None:
    _log.info("retention: nothing was trimmed, which is tried again: %s", error)
