"""Limits of users at a server's gate, over real connections."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace
from tests.runtime.echo import HELLO, LANE, Echo, EchoServer, Recorder, echo_server

from ithaca.engines.scalog.messages.appending import Append
from ithaca.engines.scalog.messages.reading import Found, Read
from ithaca.model.errors import Overloaded, Unavailable
from ithaca.model.security.users import Grant, User, UserLimits
from ithaca.runtime.connection import Connection
from ithaca.runtime.dialling import dial
from ithaca.runtime.machine import monotonic_s
from ithaca.runtime.passage import Passage
from ithaca.server.users.gate import UserGate
from ithaca.server.users.login import Logins
from ithaca.server.users.rules import Rules, needs
from ithaca.users.table import PackedUsers, UserTable
from ithaca.users.tokens import hash_token, token_text

TOKEN = token_text("alice", bytes(32))
HASH = hash_token(TOKEN, bytes(16), log2_n=1)
SLOW = UserLimits(bytes_per_s=1)
"""What is owed is not paid as long as a test runs."""


def table(**limits: UserLimits) -> UserTable:
    """Users who may read and append."""
    users = [User(name, Grant(("read", "append")), (HASH,), each) for name, each in limits.items()]
    return UserTable(PackedUsers(1, users))


class Gated:
    """A server that sends payloads of appends back and answers no reads, and the user alice."""

    def __init__(self, server: EchoServer, gate: UserGate) -> None:
        self.server = server
        self.gate = gate

    async def come(self) -> Connection:
        hello = replace(HELLO, credentials=TOKEN.encode())
        connection = await dial(self.server.address, hello, Recorder())
        self.server.dialled.append(connection)
        return connection

    @property
    def passage(self) -> Passage:
        """Of whoever came last."""
        passage = self.server.connections[-1].passage
        assert passage is not None
        return passage


@asynccontextmanager
async def gated(limits: UserLimits) -> AsyncIterator[Gated]:
    rules: Rules = {Append: needs("append"), Read: needs("read")}
    gate = UserGate(Logins("bank", None, monotonic_s()), "bank", rules, {}, are_servers_certified=True)
    gate.holds_table = True
    gate.changed(table(alice=limits))
    async with echo_server(gate=gate) as server:
        yield Gated(server, gate)


async def echoed(connection: Connection, size: int) -> None:
    await connection.request(Append(LANE), [bytes(size)], timeout=10)


async def test_what_is_answered_counts_as_what_is_asked() -> None:
    async with gated(SLOW) as its:
        connection = await its.come()
        await echoed(connection, 600)
        assert its.passage.wait_s > 1000
        with pytest.raises(Overloaded, match="bytes a second"):
            await echoed(connection, 8)


async def test_a_limit_that_is_lifted_lets_go_on_what_waits() -> None:
    async with gated(SLOW) as its:
        await echoed(await its.come(), 600)
        pacing = asyncio.create_task(its.passage.paced())
        await asyncio.sleep(0)
        its.gate.changed(table(alice=SLOW, bob=SLOW))
        for _ in range(3):
            await asyncio.sleep(0)
        assert not pacing.done()
        its.gate.changed(table(alice=UserLimits()))
        async with asyncio.timeout(10):
            await pacing
        assert its.passage.wait_s == 0


async def test_a_limit_that_is_set_holds_for_streams_that_are_open() -> None:
    async with gated(UserLimits()) as its:
        await its.come()
        its.gate.changed(table(alice=SLOW))
        its.server.connections[0].send(Found(LANE, 1), payload=[bytes(600)])
        assert its.passage.wait_s > 500


async def test_what_is_owed_is_owed_after_connecting_again() -> None:
    async with gated(SLOW) as its:
        connection = await its.come()
        await echoed(connection, 600)
        connection.close()
        await its.server.connections[0].wait_lost()
        await its.come()
        assert its.passage.wait_s > 1000


async def test_users_that_are_gone_are_forgotten() -> None:
    async with gated(SLOW) as its:
        connection = await its.come()
        await echoed(connection, 600)
        its.gate.changed(table())
        await connection.wait_lost()
        await its.server.connections[0].wait_lost()
        its.gate.changed(table())
        its.gate.changed(table(alice=SLOW))
        await its.come()
        assert its.passage.wait_s == 0


async def test_bytes_in_flight_are_those_that_wait_for_an_answer() -> None:
    async with gated(UserLimits(inflight_bytes=104)) as its:
        connection = await its.come()
        connection.send(Read(1), correlation=connection.next_correlation(), payload=[bytes(64)])
        with pytest.raises(Overloaded, match="64 bytes of user alice wait to be answered"):
            await echoed(connection, 64)
        await echoed(connection, 40)
        peer = its.server.peers[0]
        assert isinstance(peer, Echo)
        its.server.connections[0].answer(peer.received[0], Found(LANE, 1))
        await echoed(connection, 104)


async def test_bytes_in_flight_count_once_for_all_connections_of_a_user() -> None:
    async with gated(UserLimits(inflight_bytes=104)) as its:
        one, other = await its.come(), await its.come()
        one.send(Read(1), correlation=one.next_correlation(), payload=[bytes(104)])
        with pytest.raises(Overloaded):
            await echoed(one, 8)
        with pytest.raises(Overloaded):
            await echoed(other, 8)
        one.close()
        await its.server.connections[0].wait_lost()
        await echoed(other, 104)


async def test_a_spare_says_that_others_are_to_be_asked() -> None:
    """A server that is started again is a spare until it hears that it is a replica; clients know it as one."""
    gate = UserGate(Logins("bank", None, monotonic_s()), "bank", {}, {}, are_servers_certified=True, knows_users=False)
    async with echo_server(gate=gate) as server:
        connection = await dial(server.address, replace(HELLO, credentials=TOKEN.encode()), Recorder())
        server.dialled.append(connection)
        with pytest.raises(Unavailable, match="ask another"):
            await connection.request(Read(1), timeout=10)
