"""The handle of a cluster."""

import asyncio
from collections.abc import Iterable, Sequence

from ithaca.client.consuming.cluster import ClusterConsumers
from ithaca.client.consuming.known import commits_of
from ithaca.client.deadline import Deadline
from ithaca.client.handle_life import unacknowledged
from ithaca.client.intake import RecordSlot, Slot, refuse
from ithaca.client.settings import ClientSettings
from ithaca.client.trim_seen import trim_seen
from ithaca.engines.scalog.client.admin.admin import AsyncClusterAdmin
from ithaca.engines.scalog.client.admin.losses import LossAdmin
from ithaca.engines.scalog.client.admin.status import cluster_status
from ithaca.engines.scalog.client.append.appends import Appends
from ithaca.engines.scalog.client.append.part_writer import AsyncPartWriter
from ithaca.engines.scalog.client.append.parts import Parts, checked_ttl
from ithaca.engines.scalog.client.append.session import AsyncClusterSession, open_session
from ithaca.engines.scalog.client.context import Context, open_context
from ithaca.engines.scalog.client.links import Links
from ithaca.engines.scalog.client.read.records import AsyncClusterRecords, AsyncClusterSubscription
from ithaca.engines.scalog.client.read.scan import AsyncScan
from ithaca.engines.scalog.messages.reading import Read
from ithaca.engines.scalog.ordering.entries import TrimTo
from ithaca.engines.scalog.ordering.outcomes import RefusedEntry, TrimmedLog
from ithaca.model.errors import InvalidInput, IthacaError, ProtocolError
from ithaca.model.interface import ClusterStatus, ShardPolicy
from ithaca.model.interface.shared import Consumed
from ithaca.model.limits import PART_TTL_S
from ithaca.model.parts import Part, Published
from ithaca.model.records import Buffer, KeyFilter, Keys, Receipt, Record, Start, Values
from ithaca.model.units import Duration, optional_seconds, seconds
from ithaca.model.view import Address
from ithaca.protocol.codec import Message
from ithaca.runtime.checks import (
    check_filter,
    check_named_session,
    check_position,
    check_range,
    check_shard_number,
    check_start,
)
from ithaca.runtime.futures import within
from ithaca.runtime.machine import wall_us
from ithaca.wire.batch import Batch
from ithaca.wire.build import build, checked_record


class AsyncClusterLog(ClusterConsumers):
    """A handle on a cluster of this engine."""

    def __init__(self, context: Context, settings: ClientSettings) -> None:
        super().__init__(settings)
        self._context = context
        self._appends = Appends(
            context.order,
            context.replicas,
            context.seen,
            policy=settings.shard_policy,
            compression=settings.compression,
            inflight=self.inflight,
            timeout_s=context.timeout_s,
        )
        self._parts = Parts(context, self._appends, settings.compression)
        self._admin = self._make_admin(context)
        self._sessions: list[AsyncClusterSession] = []

    def _make_admin(self, context: Context) -> AsyncClusterAdmin:
        return LossAdmin(context)

    @property
    def admin(self) -> AsyncClusterAdmin:
        return self._admin

    def check(self) -> None:
        self._context.check()

    async def ask_leader(self, message: Message, timeout_s: float | None) -> Message:
        self._context.check()
        return await self._context.order.ask(message, self._deadline(timeout_s))

    # Appending

    def take_record(self, value: bytes, key: bytes | None, slot: Slot) -> None:
        self._context.check()
        self._appends.take_record(value, key, slot)

    def take_records(self, run: Sequence[RecordSlot]) -> None:
        try:
            self._context.check()
        except IthacaError as error:
            for each in run:
                refuse(each, error)
        else:
            self._appends.take_records(run)

    def take_batch(self, batch: Batch, slot: Slot) -> None:
        self._context.check()
        self._appends.take_batch(batch, slot)

    async def append_to_shard(
        self, shard: int, value: Buffer, *, key: Buffer | None = None, timeout: Duration | None = None
    ) -> Receipt:
        self._context.check()
        timeout_s = optional_seconds(timeout)
        check_shard_number(shard)
        plain, plain_key = checked_record(value, key)
        await self._context.reading.check_shard(shard, Deadline(self._context.timeout_s))
        if self.inflight.is_full:
            await self.wait_for_room()
        self._context.check()
        future: asyncio.Future[Receipt] = self._loop.create_future()
        self._appends.take_record_in(shard, plain, plain_key, future)
        return await (future if timeout_s is None else within(future, timeout_s))

    async def session(self, name: str) -> AsyncClusterSession:
        context = self._context
        context.check()
        check_named_session(name)
        opened, next_seq = await open_session(self._appends.homes, name, Deadline(context.timeout_s))
        context.check()
        session = AsyncClusterSession(
            opened,
            next_seq,
            self._appends,
            compression=self._compression,
            timeout_s=context.timeout_s,
            check=context.check,
        )
        self._sessions.append(session)
        return session

    # Prepared appends

    async def prepare(
        self,
        values: Values,
        *,
        keys: Keys | None = None,
        shard: int | None = None,
        ttl: Duration = PART_TTL_S,
        timeout: Duration | None = None,
    ) -> Part:
        self._context.check()
        deadline, ttl_s = self._deadline(timeout), checked_ttl(ttl)
        check_shard_number(shard)
        batch = build(values, keys, timestamp_us=wall_us(), compress=self._compression)
        return await self._parts.prepare(batch, shard, ttl_s, deadline)

    async def open_part(
        self, *, shard: int | None = None, ttl: Duration = PART_TTL_S, timeout: Duration | None = None
    ) -> AsyncPartWriter:
        self._context.check()
        check_shard_number(shard)
        return await self._parts.open(shard, checked_ttl(ttl), self._deadline(timeout))

    async def publish(
        self,
        key: int,
        parts: Iterable[Part],
        *,
        writer: str,
        owner: str = "",
        consumed: Consumed | None = None,
        timeout: Duration | None = None,
    ) -> Published:
        self._context.check()
        commits = commits_of(consumed)
        return await self._parts.publish(key, parts, writer, owner, commits, self._deadline(timeout))

    async def publish_once(
        self, parts: Iterable[Part], *, consumed: Consumed | None = None, timeout: Duration | None = None
    ) -> Published:
        self._context.check()
        return await self._parts.publish_once(parts, commits_of(consumed), self._deadline(timeout))

    async def renew(
        self, parts: Iterable[Part], *, ttl: Duration = PART_TTL_S, timeout: Duration | None = None
    ) -> None:
        self._context.check()
        await self._parts.renew(parts, checked_ttl(ttl), self._deadline(timeout))

    async def abort(self, parts: Iterable[Part]) -> None:
        self._context.check()
        await self._parts.abort(parts, self._deadline(None))

    def _deadline(self, timeout: Duration | None) -> Deadline:
        return Deadline(self._context.timeout_s if timeout is None else seconds(timeout))

    def set_shard_policy(self, policy: ShardPolicy) -> None:
        self._context.check()
        self._appends.set_policy(policy)

    # Reading

    async def read(self, position: int, *, shard: int | None = None, wait: Duration = 0) -> Record:
        self._context.check()
        check_position(position)
        check_shard_number(shard)
        wait_s = seconds(wait, "wait")
        try:
            return await self._context.reading.read(position, shard, wait_s)
        except IthacaError:
            self._context.check()  # a handle that was closed meanwhile says that
            raise

    def read_range(
        self, start: Start, stop: Start | None = None, *, where: KeyFilter | None = None
    ) -> AsyncClusterRecords:
        self._context.check()
        check_range(start, stop, where)
        return AsyncClusterRecords(self._context, start, stop, where).told(self.bootstrap, stop)

    def subscribe(self, start: Start = "latest", *, where: KeyFilter | None = None) -> AsyncClusterSubscription:
        self._context.check()
        check_start(start)
        check_filter(where)
        return AsyncClusterSubscription(self._context, start, where).told(self.bootstrap)

    async def scan(
        self,
        start: int,
        stop: int,
        *,
        where: KeyFilter | None = None,
        shards: frozenset[int] | None = None,
        chunk_bytes: int,
        local: bool = True,
    ) -> AsyncScan:
        self._context.check()
        scan = AsyncScan(self._context, start, stop, where=where, shards=shards, chunk_bytes=chunk_bytes)
        await scan.begin(local=local)
        return scan

    async def first(self) -> int:
        self._context.check()
        tail = await self._context.order.tail(Deadline(self._context.timeout_s))
        self._context.reading.trimmed(tail.first)
        return tail.first

    async def tail(self) -> int:
        self._context.check()
        return (await self._context.order.tail(Deadline(self._context.timeout_s))).tail

    async def trim(self, before: int) -> None:
        context = self._context
        context.check()
        check_position(before, "before")
        deadline = Deadline(context.timeout_s)
        for outcome in await context.order.propose(TrimTo(before), deadline):
            if isinstance(outcome, TrimmedLog):
                context.reading.trimmed(outcome.first)
                await self._trim_seen(outcome.first)
                return
            if isinstance(outcome, RefusedEntry):
                tail = (await context.order.tail(deadline)).tail
                raise InvalidInput(f"cannot trim before {before}: the tail is {tail}, and only what is written can go")
        raise ProtocolError("an orderer did not say what became of a trim")

    async def _trim_seen(self, first: int) -> None:
        async def read_last(address: Address, deadline: Deadline) -> None:
            link = await self._context.links.link(address, max(deadline.left_s, 0.001))
            await link.request(Read(first - 1), max(deadline.left_s, 0.001))

        if first > 1:
            shards = self._context.order.view.shards
            await trim_seen([replica.address for shard in shards for replica in shard.replicas], read_last)

    async def status(self) -> ClusterStatus:
        self._context.check()
        return await cluster_status(self._context.order, self._context.links)

    # Ending

    async def close(self) -> None:
        context = self._context
        if not context.life.end():
            return
        for reader in list(context.readers):
            reader.handle_closed()
        deadline = Deadline(context.timeout_s)
        await self._parts.close()
        await self._appends.under_way.drained(deadline)
        error = unacknowledged(context.timeout_s)
        await self._appends.close(error, deadline)
        for session in self._sessions:
            await session.close(error)
        await context.links.close()
        await self._submitted.flush(None)


async def open_log(addresses: tuple[Address, ...], settings: ClientSettings) -> AsyncClusterLog:
    """A handle on the cluster that has these orderers; `Unavailable` when none of them answers in time."""
    links = Links(tls=settings.tls, token=settings.token)
    return AsyncClusterLog(await open_context(addresses, settings.timeout_s, links), settings)
