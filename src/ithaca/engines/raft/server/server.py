"""A server: one member of the Raft group. Wiring only.

`server.raft_host` runs Raft over `storage.shared_log`, `machine` applies what it agrees on, `leading` takes appends
while this server leads, `reading` serves what is agreed on, and `requests` answers.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from uuid import UUID

from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from ithaca.engines.raft.replog.entries import weigh
from ithaca.engines.raft.server.cargo import RangeCargo
from ithaca.engines.raft.server.copying import LaneCopier
from ithaca.engines.raft.server.leading import Leading
from ithaca.engines.raft.server.machine import LogMachine
from ithaca.engines.raft.server.reading import ReadView
from ithaca.engines.raft.server.requests import RequestPeer, Requests
from ithaca.engines.raft.server.retention import Retaining
from ithaca.engines.raft.server.status import server_status
from ithaca.engines.raft.storage.shared_log import SharedLog, SharedLogFiles
from ithaca.model.config.cluster import ClusterFile, check_founders
from ithaca.model.errors import ConfigError, Corrupt, LastOrderer, NoSuchOrderer, Unavailable
from ithaca.model.view import Address
from ithaca.protocol.codec import Received
from ithaca.protocol.greeting import FEATURES, VERSION_MAX, VERSION_MIN, Hello, Welcome
from ithaca.protocol.members import Clocks
from ithaca.raft.events import Role, RoleChanged, Settings
from ithaca.raft.messages import ServerId
from ithaca.runtime.connection import Connection, Peer
from ithaca.runtime.listener import HttpAnswer, Listener, listen
from ithaca.runtime.metrics import OrdererMetrics
from ithaca.server.raft_host.host import RaftHost
from ithaca.server.raft_host.identity import RaftMember, Words
from ithaca.server.status import answer_http
from ithaca.storage.directory_lock import take_lock
from ithaca.storage.disk import Disk, OsDisk, OsFile

_log = logging.getLogger("ithaca.raft")

SERVERS = Words(
    "orderer", NoSuchOrderer, LastOrderer, way_out="put another one into its place (ithaca orderer replace NUMBER)"
)
"""What members of this Raft group are called: in the cluster's file they are its orderers."""
COMMIT_TOLD_MS = 2
"""Who reads from a follower waits for what it is told."""
INFLIGHT_APPENDS = 2
"""The pipeline of each follower (eBay §3.3): the next append has all that came since the last one left."""


class RaftServer:
    """One server of a cluster. `start`, then `wait` until it is stopped or fails, then `stop`."""

    def __init__(
        self,
        file: ClusterFile,
        server: ServerId,
        directory: str,
        *,
        disk: Disk | None = None,
        settings: Settings | None = None,
        listen_at: Address | None = None,
    ) -> None:
        """`listen_at`: if others reach this server at the file's address by way of a proxy or a mapped port."""
        if file.durability != "fsync":
            raise ConfigError(
                f'durability is {file.durability!r}: this engine agrees on what is synced, so use "fsync"'
            )
        self._file = file
        self._server = server
        self._directory = directory
        self._disk = disk or OsDisk()
        self._settings = replace(
            settings or Settings(),
            weigh=weigh,
            fetches=True,
            inflight_appends_max=INFLIGHT_APPENDS,
            commit_told_ms=COMMIT_TOLD_MS,
        )
        self._listen_at = listen_at or file.orderer(server).address
        self._registry = CollectorRegistry()
        self.metrics = OrdererMetrics(self._registry)
        self.machine = LogMachine(self._trimmed)
        self._files = SharedLogFiles(file.segment_bytes)
        self._host: RaftHost | None = None
        self._store: SharedLog | None = None
        self._read_view: ReadView | None = None
        self._copier: LaneCopier | None = None
        self.leading: Leading | None = None
        """While this server leads."""
        self._retaining: Retaining | None = None
        self._requests: Requests | None = None
        self._peers: dict[Connection, RequestPeer] = {}
        self._lock: OsFile | None = None
        self._listener: Listener | None = None
        self._is_started = False
        self._damage: str | None = None
        self._ended = asyncio.Event()
        self._error: Exception | None = None

    # Life

    @property
    def address(self) -> Address:
        return self._listen_at if self._listener is None else self._listener.address

    @property
    def host(self) -> RaftHost:
        assert self._host is not None, "the server was started"
        return self._host

    @property
    def store(self) -> SharedLog:
        assert self._store is not None, "the server was started"
        return self._store

    @property
    def read_view(self) -> ReadView:
        assert self._read_view is not None, "the server was started"
        return self._read_view

    async def start(self) -> None:
        """Recover the disk, listen, and begin to take part."""
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise
        _log.info("server %d listens at %s", self._server, self.address)

    async def _start(self) -> None:
        self._disk.make_directory(self._directory)
        if isinstance(self._disk, OsDisk):  # a simulated disk belongs to whoever made it
            self._lock = take_lock(self._disk, self._directory, "stop that server first")
        cargo = RangeCargo(lambda: self.store, lambda: self.host.driver)
        host = self._host = RaftHost(
            _member(self._file, self._server),
            self._disk,
            self._directory,
            self._files,
            self.machine,
            self,
            self._settings,
            cargo,
        )
        assert self._files.opened is not None
        self._store = self._files.opened
        self._read_view = ReadView(self._store, self.machine, lambda: host.driver.applied_index)
        cargo.heard = self._read_view.heard
        self._copier = LaneCopier(self._store, host.driver, self._client_hello, lambda of: host.group.addresses.get(of))
        cargo.fetch = self._copier.fetch
        self._requests = Requests(self)
        self._set_gauges()
        self._listener = await listen(self._listen_at, accept=self._accept, welcome=self._welcome, http=self._http)
        host.start()
        self._is_started = True
        self._trimmed(self.machine.state.trim_lsn)

    async def stop(self) -> None:
        """Stop cleanly: what is being written is finished. Idempotent."""
        stopping = Unavailable(f"server {self._server} is stopping")
        self._end_leading(stopping)
        if self._read_view is not None:
            self._read_view.close(stopping)
        if self._copier is not None:
            await self._copier.close()
        if self._host is not None:
            await self._host.stop()
        if self._requests is not None:
            self._requests.close()
        if self._listener is not None:
            await self._listener.close()
        if self._store is not None and self._error is None:
            store, self._store = self._store, None
            store.close(self.machine.state.length)
        if self._lock is not None:
            self._lock.close()
            self._lock = None
        self._ended.set()

    async def wait(self) -> None:
        """Until the server has stopped; raises what made it fail."""
        await self._ended.wait()
        if self._error is not None:
            raise self._error

    # What Raft tells

    def clocks(self) -> Clocks | None:
        return None

    def heard(self, server: ServerId, clocks: Clocks | None) -> None:
        """Times are the producers' here."""

    def role_changed(self, change: RoleChanged) -> None:
        assert self._requests is not None
        unknown = Unavailable(f"server {self._server} does not lead any more: ask who does")
        unknown.outcome_unknown = True
        self._end_leading(unknown)
        if change.role is Role.LEADER:
            driver = self.host.driver
            self.leading = Leading(driver, self.machine, self.store, self._ready_to_lead)
            self._retaining = Retaining(self._file.retention, self.machine, self.store, self.leading)
        self._requests.leader_changed()

    def _ready_to_lead(self) -> None:
        assert self._requests is not None
        if self.is_ready:
            self.read_view.leads()
        self._requests.leader_changed()

    def applied(self) -> None:
        if self.leading is not None:
            self.leading.applied()
        if self._read_view is not None:
            self._read_view.advanced()

    def members_agreed(self) -> None:
        """Whoever asks is told."""

    def persisted(self, seconds: float) -> None:
        self.metrics.persisted(seconds)

    def failed(self, error: Exception) -> None:
        self._end_leading(Unavailable(f"server {self._server} has failed"))
        self._error = error
        self._ended.set()

    @property
    def is_ready(self) -> bool:
        """Whether this server takes a leader's requests."""
        return self.leading is not None and self.leading.is_ready

    def _end_leading(self, error: Unavailable) -> None:
        if self._retaining is not None:
            self._retaining.end()
            self._retaining = None
        if self.leading is not None:
            leading, self.leading = self.leading, None
            leading.end(error)

    def _trimmed(self, lsn: int) -> None:
        if self._is_started and lsn:
            store = self.store
            self.host.driver.submit_job(lambda: store.trim(lsn), lambda: None)

    # What others learn of this server

    def status(self) -> dict[str, Any]:
        return server_status(
            self._server, self.address, self.host, self.machine.state, self.store, self.read_view.first, self._damage
        )

    def found_damage(self, error: Corrupt) -> None:
        """A record cannot be read here; others have it, and whoever asked goes there."""
        if self._damage is None:
            _log.error("the data log of server %d is damaged: %s; %s", self._server, error, SERVERS.way_out)
        self._damage = str(error)

    def start_task(self, connection: Connection, request: Received, work: Callable[[], Awaitable[None]]) -> None:
        """Run what has to wait, as a part of its connection."""
        peer = self._peers.get(connection)
        if peer is not None:
            peer.start(connection, request, work)

    def _log_id(self) -> UUID | None:
        configuration = self.machine.state.configuration
        return None if configuration is None else configuration.log

    def hello(self) -> Hello:
        name, engine = str(self._server), self._file.engine
        return Hello(VERSION_MIN, VERSION_MAX, SERVERS.role, name, FEATURES, self._log_id(), engine=engine)

    def _client_hello(self) -> Hello:
        """For what a server asks another one as a client would."""
        return replace(self.hello(), role="client")

    def _welcome(self) -> Welcome:
        name, engine = str(self._server), self._file.engine
        return Welcome(VERSION_MAX, SERVERS.role, name, FEATURES, self._log_id(), engine=engine)

    def _accept(self, connection: Connection, hello: Hello) -> Peer:
        assert self._requests is not None
        if hello.role == SERVERS.role:
            return self.host.accept(connection, hello)
        peer = _Peer(self._requests, self._peers)
        self._peers[connection] = peer
        return peer

    def _http(self, path: str) -> HttpAnswer | None:
        return answer_http(path, self.status, self._registry)

    def _set_gauges(self) -> None:
        metrics, driver = self.metrics, self.host.driver
        metrics.is_leader.set_function(lambda: driver.is_leader)
        metrics.term.set_function(lambda: driver.term)
        metrics.sessions.set_function(lambda: len(self.machine.state.sessions))
        metrics.tail.set_function(lambda: self.machine.state.tail)
        metrics.connections.set_function(lambda: 0 if self._listener is None else self._listener.connection_count)


class _Peer(RequestPeer):
    """One that is forgotten with its connection."""

    def __init__(self, requests: Requests, peers: dict[Connection, RequestPeer]) -> None:
        super().__init__(requests)
        self._peers = peers

    def on_lost(self, connection: Connection, error: Any) -> None:
        self._peers.pop(connection, None)
        super().on_lost(connection, error)


def _member(file: ClusterFile, server: ServerId) -> RaftMember:
    """This server in its group, as the file has it. One that is joining knows of nobody."""

    def founders() -> Mapping[ServerId, Address]:
        return {} if file.orderer(server).joining else check_founders(file)

    return RaftMember(server, SERVERS, founders, {place.server: place.address for place in file.orderers})
