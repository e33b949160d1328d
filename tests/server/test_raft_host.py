"""A `RaftHost` agrees on anything: here three counters, on three servers that know nothing but this test."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.runtime.raft_calls import propose, read_index
from tests.server.orderers import free_addresses, until

from ithaca.model.errors import (
    AuthenticationFailed,
    ConfigError,
    Corrupt,
    InvalidInput,
    IthacaError,
    NoSuchSession,
    ReadOnly,
)
from ithaca.model.view import Address
from ithaca.protocol.greeting import VERSION_MAX, VERSION_MIN, Hello, Welcome
from ithaca.protocol.members import Clocks, MembersAre
from ithaca.raft.events import RoleChanged, Settings
from ithaca.runtime.connection import OnlyAnswers
from ithaca.runtime.dialling import dial
from ithaca.runtime.listener import Listener, listen
from ithaca.runtime.raft.driver import RaftDriver
from ithaca.runtime.raft.ports import Waiter
from ithaca.server.raft_host.host import RaftHost
from ithaca.server.raft_host.identity import RaftMember, Words
from ithaca.storage.disk import OsDisk
from ithaca.storage.raft_files import RaftLogFiles

SETTINGS = Settings(election_timeout_ms=250, heartbeat_ms=40, snapshot_entries=8)


COUNTERS = Words("orderer", no_such=NoSuchSession, last=ReadOnly, way_out="count again")


class Counter:
    """A state machine: a number, to which entries add."""

    def __init__(self) -> None:
        self.count = 0
        self.restored_index = 0

    def apply(self, index: int, term: int, data: bytes) -> int:
        self.count += int(data)
        return self.count

    def snapshot(self) -> Iterator[bytes]:
        return iter([b"%d" % self.count])

    def restore(self, index: int, data: bytes) -> None:
        self.count, self.restored_index = int(data), index


class CountingServer:
    """A server that counts, and does nothing else."""

    def __init__(self, member: RaftMember, address: Address, directory: Path) -> None:
        self.number = member.server
        self._member = member
        self._address = address
        self._directory = directory
        self.told: list[str] = []
        self.heard_clocks: dict[int, Clocks | None] = {}
        self._listener: Listener | None = None
        self._host: RaftHost | None = None
        self.counter = Counter()

    @property
    def host(self) -> RaftHost:
        assert self._host is not None
        return self._host

    @property
    def driver(self) -> RaftDriver:
        return self.host.driver

    async def start(self) -> None:
        self.counter = Counter()
        self._directory.mkdir(exist_ok=True)
        self._host = RaftHost(
            self._member, OsDisk(), str(self._directory), RaftLogFiles(), self.counter, self, SETTINGS
        )
        self._listener = await listen(
            self._address,
            accept=self.host.accept,
            welcome=lambda: Welcome(VERSION_MAX, "orderer", str(self.number)),
            http=lambda _: None,
        )
        self.host.start()

    async def stop(self) -> None:
        if self._host is not None:
            await self._host.stop()
        if self._listener is not None:
            await self._listener.close()

    def hello(self) -> Hello:
        return Hello(VERSION_MIN, VERSION_MAX, "orderer", str(self.number))

    def clocks(self) -> Clocks:
        return Clocks(self.number, 100 + self.number)

    def heard(self, server: int, clocks: Clocks | None) -> None:
        self.heard_clocks[server] = clocks

    def role_changed(self, change: RoleChanged) -> None:
        self.told.append(change.role.value)

    def applied(self) -> None:
        pass

    def members_agreed(self) -> None:
        self.told.append("members agreed")

    def removed(self) -> None:
        pass

    def persisted(self, seconds: float) -> None:
        assert seconds >= 0

    def failed(self, error: Exception) -> None:
        raise AssertionError(error)


class Counting:
    """Servers that count together, and one more that may join them."""

    def __init__(self, directory: Path, count: int = 3) -> None:
        self.directory = directory
        self.addresses = dict(enumerate(free_addresses(count + 1), 1))
        founders = {number: self.addresses[number] for number in range(1, count + 1)}
        self.servers = {number: self._server(number, founders) for number in founders}
        self.late = self._server(count + 1, {})

    def _server(self, number: int, founders: dict[int, Address]) -> CountingServer:
        member = RaftMember(number, COUNTERS, lambda: founders, founders)
        return CountingServer(member, self.addresses[number], self.directory / str(number))

    async def leader(self) -> CountingServer:
        found: list[CountingServer] = []

        def look() -> bool:
            found[:] = [each for each in self.servers.values() if each.driver.is_leader]
            return bool(found)

        await until(look)
        return found[0]

    def followers(self) -> list[CountingServer]:
        return [each for each in self.servers.values() if not each.driver.is_leader]


@asynccontextmanager
async def counting(directory: Path, count: int = 3) -> AsyncIterator[Counting]:
    group = Counting(directory, count)
    try:
        for server in group.servers.values():
            await server.start()
        yield group
    finally:
        for server in (*group.servers.values(), group.late):
            await server.stop()


def told(change: Callable[[Waiter], None]) -> "asyncio.Future[MembersAre]":
    """The members after a change, or why there is none."""
    future: asyncio.Future[MembersAre] = asyncio.get_running_loop().create_future()
    change(Waiter(future.set_result, future.set_exception))
    return future


async def test_one_is_elected_and_all_apply_the_same(tmp_path: Path) -> None:
    async with counting(tmp_path) as group:
        leader = await group.leader()
        assert [await propose(leader.driver, b"%d" % number) for number in (5, 2, 3)] == [5, 7, 10]
        await until(lambda: [each.counter.count for each in group.servers.values()] == [10, 10, 10])
        assert [leader.told.count("leader")] == [1]
        assert all("members agreed" in each.told for each in group.servers.values())
        for follower in group.followers():
            assert follower.heard_clocks[leader.number] == Clocks(leader.number, 100 + leader.number)
            with pytest.raises(IthacaError, match=f"server {leader.number} leads"):
                await propose(follower.driver, b"1")


async def test_all_start_again_with_what_they_counted(tmp_path: Path) -> None:
    async with counting(tmp_path) as group:
        leader = await group.leader()
        for _ in range(20):
            await propose(leader.driver, b"1")
        for server in group.servers.values():
            await server.stop()
        for server in group.servers.values():
            await server.start()
        assert leader.counter.restored_index >= 8, "a snapshot was taken, and is where counting goes on"
        leader = await group.leader()
        await read_index(leader.driver)
        assert leader.counter.count == 20
        assert await propose(leader.driver, b"1") == 21


async def test_one_that_was_away_counts_on_with_the_others(tmp_path: Path) -> None:
    async with counting(tmp_path) as group:
        leader = await group.leader()
        away = group.followers()[0]
        await away.stop()
        assert await propose(leader.driver, b"4") == 4
        await away.start()
        await until(lambda: away.counter.count == 4)


async def test_another_joins_votes_and_is_removed(tmp_path: Path) -> None:
    async with counting(tmp_path) as group:
        leader, late = await group.leader(), group.late
        await propose(leader.driver, b"7")
        await late.start()
        assert late.host.group.state == "waiting"
        changes, address = leader.host.changes, group.addresses[late.number]
        members = await told(lambda waiter: changes.add(late.number, address, waiter))
        assert [each.server for each in members.members] == [1, 2, 3, 4]
        await until(lambda: late.number in leader.driver.agreed_configuration.voters and late.counter.count == 7)
        assert late.host.group.state is None
        assert address in leader.host.group.voters
        await told(lambda waiter: changes.remove(late.number, waiter))
        await until(lambda: late.host.group.state == "removed")
        with pytest.raises(NoSuchSession, match="there is no orderer 9: there are 1, 2, 3"):
            await told(lambda waiter: changes.remove(9, waiter))
        with pytest.raises(InvalidInput, match="numbers up to 4 were used"):
            await told(lambda waiter: changes.add(late.number, address, waiter))


async def test_errors_are_in_the_words_of_the_group(tmp_path: Path) -> None:
    async with counting(tmp_path, count=1) as group:
        alone = await group.leader()
        with pytest.raises(ReadOnly, match="orderer 1 is the last one that votes"):
            await told(lambda waiter: alone.host.changes.remove(1, waiter))
        members = await told(alone.host.changes.tell)
        assert [(each.server, each.votes, each.leads) for each in members.members] == [(1, True, True)]


async def test_whoever_is_no_member_is_not_believed(tmp_path: Path) -> None:
    async with counting(tmp_path, count=1) as group:
        for name in ("1", "0", "no number", "32768"):
            with pytest.raises(AuthenticationFailed, match="is no other orderer"):
                await dial(group.addresses[1], Hello(VERSION_MIN, VERSION_MAX, "orderer", name), OnlyAnswers())


async def test_a_directory_belongs_to_one_server_and_is_never_begun_again(tmp_path: Path) -> None:
    async with counting(tmp_path, count=1) as group:
        await (await group.leader()).stop()
        founders = {1: group.addresses[1]}
        other = CountingServer(RaftMember(2, COUNTERS, lambda: founders, founders), group.addresses[2], tmp_path / "1")
        with pytest.raises(ConfigError, match="belongs to orderer 1, not 2"):
            await other.start()
        (tmp_path / "1" / "raft.log").unlink()
        with pytest.raises(Corrupt, match=r"took part.*Never empty its directory: count again"):
            await group.servers[1].start()
