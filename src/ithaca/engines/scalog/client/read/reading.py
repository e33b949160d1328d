"""Single records, and positions by time: asked of the shards' replicas, with the leader's word on what is not there.

A replica answers only from what it knows to be ordered, so an answer of its own is never too old; that
something is *not* there is said by the leader alone, after the call began (Scalog §4.2).
"""

import asyncio
from collections.abc import Iterable
from typing import Final

from ithaca.client.deadline import Deadline
from ithaca.engines.scalog.client.order import Order
from ithaca.engines.scalog.client.read.seen import SeenRanges
from ithaca.engines.scalog.client.replicas import Replicas, find_shard
from ithaca.engines.scalog.messages.order import TailReply
from ithaca.engines.scalog.messages.reading import Behind, Elsewhere, Found, Read, SeekTime, TimeIs
from ithaca.model.errors import (
    Corrupt,
    EmptyPosition,
    Lost,
    NoSuchShard,
    NotWritten,
    ProtocolError,
    Trimmed,
    Unavailable,
)
from ithaca.model.limits import ATTEMPT_TIMEOUT_S, READ_WAIT_MS_MAX
from ithaca.model.records import Record
from ithaca.protocol.codec import Received
from ithaca.runtime.backoff import Backoff
from ithaca.wire.batch import DATA, lane_seed, parse

_POSITION_MAX: Final = (1 << 63) - 1
"""What a message can ask for."""
_CATCH_UP_S: Final = 0.5
"""How long a replica that is behind may take to answer before others are asked beside it."""


class _Answers:
    """What shards say that have no record at a position."""

    def __init__(self) -> None:
        self._is_behind = False
        self._may_be_lost = False

    def note(self, answer: Elsewhere | Behind) -> None:
        self._is_behind |= isinstance(answer, Behind)
        self._may_be_lost |= isinstance(answer, Elsewhere) and answer.may_be_lost

    @property
    def is_lost(self) -> bool:
        """Whether no shard has it, and one has lost it: that is so if each of the view has answered."""
        return self._may_be_lost and not self._is_behind


class Reading:
    """Point reads of one handle."""

    def __init__(self, order: Order, replicas: Replicas, seen: SeenRanges, timeout_s: float) -> None:
        self._order = order
        self._replicas = replicas
        self._seen = seen
        self._timeout_s = timeout_s
        self._first = 1

    def trimmed(self, first: int) -> None:
        """Nothing below this can be read any more."""
        self._first = max(self._first, first)

    def check_not_trimmed(self, position: int) -> None:
        if position < self._first:
            raise Trimmed(f"position {position} was trimmed; the first one left is {self._first}", first=self._first)

    async def read(self, position: int, shard: int | None, wait_s: float) -> Record:
        self.check_not_trimmed(position)
        deadline, waiting = Deadline(self._timeout_s + max(0.0, wait_s)), Deadline(max(0.0, wait_s))
        if shard is not None:
            await self.check_shard(shard, deadline)
        hint = shard if shard is not None else self._seen.shard_of(position)
        if hint is not None and position <= _POSITION_MAX and find_shard(self._order.view, hint) is not None:
            record = await self._ask(hint, position, 0, deadline, _Answers())
            if record is not None:
                return record
        pauses, patience_s = Backoff(), 0.0
        while True:
            answers = _Answers()
            if position <= _POSITION_MAX:
                record = await self._ask_all(position, patience_s, deadline, answers)
                if record is not None:
                    return record
            tail = await self._order.tail(deadline)
            self._check(tail, position, waiting)
            if position < tail.tail:
                await self._check_ordered(tail, position, deadline)
            if tail.view <= self._order.view.version and answers.is_lost:
                raise Lost.at(position, position + 1)
            if tail.view > self._order.view.version:
                await self._order.refresh(deadline, tail.view)
            elif patience_s and position < tail.tail:
                await pauses.pause(deadline)
            if deadline.passed:
                raise Unavailable(
                    f"position {position} is ordered, and no replica had it within {deadline.timeout_s:.3g} s"
                )
            patience_s = _CATCH_UP_S if position < tail.tail else waiting.left_s

    async def check_shard(self, shard: int, deadline: Deadline) -> None:
        """`InvalidInput` when there is no shard of this number."""
        if find_shard(self._order.view, shard) is None:
            await self._order.fresh_view(deadline)
            self._replicas.check_shard(shard)

    def _check(self, tail: TailReply, position: int, waiting: Deadline) -> None:
        """Raise what the leader's word makes of the position."""
        self.trimmed(tail.first)
        self.check_not_trimmed(position)
        if position >= tail.tail and waiting.passed:
            raise NotWritten(f"position {position} is not written yet; the tail is {tail.tail}", tail=tail.tail)

    async def _check_ordered(self, tail: TailReply, position: int, deadline: Deadline) -> None:
        """Raise if the position is ordered, and holds no record; here every one does."""

    async def _ask_all(self, position: int, wait_s: float, deadline: Deadline, answers: _Answers) -> Record | None:
        """The record from whichever shard has it; None when none of them says so.

        A shard that cannot say, since its part of the order is damaged everywhere, is believed last.
        """
        shards = [shard.shard for shard in self._order.view.shards]
        if len(shards) == 1:
            return await self._ask(shards[0], position, wait_s, deadline, answers)
        asking = [asyncio.ensure_future(self._ask(shard, position, wait_s, deadline, answers)) for shard in shards]
        damage: Corrupt | None = None
        try:
            while asking:
                await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
                answered = [each for each in asking if each.done()]
                asking = [each for each in asking if not each.done()]
                for answer in answered:
                    try:
                        record = answer.result()
                    except Corrupt as error:
                        damage = error
                        continue
                    if record is not None:
                        return record
            if damage is not None:
                raise damage
            return None
        finally:
            await _cancelled(asking)

    async def _ask(
        self, shard: int, position: int, wait_s: float, deadline: Deadline, answers: _Answers
    ) -> Record | None:
        wait_ms = min(int(wait_s * 1000), READ_WAIT_MS_MAX)

        def take(received: Received) -> Record | None:
            return self._taken(received, shard, position, answers)

        try:
            return await self._replicas.ask(shard, Read(position, wait_ms), deadline, take, wait_s=wait_ms / 1000)
        except NoSuchShard:
            return None  # it was trimmed whole meanwhile, as the leader will say of the position

    def _taken(self, received: Received, shard: int, position: int, answers: _Answers) -> Record | None:
        message = received.message
        if isinstance(message, Behind) and message.tail > position:
            raise Unavailable(f"a replica of shard {shard} has to catch up before it can say what is at {position}")
        if isinstance(message, Elsewhere | Behind):
            answers.note(message)
            return None
        if not isinstance(message, Found):
            raise ProtocolError(f"a replica answered Read with {type(message).__name__}")
        batch = parse(received.payload)
        row = position - message.position
        if message.lane.shard != shard or not batch.belongs_to(lane_seed(message.lane)) or not 0 <= row < batch.count:
            raise Corrupt(f"a replica of shard {shard} answered for position {position} with another batch")
        self._seen.add(message.position, message.position + batch.count, shard)
        if batch.kind != DATA:
            raise EmptyPosition.at(position)
        return batch.record(message.position, shard, row)

    async def seek(self, time_us: int, deadline: Deadline) -> int:
        """The first position that was ordered at this time or later; the tail when there is none."""
        tail = await self._order.tail(deadline)
        self.trimmed(tail.first)
        if tail.view > self._order.view.version:
            await self._order.refresh(deadline, tail.view)

        def take(received: Received) -> int | None:
            if isinstance(received.message, TimeIs):
                return received.message.position
            raise Unavailable(f"a replica answered SeekTime with {type(received.message).__name__}: it is behind")

        question = SeekTime(time_us, tail.tail)

        async def ask(shard: int) -> int | None:
            try:
                return await self._replicas.ask(shard, question, deadline, take, wait_s=ATTEMPT_TIMEOUT_S)
            except NoSuchShard:
                return None  # all that it had was trimmed meanwhile

        asking = [ask(shard.shard) for shard in self._order.view.shards]
        found = [position for position in await asyncio.gather(*asking) if position is not None]
        return max(tail.first, min(found, default=tail.tail))


async def _cancelled(tasks: "Iterable[asyncio.Task[Record | None]]") -> None:
    waiting = list(tasks)
    for task in waiting:
        task.cancel()
    if waiting:
        await asyncio.wait(waiting)
