"""A server: one member of the Raft group. Wiring only.

`server.raft_host` runs Raft over `storage.shared_log`, `machine` applies what it agrees on, `leading` takes appends
while this server leads, `reading` serves what is agreed on, and `requests` answers.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from ithaca.engines.raft.replog.entries import weigh
from ithaca.engines.raft.server.cargo import RangeCargo
from ithaca.engines.raft.server.copying import CopyPace, LaneCopier
from ithaca.engines.raft.server.idle import IdleLooks
from ithaca.engines.raft.server.leading import RangeLeaderService
from ithaca.engines.raft.server.machine import LogMachine
from ithaca.engines.raft.server.reading import ReadView
from ithaca.engines.raft.server.requests import RequestPeer, Requests
from ithaca.engines.raft.server.retention import Retaining
from ithaca.engines.raft.server.rights import RAFT_RULES, RAFT_WORDING
from ithaca.engines.raft.server.status import server_status
from ithaca.engines.raft.storage.shared_log import SharedLog, SharedLogFiles
from ithaca.model.config.cluster import ClusterFile
from ithaca.model.errors import Corrupt, IthacaError, Unavailable
from ithaca.protocol.codec import Received
from ithaca.raft.events import Role, RoleChanged
from ithaca.raft.messages import ServerId
from ithaca.runtime.connection import Connection, Peer
from ithaca.runtime.dialling import Said
from ithaca.runtime.machine import wall_us
from ithaca.runtime.metrics import OrdererMetrics
from ithaca.server.consumers import ConsumerDesk
from ithaca.server.options import ServerOptions
from ithaca.server.raft_host.hosting import HostingServer
from ithaca.server.raft_host.orderers import ORDERERS
from ithaca.server.users.gate import UserGate
from ithaca.users.table import UserTable

_log = logging.getLogger("ithaca.raft")

COMMIT_TOLD_MS = 2
"""Who reads from a follower waits for what it is told."""


class RaftServer(HostingServer):
    """One server of a cluster. `start`, then `wait` until it is stopped or fails, then `stop`."""

    inflight_appends_max = 2
    """The pipeline of each follower (eBay §3.3): the next append has all that came since the last one left."""
    append_entries_max: int | None = None
    """Ranges in one append, if that is not left to the settings."""
    files_type: type[SharedLogFiles] = SharedLogFiles
    leading_type: type[RangeLeaderService] = RangeLeaderService

    def __init__(
        self, file: ClusterFile, server: ServerId, directory: str, options: ServerOptions | None = None
    ) -> None:
        super().__init__(file, server, directory, options)
        self._registry = CollectorRegistry()
        self.metrics = OrdererMetrics(self._registry)
        self.machine = LogMachine(self._trimmed)
        self._files = self.files_type(file.segment_bytes)
        self._store: SharedLog | None = None
        self._read_view: ReadView | None = None
        self._copier: LaneCopier | None = None
        self.copy_pace = CopyPace(lambda: self.host.driver.leadership)
        self.leading: RangeLeaderService | None = None
        """While this server leads."""
        self._retaining: Retaining | None = None
        self._idle_looks: IdleLooks | None = None
        self.consumers: ConsumerDesk | None = None
        """While this server leads."""
        self._requests: Requests | None = None
        self._peers: dict[Connection, RequestPeer] = {}
        self._is_started = False
        self._damage: str | None = None

    # Life

    @property
    def store(self) -> SharedLog:
        assert self._store is not None, "the server was started"
        return self._store

    @property
    def read_view(self) -> ReadView:
        assert self._read_view is not None, "the server was started"
        return self._read_view

    async def _start(self) -> None:
        settings = replace(
            self._options.settings,
            weigh=weigh,
            fetches=True,
            paces=True,
            inflight_appends_max=self.inflight_appends_max,
            commit_told_ms=COMMIT_TOLD_MS,
        )
        if self.append_entries_max is not None:
            settings = replace(settings, append_entries_max=self.append_entries_max)
        cargo = RangeCargo(lambda: self.store, lambda: self.host.driver)
        host = self._open_host(self.machine, self._files, settings, cargo)
        assert self._files.opened is not None
        self._store = self._files.opened
        self._read_view = ReadView(self._store, self.machine, lambda: host.driver.applied_index)
        cargo.heard = self._read_view.heard
        self._copier = LaneCopier(self._store, host.driver, self._client_hello, lambda of: host.group.addresses.get(of))
        cargo.fetch = self._copier.fetch
        self._requests = Requests(self)
        self._set_gauges()
        await self._take_part(self._registry)
        self._is_started = True
        self._trimmed(self.machine.state.trim_lsn)
        _log.info("server %d listens at %s", self._server, self.address)

    async def stop(self) -> None:
        """Stop cleanly: what is being written is finished. Idempotent."""
        stopping = Unavailable(f"server {self._server} is stopping")
        self._end_leading(stopping)
        if self._read_view is not None:
            self._read_view.close(stopping)
        if self._copier is not None:
            await self._copier.close()
        await self._close_host()
        if self._requests is not None:
            self._requests.close()
        await self._close_listener()
        if self._store is not None and self._error is None:
            store, self._store = self._store, None
            store.close(self.machine.state.length)
        self._end()

    # What Raft tells

    def role_changed(self, change: RoleChanged) -> None:
        assert self._requests is not None
        unknown = Unavailable(f"server {self._server} does not lead any more: ask who does")
        unknown.outcome_unknown = True
        self._end_leading(unknown)
        if change.role is Role.LEADER:
            driver = self.host.driver
            self.leading = self.leading_type(driver, self.machine, self.store, self._ready_to_lead)
            self._retaining = Retaining(self._file.retention, self.machine, self.store, self.leading)
            self._idle_looks = IdleLooks(self._file.session_idle_s, self.leading)
            self.consumers = ConsumerDesk(
                self.leading.change_consumers,
                lambda: self.machine.state.consumers,
                wall_us,
                self._file.consumer_idle_s,
            )
        self._requests.leader_changed()
        self._users_changed()

    def _make_gate(self) -> UserGate | None:
        return self._greeter.gate(RAFT_RULES, RAFT_WORDING, self._greeter.audit(), self.metrics.refused)

    def _users(self) -> UserTable:
        return self.machine.state.users

    def _ready_to_lead(self) -> None:
        assert self._requests is not None
        if self.is_ready:
            self.read_view.leads()
            assert self.consumers is not None
            self.consumers.begin()
        self._requests.leader_changed()

    def applied(self) -> None:
        if self.leading is not None:
            self.leading.applied()
        if self.consumers is not None:
            self.consumers.noted(self.machine.state.tail)
        if self._read_view is not None:
            self._read_view.advanced()
        self._users_changed()

    def removed(self) -> None:
        """What is trimmed from now on is not heard of here, so nothing is read here any more: others have it."""
        self.read_view.close(Unavailable(f"server {self._server} was removed: the others have what it held"))

    def persisted(self, seconds: float) -> None:
        self.metrics.persisted(seconds)

    def failed(self, error: Exception) -> None:
        self._end_leading(Unavailable(f"server {self._server} has failed"))
        super().failed(error)

    @property
    def is_ready(self) -> bool:
        """Whether this server takes a leader's requests."""
        return self.leading is not None and self.leading.is_ready

    def _end_leading(self, error: Unavailable) -> None:
        if self._retaining is not None:
            self._retaining.end()
            self._retaining = None
        if self._idle_looks is not None:
            self._idle_looks.end()
            self._idle_looks = None
        if self.leading is not None:
            leading, self.leading = self.leading, None
            leading.end(error)
        if self.consumers is not None:
            consumers, self.consumers = self.consumers, None
            consumers.end()

    def _trimmed(self, lsn: int) -> None:
        if self._is_started and lsn:
            store = self.store
            self.host.driver.submit_job(lambda: store.trim(lsn), lambda: None)

    # What others learn of this server

    def status(self) -> dict[str, Any]:
        state = self.machine.state
        status = server_status(
            self._server, self.address, self.host, state, self.store, self.read_view.first, self._damage
        )
        told = {"consumers": None if self.consumers is None else self.consumers.status(state.tail)}
        return status | told | ({} if self.gate is None else {"users": self.gate.status()})

    def failed_to_answer(self, error: IthacaError) -> None:
        """If a record cannot be read here, others have it, and whoever asked goes there."""
        if isinstance(error, Corrupt):
            if self._damage is None:
                _log.error("the data log of server %d is damaged: %s; %s", self._server, error, ORDERERS.way_out)
            self._damage = str(error)

    def start_task(self, connection: Connection, request: Received, work: Callable[[], Awaitable[None]]) -> None:
        """Run what has to wait, as a part of its connection."""
        peer = self._peers.get(connection)
        if peer is not None:
            peer.tasks.start(connection, request, work)

    def _log_id(self) -> UUID | None:
        configuration = self.machine.state.configuration
        return None if configuration is None else configuration.log

    def _client_hello(self) -> Said:
        """For what a server asks another one as a client would."""
        own = self._greeter.hello()
        return own._replace(hello=replace(own.hello, role="client"))

    def _peer_of(self, connection: Connection) -> Peer:
        assert self._requests is not None
        peer = self._peers[connection] = _Peer(self._requests, self._peers)
        return peer

    def _set_gauges(self) -> None:
        metrics, driver = self.metrics, self.host.driver
        metrics.is_leader.set_function(lambda: driver.is_leader)
        metrics.term.set_function(lambda: driver.term)
        metrics.sessions.set_function(lambda: len(self.machine.state.sessions))
        metrics.tail.set_function(lambda: self.machine.state.tail)
        metrics.observe_consumers(
            lambda: () if self.consumers is None else self.consumers.lags(self.machine.state.tail)
        )
        metrics.connections.set_function(lambda: 0 if self._listener is None else self._listener.connection_count)


class _Peer(RequestPeer):
    """One that is forgotten with its connection."""

    def __init__(self, requests: Requests, peers: dict[Connection, RequestPeer]) -> None:
        super().__init__(requests)
        self._peers = peers

    def on_lost(self, connection: Connection, error: Any) -> None:
        self._peers.pop(connection, None)
        super().on_lost(connection, error)
