"""Limits of users in real clusters of every engine that has users: appends and reads are refused, streams wait, and
what is changed holds on open connections."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from msgspec.structs import replace
from tests.server.raw_client import HELLO, RawClient

import ithaca
from ithaca.engines.belfast.messages import Speculate, Speculated
from ithaca.engines.raft import messages as raft
from ithaca.engines.scalog.messages import reading as scalog
from ithaca.model.errors import Overloaded
from ithaca.model.security.users import UserLimits
from ithaca.model.view import Address
from ithaca.protocol.greeting import ANY_ENGINE
from ithaca.runtime.dialling import dial
from ithaca.testing import Cluster

ENGINES = ("scalog", "belfast", "raft")
SLOW = UserLimits(bytes_per_s=1)
"""What is owed is not paid as long as a test runs."""
VALUE = bytes(1000)
WAIT_S = 30


class Limited:
    """A cluster with one record, and a user whose limits a test changes."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.engine = cluster.file.engine
        self.operator = ithaca.connect(cluster.bootstrap, token=cluster.token)
        self.operator.append(VALUE)
        self._users = 0
        self.token = ""

    def begin(self) -> None:
        """With another user."""
        self._users += 1
        self.token = self.operator.admin.add_user(self.user, ["read", "append"])

    @property
    def user(self) -> str:
        return f"alice-{self._users}"

    @property
    def messages(self) -> Any:
        return raft if self.engine == "raft" else scalog

    @property
    def server(self) -> Address:
        """One that is read from."""
        if self.engine == "raft":
            return self.cluster.file.orderers[0].address
        return self.cluster.file.shards[0].replicas[0].address

    def limit(self, limits: UserLimits) -> None:
        self.operator.admin.limit_user(self.user, limits)

    async def come(self, address: Address | None = None) -> RawClient:
        """A connection of the user; the server may not have heard of it yet."""
        client = RawClient()
        hello = replace(HELLO, credentials=self.token.encode(), engine=ANY_ENGINE)
        async with asyncio.timeout(WAIT_S):
            while True:
                try:
                    client.connection = await dial(address or self.server, hello, client)
                    return client
                except ithaca.AuthenticationFailed:
                    await asyncio.sleep(0.05)

    async def limited(self, client: RawClient) -> None:
        """Reading is refused, since what was answered is owed."""
        error = await until_overloaded(lambda: client.ask(self.messages.Read(1)))
        assert "may use 1 bytes a second" in str(error)
        assert error.retry_after_s is not None


@pytest.fixture(scope="module", params=ENGINES)
def limited(request: pytest.FixtureRequest) -> Iterator[Limited]:
    with Cluster(engine=request.param, users=True) as cluster:
        made = Limited(cluster)
        with made.operator:
            yield made


@pytest.fixture
def its(limited: Limited) -> Limited:
    limited.begin()
    return limited


async def until_overloaded(ask: Callable[[], Awaitable[object]]) -> Overloaded:
    async with asyncio.timeout(WAIT_S):
        while True:
            try:
                await ask()
            except Overloaded as error:
                return error


async def until_not_overloaded(ask: Callable[[], Awaitable[object]]) -> None:
    async with asyncio.timeout(WAIT_S):
        while True:
            try:
                await ask()
            except Overloaded:
                continue
            return


async def came(client: RawClient, wanted: Callable[[Any], bool], timeout_s: float = WAIT_S) -> bool:
    """Whether such a message comes within that time."""
    try:
        async with asyncio.timeout(timeout_s):
            while not wanted((await client.unasked.get()).message):
                pass
    except TimeoutError:
        return False
    return True


def has_records(message: Any) -> bool:
    assert isinstance(message, scalog.Deliver | raft.Deliver), message
    return bool(message.items)


async def test_a_stream_that_is_open_waits_as_soon_as_there_is_a_limit_and_goes_on_without(its: Limited) -> None:
    stream, reader = await its.come(), await its.come()
    stream.connection.send(its.messages.Subscribe(1), correlation=stream.connection.next_correlation())
    assert await came(stream, has_records)
    its.limit(SLOW)
    await its.limited(reader)
    while not stream.unasked.empty():
        stream.unasked.get_nowait()
    its.operator.append(VALUE)
    assert not await came(stream, has_records, 0.3)
    its.limit(UserLimits())
    assert await came(stream, has_records)
    await until_not_overloaded(lambda: reader.ask(its.messages.Read(1)))
    for client in (stream, reader):
        client.connection.close()


async def test_requests_beyond_the_bytes_in_flight_are_refused_until_some_are_answered(its: Limited) -> None:
    client = await its.come()
    its.limit(UserLimits(inflight_bytes=1000))
    far, wait_ms = 1_000_000, 10_000

    async def two() -> None:
        client.connection.send(
            its.messages.Read(far, wait_ms), correlation=client.connection.next_correlation(), payload=[VALUE]
        )
        await client.ask(its.messages.Read(1), [bytes(8)])
        await asyncio.sleep(0.05)  # the server has not heard of the limit

    assert "1000 bytes of user alice-" in str(await until_overloaded(two))
    its.limit(UserLimits())
    await until_not_overloaded(lambda: client.ask(its.messages.Read(1), [bytes(8)]))
    client.connection.close()


def test_appends_beyond_the_bytes_of_a_second_are_refused(its: Limited) -> None:
    """The handle waits as long as it may."""
    its.limit(SLOW)
    with ithaca.connect(its.cluster.bootstrap, token=its.token, timeout=1) as log:

        def append_again_and_again() -> None:
            while True:
                log.append(VALUE)

        with pytest.raises((Overloaded, ithaca.DeadlineExceeded)):
            append_again_and_again()


@pytest.mark.parametrize("limited", ["belfast"], indirect=True)
async def test_speculators_wait_as_streams_do(its: Limited) -> None:
    reader = await its.come()
    lane = (await reader.ask(scalog.Read(1))).lane
    (primary,) = [each.address for each in its.cluster.file.shards[0].replicas if each.replica == lane.replica]
    speculator = await its.come(primary)
    paced = await its.come(primary)
    speculator.connection.send(Speculate(lane), correlation=speculator.connection.next_correlation())

    def speculated(message: Any) -> bool:
        assert isinstance(message, Speculated), message
        return bool(message.positions)

    its.operator.append(VALUE)
    assert await came(speculator, speculated)
    its.limit(SLOW)
    await its.limited(paced)
    while not speculator.unasked.empty():
        speculator.unasked.get_nowait()
    its.operator.append(VALUE)
    assert not await came(speculator, speculated, 0.3)
    its.limit(UserLimits())
    assert await came(speculator, speculated)
    for client in (reader, speculator, paced):
        client.connection.close()
