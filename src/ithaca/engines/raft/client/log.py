"""The handle of a cluster of this engine."""

import asyncio
from contextlib import suppress
from weakref import WeakSet

from ithaca.client.appending.coalescing import Single, Whole
from ithaca.client.appending.named_session import NamedSession
from ithaca.client.asking import ask_status
from ithaca.client.consuming.cluster import ClusterConsumers
from ithaca.client.deadline import Deadline
from ithaca.client.handle_life import HandleLife, unacknowledged
from ithaca.client.intake import Slot
from ithaca.client.scan import AwaitedScan
from ithaca.client.settings import ClientSettings
from ithaca.client.trim_seen import trim_seen
from ithaca.engines.raft.client.admin import RaftAdmin
from ithaca.engines.raft.client.appends import Appends
from ithaca.engines.raft.client.links import Links
from ithaca.engines.raft.client.producer import SHARD
from ithaca.engines.raft.client.records import RaftRecords, RaftSubscription
from ithaca.engines.raft.client.scan import RaftScan
from ithaca.engines.raft.client.servers import Servers
from ithaca.engines.raft.client.session import open_session
from ithaca.engines.raft.health import cluster_status
from ithaca.engines.raft.messages import Behind, Found, LogIs, Read, TrimBefore
from ithaca.model.errors import Corrupt, IthacaError, NotWritten, ProtocolError, StorageError, Trimmed, Unavailable
from ithaca.model.health import ServerStatus
from ithaca.model.interface import ClusterStatus
from ithaca.model.limits import ATTEMPT_TIMEOUT_S, READ_WAIT_MS_MAX
from ithaca.model.records import KeyFilter, Record, Start
from ithaca.model.security.tls import TLS
from ithaca.model.server_place import ServerPlace
from ithaca.model.units import Duration, seconds
from ithaca.model.view import Address
from ithaca.protocol.codec import Message, Received
from ithaca.protocol.members import GetMembers
from ithaca.runtime.backoff import Backoff
from ithaca.runtime.checks import (
    check_filter,
    check_named_session,
    check_position,
    check_range,
    check_shard_number,
    check_start,
)
from ithaca.runtime.machine import rng
from ithaca.wire.batch import Batch, parse


class RaftLog(ClusterConsumers):
    """A handle. Appends go to the leader; reads to any server, and to the leader where that one does not know."""

    def __init__(self, servers: Servers, settings: ClientSettings) -> None:
        super().__init__(settings)
        self.servers = servers
        self.timeout_s = settings.timeout_s
        self.readers: WeakSet[RaftRecords] = WeakSet()
        self._appends = Appends(servers, self.inflight, compression=settings.compression, timeout_s=settings.timeout_s)
        self._admin = RaftAdmin(servers, settings.timeout_s)
        self._sessions: list[NamedSession] = []
        self._first = 1
        """Positions below were trimmed, as this handle knows."""
        self._reader_before: Address | None = None
        """Who had the record that was read last: it has its place in memory warm, and others are asked by others."""
        self._life = HandleLife("the cluster")

    @property
    def admin(self) -> RaftAdmin:
        return self._admin

    def check(self) -> None:
        self._life.check()

    async def ask_leader(self, message: Message, timeout_s: float | None) -> Message:
        self.check()
        return await self.servers.ask(message, Deadline(self.timeout_s if timeout_s is None else timeout_s))

    # Appending

    def take_record(self, value: bytes, key: bytes | None, slot: Slot) -> None:
        self.check()
        self._appends.take(Single(value, key, slot))

    def take_batch(self, batch: Batch, slot: Slot) -> None:
        self.check()
        self._appends.take(Whole(batch, slot))

    async def session(self, name: str) -> NamedSession:
        self.check()
        check_named_session(name)
        session = await open_session(
            self.servers,
            name,
            self._appends.under_way,
            compression=self._compression,
            timeout_s=self.timeout_s,
            check=self.check,
        )
        self._sessions.append(session)
        return session

    # Reading

    async def read(self, position: int, *, shard: int | None = None, wait: Duration = 0) -> Record:
        self.check()
        check_position(position)
        check_shard_number(shard)
        wait_s = seconds(wait, "wait")
        if position < self._first:
            raise Trimmed(f"position {position} was trimmed; the first one left is {self._first}", first=self._first)
        try:
            return await self._read(position, Deadline(wait_s))
        except Trimmed as error:
            self._first = max(self._first, error.first)
            raise
        except IthacaError:
            self.check()  # a handle that was closed meanwhile says that
            raise

    async def _read(self, position: int, patience: Deadline) -> Record:
        """Ask any server; that nothing is there is the leader's to say, after this call began."""
        deadline, pauses = Deadline(self.timeout_s + patience.left_s), Backoff()
        known: LogIs | None = None
        damage: dict[Address, Corrupt] = {}
        while True:
            address = self._reader(leading=known is not None and position < known.tail)
            wait_s = min(patience.left_s, ATTEMPT_TIMEOUT_S) if known is None or position >= known.tail else 1.0
            try:
                answer = await self._ask_to_read(address, position, wait_s)
                if isinstance(answer.message, Found):
                    self._reader_before = address
                    found = answer.message.position
                    batch = parse(answer.payload)
                    if not 0 <= position - found < batch.count:
                        raise ProtocolError(f"a server answered Read({position}) with a batch at {found}")
                    return batch.record(found, SHARD, position - found)
                if not isinstance(answer.message, Behind):
                    raise ProtocolError(f"a server answered Read with {type(answer.message).__name__}")
                self._reader_before = None
                if patience.passed or known is None:
                    known = await self.servers.log(deadline)
                    if position >= known.tail and patience.passed:
                        raise NotWritten(
                            f"position {position} is not written: the tail is {known.tail}", tail=known.tail
                        )
                continue
            except Corrupt as error:
                damage[address] = error
                if set(damage) >= set(self.servers.members):
                    raise
            except (Unavailable, ProtocolError, StorageError):
                if deadline.passed:
                    raise
            self._reader_before = None
            self.servers.lost(address)
            await pauses.pause(deadline)

    def _reader(self, *, leading: bool) -> Address:
        if leading and self.servers.leader is not None:
            return self.servers.leader
        return self._reader_before or rng().choice(self.servers.addresses)

    async def _ask_to_read(self, address: Address, position: int, wait_s: float) -> Received:
        link = await self.servers.links.link(address, ATTEMPT_TIMEOUT_S)
        wait_ms = min(int(wait_s * 1000), READ_WAIT_MS_MAX)
        return await link.request(Read(position, wait_ms), timeout_s=wait_s + ATTEMPT_TIMEOUT_S)

    def read_range(self, start: Start, stop: Start | None = None, *, where: KeyFilter | None = None) -> RaftRecords:
        self.check()
        check_range(start, stop, where)
        return RaftRecords(self, start, stop, where).told(self.bootstrap, stop)

    def subscribe(self, start: Start = "latest", *, where: KeyFilter | None = None) -> RaftSubscription:
        self.check()
        check_start(start)
        check_filter(where)
        return RaftSubscription(self, start, None, where).told(self.bootstrap)

    async def scan(
        self,
        start: int,
        stop: int,
        *,
        where: KeyFilter | None = None,
        shards: frozenset[int] | None = None,
        chunk_bytes: int,
        local: bool = True,
    ) -> AwaitedScan:
        self.check()
        has_any = shards is None or SHARD in shards
        scan = RaftScan(self, start, stop if has_any else start, where, chunk_bytes)
        await scan.begin(local=local)
        return scan

    async def first(self) -> int:
        self.check()
        found = await self.servers.log(Deadline(self.timeout_s))
        self._first = max(self._first, found.first)
        return found.first

    async def tail(self) -> int:
        self.check()
        return (await self.servers.log(Deadline(self.timeout_s))).tail

    async def trim(self, before: int) -> None:
        self.check()
        check_position(before, "before")
        answer = await self.servers.ask(TrimBefore(before), Deadline(self.timeout_s))
        if not isinstance(answer, LogIs):
            raise ProtocolError(f"a server answered TrimBefore with {type(answer).__name__}")
        self._first = max(self._first, answer.first)
        if answer.first > 1:
            last = answer.first - 1
            await trim_seen(self.servers.members, lambda address, _: self._ask_to_read(address, last, 0))

    async def status(self) -> ClusterStatus:
        self.check()
        with suppress(IthacaError):  # nobody leads: then those that are known are asked
            await self.servers.ask_members(GetMembers(), Deadline(ATTEMPT_TIMEOUT_S))
        return cluster_status(
            await asyncio.gather(*(_asked(each, self.servers.links.tls) for each in self.servers.members))
        )

    # Ending

    async def close(self) -> None:
        if not self._life.end():
            return
        for reader in list(self.readers):
            reader.handle_closed()
        await self._appends.under_way.drained(Deadline(self.timeout_s))
        error = unacknowledged(self.timeout_s)
        for session in self._sessions:
            await session.close(error)
        await self._appends.close(error)
        await self.servers.links.close()
        await self._submitted.flush(None)


async def _asked(address: Address, tls: TLS | None) -> ServerStatus:
    try:
        status = await ask_status(address, tls)
    except IthacaError as error:
        return ServerStatus(ServerPlace("orderer", 0, address), None, str(error))
    return ServerStatus(ServerPlace("orderer", int(status.get("server", 0)), address), status)


async def open_log(bootstrap: tuple[Address, ...], settings: ClientSettings) -> RaftLog:
    """A handle on the cluster that has these servers; `Unavailable` when no leader answers in time."""
    links = Links(settings.tls, settings.token)
    servers = Servers(bootstrap, links)
    try:
        await servers.log(Deadline(settings.timeout_s))
    except BaseException:
        await links.close()
        raise
    return RaftLog(servers, settings)
