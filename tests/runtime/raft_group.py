"""Groups of servers that a driver of Raft runs, on simulated disks in one process."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from random import Random

from tests.server.raft_members import nowhere, raft_member

from ithaca.model.errors import IthacaError
from ithaca.raft.events import Receive, RefusedRequest, RoleChanged, Settings
from ithaca.raft.messages import (
    AnyMessage,
    Configuration,
    DurableState,
    ServerId,
    Snapshot,
    first_state,
)
from ithaca.runtime.raft.driver import RaftDriver
from ithaca.server.raft_host.refusals import error_of
from ithaca.sim.disk import SimDisk
from ithaca.storage.raftlog import RaftLog

SETTINGS = Settings(election_timeout_ms=250, heartbeat_ms=40)
DEADLINE_S = 20.0


class Machine:
    """Keeps what was applied, and the index up to which a snapshot replaced it."""

    def __init__(self) -> None:
        self.entries: list[bytes] = []
        self.restored_index = 0

    def apply(self, index: int, term: int, data: bytes) -> object:
        if data == b"unreadable":
            raise ValueError("this entry cannot be read")
        self.entries.append(data)
        return len(self.entries), data

    def snapshot(self) -> Iterator[bytes]:
        return iter([b"\n".join(self.entries[:1]), *(b"\n" + entry for entry in self.entries[1:])])

    def restore(self, index: int, data: bytes) -> None:
        self.restored_index = index
        self.entries = data.split(b"\n") if data else []


class Server:
    """A driver with its disk; messages go to the other servers of the group by plain calls."""

    def __init__(self, group: "Group", number: int, founded: DurableState | None = None) -> None:
        self._group = group
        self.number = number
        self.disk = SimDisk()
        self.disk.make_directory("/raft")
        self.sent: list[AnyMessage] = []
        self.roles: list[RoleChanged] = []
        self.configurations: list[Configuration] = []
        self.error: Exception | None = None
        self.is_connected = True
        self.start(founded or first_state(*group.numbers))

    def start(self, founded: DurableState | None = None) -> None:
        if founded is not None:
            self.log, durable = RaftLog.create(self.disk, "/raft", founded), founded
        else:
            self.log, durable = RaftLog.open(self.disk, "/raft")
        self.machine = Machine()
        self.driver = RaftDriver(
            self.number, self._group.settings, self.log, durable, self.machine, self, random=Random(self.number)
        )
        self.driver.start()

    def send(self, to: int, message: AnyMessage) -> None:
        self.sent.append(message)
        asyncio.get_running_loop().call_soon(self._group.deliver, self, to, message)

    def role_changed(self, change: RoleChanged) -> None:
        self.roles.append(change)

    def members_changed(self) -> None:
        self.configurations.append(self.driver.configuration)

    def applied(self) -> None:
        pass

    def persisted(self, seconds: float) -> None:
        assert seconds >= 0

    def fetch(self, snapshot: Snapshot, leader: ServerId) -> None:
        raise AssertionError("snapshots of these groups refer to nothing")

    def error_of(self, refused: RefusedRequest) -> IthacaError:
        return error_of(raft_member(self.number, nowhere(self.number)), refused)

    def failed(self, error: Exception) -> None:
        self.error = error


class Group:
    def __init__(self, count: int, settings: Settings) -> None:
        self.settings = settings
        self.numbers = tuple(range(1, count + 1))
        self.servers = {number: Server(self, number) for number in self.numbers}

    def deliver(self, sender: Server, to: int, message: AnyMessage) -> None:
        if sender.is_connected and self.servers[to].is_connected:
            self.servers[to].driver.step(Receive(message))

    async def leader(self) -> Server:
        found: list[Server] = []

        def look() -> bool:
            found[:] = [each for each in self.servers.values() if each.driver.is_leader and each.is_connected]
            return bool(found)

        await until(look)
        return found[0]


@asynccontextmanager
async def running(count: int, settings: Settings = SETTINGS) -> AsyncIterator[Group]:
    group = Group(count, settings)
    try:
        yield group
    finally:
        for server in group.servers.values():
            await server.driver.stop()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not condition():  # noqa: ASYNC110 - there is no event for any condition
            await asyncio.sleep(0.002)
