"""A storage server: the shell around `engines.scalog.replica.core`. It performs the core's effects and decides nothing.

Everything happens in one event loop. Lanes that grow are written by
`LaneWriter`, by the loop or by a thread of each lane; other disk work and
cold reads run in the default executor; both come back to the loop as events.
"""

import asyncio
import errno
import logging
from collections.abc import Sequence
from typing import Any, ClassVar

from prometheus_client import CollectorRegistry

from ithaca.engines.scalog.messages.reporting import Join, Joined, ShardNews
from ithaca.engines.scalog.replica.core import ReplicaCore
from ithaca.engines.scalog.replica.events import (
    Appended,
    Event,
    Held,
    OrderJoined,
    OrderLost,
    PartAppended,
    ReplicaRemoved,
    Replicated,
    Request,
    RunsFetched,
    ShardReclaimed,
    SourcesExhausted,
    StartedAgain,
    Tick,
)
from ithaca.engines.scalog.replica.settled import SettledCopies
from ithaca.engines.scalog.server.limit_uses import aside_uses, disk_uses, process_uses, replica_uses
from ithaca.engines.scalog.server.replica.copies import Copies
from ithaca.engines.scalog.server.replica.damage import Damage
from ithaca.engines.scalog.server.replica.disk import LaneDisk
from ithaca.engines.scalog.server.replica.feed import OwnLaneFeed
from ithaca.engines.scalog.server.replica.gateway import GatewayPeer
from ithaca.engines.scalog.server.replica.identity import Identity
from ithaca.engines.scalog.server.replica.order import OrderLink
from ithaca.engines.scalog.server.replica.parts import PartFeeds
from ithaca.engines.scalog.server.replica.performing import Asked, Performing
from ithaca.engines.scalog.server.replica.status import ReplicaPlaced, replica_status
from ithaca.engines.scalog.server.replica.streams import ReadView
from ithaca.engines.scalog.server.rights import SCALOG_RULES, SCALOG_WORDING
from ithaca.engines.scalog.storage import replica_meta
from ithaca.engines.scalog.storage.lane_store import LaneStore
from ithaca.model.config.cluster import ClusterFile
from ithaca.model.cut import LaneRun, ShardCut
from ithaca.model.errors import Corrupt, Fenced, IthacaError, NoSuchReplica, NoSuchShard, Unavailable
from ithaca.model.limit_use import Uses
from ithaca.model.positions import LaneId
from ithaca.model.view import Address
from ithaca.protocol.greeting import Hello
from ithaca.runtime.connection import Connection
from ithaca.runtime.listener import HttpAnswer, Listener, listen
from ithaca.runtime.machine import lanes_open_max, monotonic_ns, monotonic_s
from ithaca.runtime.metrics import ReplicaMetrics
from ithaca.server.audit import AuditLog
from ithaca.server.greeter import Greeter
from ithaca.server.life import lock_directory
from ithaca.server.options import ServerOptions
from ithaca.server.status import answer_http
from ithaca.server.users.following import UserFollower
from ithaca.server.users.gate import UserGate
from ithaca.server.users.rules import Rules
from ithaca.storage.disk import OsFile
from ithaca.wire.batch import Batch

_log = logging.getLogger("ithaca.replica")


SIGNS_OF_LIFE = 4
"""How many a replica gives in the time after which it would count as failed."""


def _now_us() -> int:
    return monotonic_ns() // 1000


class ReplicaServer:
    """One replica of one shard. `start`, then `wait` until it is stopped or fails, then `stop`."""

    rules: ClassVar[Rules] = SCALOG_RULES
    is_dense = True
    """Whether every position below the tail holds a record, or did."""
    has_places = False
    """Whether batches of lanes stand behind entries that say their places."""
    beside: ClassVar[tuple[str, ...]] = ()
    """Files beside `meta` and the lanes that say something of this replica alone."""

    def __init__(
        self,
        file: ClusterFile,
        shard: int,
        replica: int,
        directory: str,
        options: ServerOptions | None = None,
        *,
        address: Address | None = None,
        is_spare: bool = False,
    ) -> None:
        """`address`: of a replica that the file has not. `is_spare`: it ends with `NoSuchReplica` if its shard does not
        need it, and never had it."""
        options = options or ServerOptions()
        self._is_spare = is_spare
        self._file = file
        self._public = address or file.replica(shard, replica).address
        self._listen_at = options.listen_at or self._public
        self._shard = shard
        self._replica = replica
        self._name = f"{shard}/{replica}"
        self._directory = directory
        self._disk = options.disk
        certified = file.spare_name(self._public) if is_spare else None
        self._greeter = Greeter(file, "replica", self._name, lambda: self._identity.log, certified=certified)
        self._registry = CollectorRegistry()
        self.metrics = ReplicaMetrics(self._registry)
        self._lock: OsFile | None = None
        self._listener: Listener | None = None
        self._order_task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_us = 0
        self._users: UserFollower | None = None
        self._has_parted = False
        """Whether an effect has failed."""

    # Life

    @property
    def address(self) -> Address:
        return self._listen_at if self._listener is None else self._listener.address

    async def start(self) -> None:
        """Recover the disk, listen, and begin to join the order."""
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._lock = lock_directory(self._disk, self._directory)
        try:
            await self._open()
            audit = self._greeter.audit()
            gate = self._make_gate(audit)
            self._listener = await listen(
                self._listen_at,
                accept=self._accept,
                welcome=self._greeter.welcome,
                http=self._http,
                on_refused=self.metrics.refused,
                guard=self._greeter.guard,
                audit=audit,
                gate=gate,
            )
        except BaseException:
            if self._lock is not None:
                self._lock.close()
            raise
        self._observe(self._listener)
        if gate is not None:
            self._users = UserFollower(
                gate, lambda: self._order.newest.addresses or self._orderers(), self._greeter.hello
            )
            self._users.start()
        self._order_task = asyncio.create_task(self._keep_joined())
        boot = self._identity.boot
        _log.info("replica %d of shard %d listens at %s (boot %d)", self._replica, self._shard, self.address, boot)

    async def _open(self) -> None:
        """Recover what the disk holds, and make the parts of this server."""
        self._identity = await asyncio.to_thread(
            Identity,
            self._disk,
            self._directory,
            self._shard,
            self._replica,
            self._public if self._is_spare else None,
            self.fail,
            self.beside,
        )
        self.store = await asyncio.to_thread(
            lambda: LaneStore(
                self._disk,
                f"{self._directory}/{replica_meta.LANES}",
                durability=self._file.durability,
                segment_bytes=self._file.segment_bytes,
                lanes_open_max=lanes_open_max(),
                is_dense=self.is_dense,
            )
        )
        held = {lane: Held(*found) for lane, found in self.store.held().items()}
        settled = SettledCopies(self.store.settled.lengths())
        boot = self._identity.boot
        self.core = await self._make_core(boot, held, settled)
        self.damage = Damage(self.store, self.core, self.metrics)
        self.read_view = ReadView(self.store, self.core)
        self._lane_disk = LaneDisk(self.store, self.step, self.fail, self.metrics, self.damage.met)
        self._copies = self._make_copies()
        self._order = self._make_order()
        self._performing = Performing(
            self.core, self.store, self._lane_disk, self._copies, self._order, self.read_view, self.metrics, self.fail
        )

    # Its parts, which an engine that is built on this one makes of its own

    async def _make_core(self, boot: int, held: dict[LaneId, Held], settled: SettledCopies) -> ReplicaCore:
        return ReplicaCore(self._shard, self._replica, boot, held, settled=settled, now_us=_now_us())

    def _make_copies(self) -> Copies:
        return Copies(self, self._greeter.hello)

    def _make_order(self) -> OrderLink:
        return OrderLink(self._orderers(), self._join(), self._greeter.hello, self, self._sign_every_s())

    def _make_gate(self, audit: AuditLog | None) -> UserGate | None:
        return self._greeter.gate(self.rules, SCALOG_WORDING, audit, self.metrics.refused)

    def _orderers(self) -> tuple[Address, ...]:
        return tuple(place.address for place in self._file.orderers)

    def _join(self) -> Join:
        return Join(self._shard, self._replica, self._identity.boot, address=self._identity.address)

    def _sign_every_s(self) -> float:
        return self._file.watching.detection_ms / 1000 / SIGNS_OF_LIFE

    async def wait(self) -> None:
        """Until the server fails; raises what made it fail."""
        await asyncio.shield(self._failed)

    async def stop(self) -> None:
        """Stop cleanly: what was accepted is written. Idempotent."""
        if self._listener is None:
            return
        listener, self._listener = self._listener, None
        if self._order_task is not None:
            self._order_task.cancel()
            await asyncio.gather(self._order_task, return_exceptions=True)
        if self._users is not None:
            await self._users.stop()
        try:
            await self._copies.close()
            await listener.close()
            await self._lane_disk.close()
        finally:
            if self._timer is not None:
                self._timer.cancel()
            if self._lock is not None:
                self._lock.close()
            if not self._failed.done():
                self._failed.set_result(None)
            self._failed.exception()  # looked at: nobody may wait any more

    def fail(self, error: Exception) -> None:
        """The server cannot go on. Damage to what it needs for its own work is repaired by the next start."""
        if not self._failed.done():
            _log.error("the replica cannot go on: %s", error)
            if isinstance(error, IthacaError):
                self.damage.met(error)
            self._failed.set_exception(error)

    async def _keep_joined(self) -> None:
        try:
            await self._order.run()
        except IthacaError as error:
            self.fail(error)

    @property
    def feed(self) -> OwnLaneFeed | None:
        """What is sent of the own lane, once there is one."""
        return self._performing.feed

    @property
    def part_feeds(self) -> PartFeeds:
        """What is sent of the parts that are written here."""
        return self._performing.part_feeds

    # Events in, effects out

    def step(self, event: Event) -> None:
        """Take one event, and whatever it leads to."""
        if self._has_parted:
            return
        self._performing.before(event)
        self._take(event)
        self._performing.after(event)
        self._finish_turn()

    def _take(self, event: Event) -> None:
        """Step, and perform what follows. If that fails half-way, core and store have parted: nothing more is taken,
        and the next start begins with what is on the disk."""
        performers = self._performing.performers
        try:
            for effect in self._stepped(event):
                performers[type(effect)](effect)
        except Exception as error:
            self._has_parted = True
            self.read_view.close(Unavailable(f"replica {self._name} ends: ask another"))
            self.fail(_failure(event, error))

    def _stepped(self, event: Event) -> Sequence[object]:
        return self.core.step(event)

    def _finish_turn(self) -> None:
        """What is said once, however many events there were."""
        self._performing.finish_turn()
        deadline_us = self.core.deadline_us
        if deadline_us is not None and (self._timer is None or deadline_us < self._timer_us):
            if self._timer is not None:
                self._timer.cancel()
            self._timer_us = deadline_us
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(max(0, deadline_us - _now_us()) / 1e6, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self.step(Tick(_now_us()))

    # What clients send

    def appended(self, connection: Connection, correlation: int, lane: LaneId, batch: Batch) -> None:
        self.metrics.accepted(1, batch.count, batch.total_bytes)
        self.step(Appended(Request(Asked(connection, monotonic_s()), correlation), lane, batch))

    def part_appended(
        self, connection: Connection, correlation: int, lane: LaneId, token: bytes, lsn: int, batch: Batch
    ) -> None:
        self.metrics.accepted(1, batch.count, batch.total_bytes)
        request = Request(Asked(connection, monotonic_s()), correlation)
        self.step(PartAppended(request, lane, token, lsn, batch))

    def connection_lost(self, connection: Connection) -> None:
        self._performing.connection_lost(connection)

    # What the order says

    def order_joined(self, joined: Joined) -> None:
        if self._identity.joined(joined):
            self.step(OrderJoined(joined.log, joined.lane, joined.summary, joined.cuts))

    def order_knows(self, boot: int) -> None:
        self._identity.skip_boots(boot)

    def order_closed(self) -> int | None:
        boot = self._identity.start_again()
        if boot is not None:
            _log.warning("the lane of replica %s was closed: it goes on as boot %d", self._name, boot)
            self.step(StartedAgain(boot))
        return boot

    def order_gone(self, error: NoSuchShard) -> None:
        self._withdraw(error, ShardReclaimed(), f"shard {self._shard} was trimmed whole: nothing of it can be read")

    def order_removed(self, error: NoSuchReplica) -> None:
        self._withdraw(error, ReplicaRemoved(), f"replica {self._name} was removed from its shard: ask another")

    def _withdraw(self, error: NoSuchReplica | NoSuchShard, event: Event, answer: str) -> None:
        """What it has is kept for people, and served to nobody: others go on without it. Nothing is deleted: that takes
        an ordered entry, and this is only what somebody says."""
        if self._is_unneeded_spare:
            self.fail(NoSuchReplica(str(error)))
            return
        _log.error("%s; what this replica holds is kept in %s", error, self._directory)
        self.step(event)
        self.read_view.close(Unavailable(answer))

    @property
    def _is_unneeded_spare(self) -> bool:
        """Whether nobody can count on it: it was a spare, and its shard has never had it."""
        return self._is_spare and not self._identity.was_added and not self.store.has_lane_of(self._replica)

    def order_news(self, items: tuple[ShardNews, ...]) -> None:
        for item in items:
            if self._has_parted:
                return
            self.metrics.cuts.inc(isinstance(item, ShardCut))
            self._take(item)
        self._finish_turn()
        if self.core.state == "reclaimed" and self._is_unneeded_spare:
            self.fail(NoSuchReplica(f"shard {self._shard} was trimmed whole before this server had copied it"))

    def is_complete(self) -> bool:
        return self.core.is_complete

    def order_lost(self) -> None:
        self.step(OrderLost())

    # What peers send

    def received(self, lane: LaneId) -> int:
        return self.core.received(lane)

    def replicated(self, lane: LaneId, batch: Batch, position: int) -> None:
        self.metrics.accepted(1, batch.count, batch.total_bytes)
        self.step(Replicated(lane, batch, position))

    def queued_bytes(self, lane: LaneId) -> int:
        return self._lane_disk.queued_bytes(lane)

    def nobody_has(self, lane: LaneId) -> None:
        self.step(SourcesExhausted(lane))

    def runs_fetched(self, lane: LaneId, runs: list[tuple[LaneRun, int]]) -> None:
        for run, time_us in runs:
            self.step(RunsFetched(lane, (run,), time_us))

    # What others learn of this server

    def status(self) -> dict[str, Any]:
        connections = 0 if self._listener is None else self._listener.connection_count
        place = ReplicaPlaced(self._shard, self._replica, self._identity.boot, self.address, self._identity.log)
        status = replica_status(place, self.core, self.damage.status(), self._order.newest, connections)
        return status | {"quarantined": self._identity.kept_aside, "limits": self._limit_uses()}

    def _limit_uses(self) -> Uses:
        uses = process_uses(self._listener) | disk_uses(self._disk, self._directory) | replica_uses(self.core)
        return uses | aside_uses(len(self._identity.kept_aside))

    def _observe(self, listener: Listener) -> None:
        metrics, core = self.metrics, self.core
        metrics.observe_limits(self._limit_uses)
        metrics.connections.set_function(lambda: listener.connection_count)
        metrics.pending_bytes.set_function(lambda: core.pending_bytes)
        metrics.write_queue_bytes.set_function(self._lane_disk.all_queued_bytes)
        metrics.tail.set_function(lambda: core.tail)
        metrics.readable.set_function(lambda: core.readable)

    def _accept(self, connection: Connection, hello: Hello) -> GatewayPeer:
        return GatewayPeer(self)

    def _http(self, path: str) -> HttpAnswer | None:
        if path == "/metrics":
            for lane, _, durable, ordered in self.core.lanes():
                self.metrics.lane(lane, durable=durable, ordered=ordered)
        return answer_http(path, lambda: self._greeter.told(self.status()), self._registry)


def _failure(event: Event, error: Exception) -> Exception:
    """Files of lanes are opened where they are needed: a disk that fails, or damage, may be found half-way.

    Nothing else may be, since it was refused before.
    """
    if isinstance(error, Fenced | Corrupt):
        return error
    if isinstance(error, OSError) and error.errno == errno.EIO:
        return Fenced(f"{error.filename or 'the disk'}: {error.strerror}")
    failure = AssertionError(f"{type(event).__name__} was taken half-way: {error!r}")
    failure.__cause__ = error
    return failure
