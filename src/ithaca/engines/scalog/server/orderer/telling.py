"""Telling a replica that joins where its shard stands: in one message, or in pieces when its lanes are too many.

How much of a closed lane is ordered never changes. So pieces of these may be on their way while the order goes on, each
sent when the replica has taken most of the one before. The last message has the rest, as it is then; the news follow.
"""

import asyncio
from collections.abc import Callable

from ithaca.engines.scalog.messages.reporting import Join, Joined, JoinedLanes
from ithaca.engines.scalog.server.orderer.answers import Answers
from ithaca.engines.scalog.server.orderer.streams import NewsStreams
from ithaca.model.errors import BatchTooLarge, IthacaError, Unavailable
from ithaca.model.limits import JOINED_LANES_MAX
from ithaca.model.positions import LaneId
from ithaca.protocol.codec import Received
from ithaca.runtime.connection import Connection


class Telling:
    """What replicas are told that join."""

    def __init__(self, answers: Answers, streams: NewsStreams) -> None:
        self._answers = answers
        self._streams = streams
        self._tasks: set[asyncio.Task[None]] = set()

    def is_long(self, message: Join) -> bool:
        """Whether it takes pieces, and whoever joins understands them."""
        return message.takes_pieces and len(self._answers.state.lanes.ordered_lengths(message.shard)) > JOINED_LANES_MAX

    def tell(
        self, connection: Connection, request: Received, message: Join, lane: LaneId | None, then: Callable[[], None]
    ) -> None:
        """Send pieces as the replica takes them, then conclude; `then` is called unless it has gone, or has to come
        again. The task ends with the connection."""
        task = asyncio.get_running_loop().create_task(self._tell(connection, request, message, lane, then))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _tell(
        self, connection: Connection, request: Received, message: Join, lane: LaneId | None, then: Callable[[], None]
    ) -> None:
        leading, told = self._answers.leading, self._closed(message.shard)
        lengths = tuple(told.items())
        try:
            for start in range(0, len(lengths), JOINED_LANES_MAX):
                connection.answer(request, JoinedLanes(lengths[start : start + JOINED_LANES_MAX]))
                await connection.drained()
        except IthacaError:
            return  # it has gone
        if self._answers.leading is not leading or not self._is_as_before(message, lane):
            self._answers.fail(connection, request, Unavailable("the shard has changed meanwhile: join again"))
        elif self.conclude(connection, request, message, lane, told):
            then()

    def _closed(self, shard: int) -> dict[LaneId, int]:
        state = self._answers.state
        open_lanes = frozenset(state.shards.by_number[shard].open_lanes())
        return {lane: length for lane, length in state.lanes.ordered_lengths(shard).items() if lane not in open_lanes}

    def _is_as_before(self, message: Join, lane: LaneId | None) -> bool:
        """Whether the shard is there, and a lane that was opened for this is open."""
        shard = self._answers.state.shards.by_number.get(message.shard)
        return shard is not None and (lane is None or lane in shard.open_lanes())

    def conclude(
        self, connection: Connection, request: Received, message: Join, lane: LaneId | None, told: dict[LaneId, int]
    ) -> bool:
        """Say all that was not told in pieces; says whether it has joined with that."""
        state = self._answers.state
        summary = state.summary(message.shard)
        assert state.configuration is not None
        assert summary is not None
        there = dict(summary.lengths)
        gone = tuple(each for each in told if each not in there)
        summary.lengths[:] = [(each, length) for each, length in summary.lengths if told.get(each) != length]
        cuts = tuple(state.cuts_since(message.shard, 0))
        joined = Joined(state.configuration.log, lane, summary, cuts, self._answers.orderers, gone)
        self._streams.join(connection, message.shard, message.replica)
        try:
            connection.answer(request, joined)
        except BatchTooLarge as error:
            self._streams.leave_one(connection, message.shard, message.replica)
            self._answers.fail(
                connection, request, Unavailable(f"what is to be told of shard {message.shard}: {error}")
            )
            return False
        return True
