"""Single records. A position is empty when the ordering layer says whose slot it is, and that shard that it has none.

A replica says `Elsewhere` only below its readable limit, where it has all that its shard has.
"""

from ithaca.client.deadline import Deadline
from ithaca.engines.belfast.messages import GetOwner, OwnerIs
from ithaca.engines.scalog.client.read.reading import Reading
from ithaca.engines.scalog.messages.order import TailReply
from ithaca.engines.scalog.messages.reading import Elsewhere, Read
from ithaca.model.errors import EmptyPosition, NoSuchShard, ProtocolError
from ithaca.model.limits import ATTEMPT_TIMEOUT_S, READ_WAIT_MS_MAX
from ithaca.protocol.codec import Received


class SlotReading(Reading):
    """Point reads of one handle."""

    async def _check_ordered(self, tail: TailReply, position: int, deadline: Deadline) -> None:
        """The position is ordered, and no shard gave a record: is it a slot that stays empty?"""
        answer = await self._order.ask(GetOwner(position), deadline)
        if not isinstance(answer, OwnerIs):
            raise ProtocolError(f"an orderer answered GetOwner with {type(answer).__name__}")
        if answer.shard is not None and await self._lacks(answer.shard, position, deadline):
            raise EmptyPosition.at(position)

    async def _lacks(self, shard: int, position: int, deadline: Deadline) -> bool:
        wait_ms = min(int(ATTEMPT_TIMEOUT_S * 1000), READ_WAIT_MS_MAX)

        def take(received: Received) -> bool:
            return isinstance(received.message, Elsewhere)

        try:
            return await self._replicas.ask(shard, Read(position, wait_ms), deadline, take, wait_s=wait_ms / 1000)
        except NoSuchShard:
            return False  # it was trimmed whole meanwhile, as the leader will say of the position
