"""How the replicas of this engine speak, for an emulation of very many of them (Scalog §6.3.2)."""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from ithaca.client.deadline import Deadline
from ithaca.engines.emulation import EmulatedJoin, EmulatedReport
from ithaca.engines.scalog.client.links import Links
from ithaca.engines.scalog.client.order import Order
from ithaca.engines.scalog.messages.order import GetView, ViewIs
from ithaca.engines.scalog.messages.reporting import Join, Joined, News, ReportIs
from ithaca.engines.scalog.ordering.assignment import chosen
from ithaca.engines.scalog.ordering.entries import RegisterShard
from ithaca.engines.scalog.ordering.outcomes import RefusedEntry
from ithaca.engines.scalog.ordering.reports import Report
from ithaca.model.cut import ShardCut
from ithaca.model.errors import ProtocolError, Unavailable
from ithaca.model.view import Address
from ithaca.protocol.codec import Message

REGISTERED_TOGETHER: Final = 16
"""Registrations under way at once."""


class ScalogEmulation:
    """An `engines.emulation.Emulation`."""

    async def register(self, orderers: Sequence[Address], shards: int, replicas: int, timeout_s: float) -> Address:
        async with _order(orderers) as (links, order):
            await order.tail(Deadline(timeout_s))  # the shard of the file is there when this is answered
            for first in range(1, shards, REGISTERED_TOGETHER):
                numbers = range(first, min(first + REGISTERED_TOGETHER, shards))
                await asyncio.gather(*(_register(order, number, replicas, timeout_s) for number in numbers))
            return await _leader(links, order)

    async def tail(self, orderers: Sequence[Address], timeout_s: float) -> int:
        async with _order(orderers) as (_, order):
            return (await order.tail(Deadline(timeout_s))).tail

    def aggregator_of(self, shard: int, aggregators: Collection[int]) -> int | None:
        return chosen(shard, aggregators)

    def join(self, shard: int, replica: int, boot: int) -> Message:
        return Join(shard, replica, boot)

    def joined(self, answer: Message) -> EmulatedJoin:
        if not isinstance(answer, Joined):
            raise ProtocolError(f"the leader answered Join with {type(answer).__name__}")
        return EmulatedJoin([lane for lane, _ in answer.summary.lengths], answer.summary.shard.epoch)

    def report(self, report: EmulatedReport) -> Message:
        return ReportIs(Report(*report))

    def cuts(self, news: Message) -> Iterator[ShardCut]:
        if not isinstance(news, News):
            raise ProtocolError(f"the leader tells a replica {type(news).__name__}")
        return (item for item in news.items if isinstance(item, ShardCut))


@asynccontextmanager
async def _order(orderers: Sequence[Address]) -> AsyncIterator[tuple[Links, Order]]:
    links = Links()
    try:
        yield links, Order(links, tuple(orderers))
    finally:
        await links.close()


async def _leader(links: Links, order: Order) -> Address:
    link = await links.link(order.orderers[0])
    answer = (await link.request(GetView())).message
    if not isinstance(answer, ViewIs) or answer.leader is None:
        raise ProtocolError(f"{order.orderers[0]} does not know who leads")
    return answer.leader


async def _register(order: Order, shard: int, replicas: int, timeout_s: float) -> None:
    # Addresses must differ, and nobody dials these.
    places = tuple((number, Address(f"emulated-{shard}", number)) for number in range(replicas))
    entry = RegisterShard(shard, replicas - 1, False, places)
    for outcome in await order.propose(entry, Deadline(timeout_s)):
        if isinstance(outcome, RefusedEntry):
            raise Unavailable(f"shard {shard} cannot be registered: {outcome.reason}")
