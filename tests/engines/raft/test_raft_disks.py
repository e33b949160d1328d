"""Servers of the engine raft whose disks are full or fail, and whom others tell nonsense."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

import pytest
from tests.engines.raft.batches import batch_of
from tests.server.orderers import cluster_file, until

import ithaca.aio
from ithaca.engines.raft.client.links import HELLO
from ithaca.engines.raft.messages import Append, BeginSession, CopyLane, Found, Read, SessionIs
from ithaca.engines.raft.server.server import RaftServer
from ithaca.engines.raft.storage import names
from ithaca.model.errors import (
    Fenced,
    InvalidInput,
    IthacaError,
    SequenceGap,
    SessionExpired,
    StorageFull,
    Unavailable,
)
from ithaca.protocol.codec import Message, Received
from ithaca.protocol.members import RaftMessage
from ithaca.raft.messages import AppendEntries
from ithaca.runtime.connection import OnlyAnswers
from ithaca.runtime.dialling import Said, dial
from ithaca.server.options import ServerOptions
from ithaca.sim.disk import SimDisk
from ithaca.wire.batch import Batch


def sent(batch: Batch) -> bytes:
    """As it goes over the wire."""
    return b"".join(map(bytes, batch.buffers()))


class Group:
    """Servers in this process, each with a disk of its own."""

    def __init__(self, servers: int) -> None:
        self.disks = {number: SimDisk() for number in range(1, servers + 1)}
        file = replace(cluster_file(orderers=servers, shards=0), engine="raft")
        self.servers = {
            number: RaftServer(file, number, f"/server-{number}", ServerOptions(disk))
            for number, disk in self.disks.items()
        }
        self.bootstrap = ",".join(str(place.address) for place in file.orderers)

    @property
    def leader(self) -> int | None:
        return next((number for number, server in self.servers.items() if server.is_ready), None)

    async def led(self) -> int:
        await until(lambda: self.leader is not None)
        assert self.leader is not None
        return self.leader

    async def ask(self, number: int, message: Message, payload: bytes = b"", hello: Said = HELLO) -> Received:
        connection = await dial(self.servers[number].address, hello, OnlyAnswers())
        try:
            return await connection.request(message, [payload] if payload else (), timeout=20)
        finally:
            connection.close()


@asynccontextmanager
async def group(servers: int) -> AsyncIterator[Group]:
    made = Group(servers)
    async with AsyncExitStack() as stack:
        for server in made.servers.values():
            await server.start()
            stack.push_async_callback(server.stop)
        await made.led()
        yield made


async def ended(server: RaftServer) -> IthacaError | None:
    """Why a server ended; its connections end with it, as those of its process would."""
    try:
        await server.wait()
    except IthacaError as error:
        await server.stop()
        return error
    return None


async def test_a_full_disk_refuses_appends_serves_reads_and_goes_on_with_space() -> None:
    async with group(1) as made, ithaca.aio.connect(made.bootstrap, timeout=20) as log:
        await log.append(b"first")
        session = (await made.ask(1, BeginSession("importer"))).message
        assert isinstance(session, SessionIs)
        made.disks[1].capacity_bytes = 0
        waiting = [asyncio.create_task(log.append(bytes(100_000))) for _ in range(20)]
        await until(lambda: bool(made.servers[1].status()["full"]))
        assert (await log.read(1)).value == b"first"
        with pytest.raises(StorageFull, match="no space is left"):
            await made.ask(1, Append(), sent(batch_of(session.producer_id, 1, epoch=session.epoch)))
        made.disks[1].capacity_bytes = None
        receipts = await asyncio.gather(*waiting)
        assert len({receipt.position for receipt in receipts}) == 20
        assert not made.servers[1].status()["full"]
        assert (await log.read(max(receipt.position for receipt in receipts))).value == bytes(100_000)


@pytest.mark.parametrize("path", ["raft.log", "lane"])
async def test_a_server_whose_sync_fails_ends_for_good_and_the_others_go_on(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if path == "raft.log":
        monkeypatch.setattr(names, "NAMED_RANGES_MAX", 0)  # each range goes there at once
    async with group(3) as made, ithaca.aio.connect(made.bootstrap, timeout=60) as log:
        await log.append(b"first")
        leader = await made.led()
        disk, directory = made.disks[leader], f"/server-{leader}"
        if path == "lane":
            (name,) = [name for name in disk.list(f"{directory}/lane") if name.endswith(".seg")]
            path = f"lane/{name}"
        ending = asyncio.create_task(ended(made.servers[leader]))
        disk.fail_next_sync(f"{directory}/{path}")
        second = await log.append(b"second")
        assert isinstance(await ending, Fenced)
        assert made.leader != leader
        third = await log.append(b"third")
        assert [record.value async for record in log.read_range(1, third.position + 1)] == [
            b"first",
            b"second",
            b"third",
        ]
        assert second.position < third.position


async def test_what_does_not_belong_to_a_session_is_refused_by_name() -> None:
    async with group(1) as made:
        opened = (await made.ask(1, BeginSession("importer"))).message
        assert isinstance(opened, SessionIs)
        for producer, first_seq, error in (
            (0, 1, InvalidInput),
            (opened.producer_id, 7, SequenceGap),
            (opened.producer_id + 1, 1, SessionExpired),
        ):
            with pytest.raises(error):
                await made.ask(1, Append(), sent(batch_of(producer, first_seq, epoch=opened.epoch)))
        with pytest.raises(Unavailable, match="LSN 0"):
            await made.ask(1, CopyLane(5, 9))
        good = sent(batch_of(opened.producer_id, 1, epoch=opened.epoch))
        assert made.servers[1].status()["tail"] == 1
        for garbage in (b"", good[:-8], good + bytes(8), good[:70] + b"\xff" + good[71:]):
            with pytest.raises(IthacaError):
                await made.ask(1, Append(), garbage)
        async with ithaca.aio.connect(made.bootstrap) as log:
            assert (await log.append(b"kept")).position == 1


async def test_bytes_that_belong_to_no_range_end_the_connection_and_change_nothing() -> None:
    async with group(3) as made, ithaca.aio.connect(made.bootstrap, timeout=20) as log:
        await log.append(b"first")
        leader = await made.led()
        follower, other = (number for number in made.servers if number != leader)
        server = made.servers[follower]
        hello = made.servers[other].hello()
        says = RaftMessage(AppendEntries(other, server.host.driver.term, 0, 0, (), 0, 0), None)
        with pytest.raises(IthacaError):
            await made.ask(follower, says, b"no batch", hello)
        await log.append(b"second")
        assert isinstance((await made.ask(follower, Read(2, 20_000))).message, Found)
