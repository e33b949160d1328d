"""Whoever does not get on tries again, and not as fast as it can."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.client.fake_cluster import FakeCluster

from ithaca.client.deadline import Deadline
from ithaca.model.errors import Unavailable
from ithaca.model.view import Address

FOR_S = 0.6
TRIES_MAX = 12
"""Backoff double from 20 ms on: no machine is so fast that there are more, and without pauses there are hundreds."""


class Door:
    """A server that hangs up at once."""

    def __init__(self) -> None:
        self.knocks = 0
        self.address = Address("127.0.0.1", 0)

    def on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.knocks += 1
        writer.close()


@asynccontextmanager
async def closed_door() -> AsyncIterator[Door]:
    door = Door()
    server = await asyncio.start_server(door.on_connection, "127.0.0.1", 0)
    door.address = Address("127.0.0.1", server.sockets[0].getsockname()[1])
    try:
        yield door
    finally:
        server.close()


async def test_a_server_that_hangs_up_is_asked_less_and_less_often() -> None:
    async with FakeCluster() as cluster, closed_door() as door:
        log = await cluster.connect()
        with pytest.raises(Unavailable):
            await log._context.order.status_at(door.address, Deadline(FOR_S))
        assert 1 < door.knocks <= TRIES_MAX


async def test_a_replica_that_ends_every_stream_is_not_asked_as_fast_as_can_be() -> None:
    async with FakeCluster(replicas=1) as cluster:
        log = await cluster.connect()
        await log.append(b"a")
        (replica,) = cluster.replicas[0]

        async def hang_up() -> None:
            replica.drop_connections()

        replica.before_deliver = hang_up
        async with log.subscribe(1) as subscription:
            assert await subscription.poll(timeout=FOR_S) == []
            assert 1 < replica.streams <= TRIES_MAX
            replica.before_deliver = None
            assert (await anext(subscription)).value == b"a"
