"""An ordering server: one member of the Raft group that decides the order. Wiring only.

`server.raft_host` runs Raft, `machine` applies what it agrees on, `leading` turns reports into cuts while this server
leads; `requests` answers clients and replicas, `streams` tells replicas the news.
"""

import logging
from collections.abc import Callable
from typing import Any, ClassVar
from uuid import UUID

from prometheus_client import CollectorRegistry

from ithaca.engines.scalog.ordering.outcomes import OrderedCut, Outcome
from ithaca.engines.scalog.server.limit_uses import disk_uses, leader_uses, member_uses, order_uses, process_uses
from ithaca.engines.scalog.server.orderer.aggregators import Aggregators
from ithaca.engines.scalog.server.orderer.leading import LeaderService
from ithaca.engines.scalog.server.orderer.machine import OrderingMachine
from ithaca.engines.scalog.server.orderer.requests import Requests
from ithaca.engines.scalog.server.orderer.status import orderer_status
from ithaca.engines.scalog.server.orderer.streams import NewsStreams
from ithaca.engines.scalog.server.orderer.time import OrderTime
from ithaca.engines.scalog.server.rights import SCALOG_RULES, SCALOG_WORDING
from ithaca.model.config.cluster import ClusterFile
from ithaca.model.limit_use import Uses
from ithaca.protocol.members import Clocks, OrderersAre
from ithaca.raft.events import Role, RoleChanged
from ithaca.raft.messages import ServerId
from ithaca.runtime.connection import Connection, Peer
from ithaca.runtime.metrics import OrdererMetrics
from ithaca.runtime.raft.driver import RaftDriver
from ithaca.server.options import ServerOptions
from ithaca.server.raft_host.host import RaftHost
from ithaca.server.raft_host.hosting import HostingServer
from ithaca.server.raft_host.orderers import agreed_orderers
from ithaca.server.status import encode_status
from ithaca.server.users.gate import UserGate
from ithaca.server.users.rules import Rules
from ithaca.storage.raft_files import RaftLogFiles
from ithaca.users.table import UserTable

_log = logging.getLogger("ithaca.orderer")


class OrdererServer(HostingServer):
    """One orderer of a cluster. `start`, then `wait` until it is stopped or fails, then `stop`."""

    rules: ClassVar[Rules] = SCALOG_RULES
    """What messages of clients take; an engine that is built on this one may have more."""

    def __init__(
        self, file: ClusterFile, server: ServerId, directory: str, options: ServerOptions | None = None
    ) -> None:
        super().__init__(file, server, directory, options)
        self._registry = CollectorRegistry()
        self.metrics = OrdererMetrics(self._registry)
        self._machine = self._make_machine()
        self._streams = self._make_streams()
        self._aggregators = Aggregators(self._streams, are_expected=bool(file.aggregators))
        self._requests: Requests | None = None
        self._clock = OrderTime(server)
        self._leading: LeaderService | None = None

    # Life

    async def _start(self) -> None:
        host = self._open_host(self._machine, RaftLogFiles())
        self._clock.driver = host.driver
        self._requests = self._make_requests(host)
        self._set_gauges(host.driver)
        await self._take_part(self._registry)
        _log.info("orderer %d listens at %s", self._server, self.address)

    async def stop(self) -> None:
        """Stop cleanly: what is being written is finished. Idempotent."""
        self._end_leading()
        await self._close_host()
        if self._requests is not None:
            self._requests.close()
        await self._close_listener()
        self._end()

    @property
    def _driver(self) -> RaftDriver | None:
        return None if self._host is None else self._host.driver

    # Its parts, which an engine that is built on this one makes of its own

    def _make_machine(self) -> OrderingMachine:
        return OrderingMachine(self._entry_applied)

    def _make_gate(self) -> UserGate | None:
        return self._greeter.gate(self.rules, SCALOG_WORDING, self._greeter.audit(), self.metrics.refused)

    def _users(self) -> UserTable:
        return self._machine.state.users

    def _make_streams(self) -> NewsStreams:
        return NewsStreams()

    def _make_requests(self, host: RaftHost) -> Requests:
        return Requests(
            self._machine,
            host,
            self._streams,
            lambda: encode_status(self.status()),
            self.metrics,
            self._aggregators,
            self._clock.lead,
        )

    def _make_leading(self, term: int, driver: RaftDriver, ready: Callable[[], None]) -> LeaderService:
        return LeaderService(
            self._file, term, self._machine.state, driver, self.metrics, ready, self.hello, self._clock
        )

    # What Raft tells

    def clocks(self) -> Clocks:
        return self._clock.readings()

    def heard(self, server: ServerId, clocks: Clocks | None) -> None:
        self._clock.heard(server, clocks)

    def role_changed(self, change: RoleChanged) -> None:
        self._end_leading()
        assert self._requests is not None
        if change.role is Role.LEADER:
            self._clock.begin()
            self._leading = self._make_leading(change.term, self.host.driver, self._requests.leader_changed)
            self._requests.leads(self._leading)
            self._aggregators.begin()
        self._requests.leader_changed()
        self._users_changed()

    def applied(self) -> None:
        """News first: replicas wait for it, and the next cut has time until the disk is free again."""
        self._streams.flush()
        if self._leading is not None:
            self._leading.propose()
        if self._requests is not None:
            self._requests.applied()
        self._users_changed()

    def members_agreed(self) -> None:
        """Tell those who have joined."""
        spares = () if self._leading is None else self._leading.spares.connections()
        told = OrderersAre(agreed_orderers(self.host.group))
        for connection in dict.fromkeys((*self._streams.connections(), *self._aggregators.connections(), *spares)):
            connection.send(told)

    def persisted(self, seconds: float) -> None:
        self.metrics.persisted(seconds)

    def failed(self, error: Exception) -> None:
        self._end_leading()
        super().failed(error)

    def _entry_applied(self, term: int, outcomes: list[Outcome]) -> None:
        self.metrics.commits.inc()
        self._clock.applied(self._machine.state.time_us)
        if outcomes and isinstance(outcomes[0], OrderedCut):
            self.metrics.cuts.inc()
        self._streams.take(outcomes)
        if self._leading is not None:
            self._leading.applied(term, outcomes)

    def _end_leading(self) -> None:
        if self._leading is not None:
            self._leading.end()
            self._leading = None
            if self._requests is not None:
                self._requests.leads(None)
            self._streams.close()
            self._aggregators.end()

    # What others learn of this server

    def status(self) -> dict[str, Any]:
        leading = self._leading
        silent = {} if leading is None else leading.silent()
        status = orderer_status(self._server, self.address, self.host, self._machine.state, self._streams, silent)
        trims = None if leading is None else leading.retention_status()
        told = {"aggregators": self._aggregators.status(), "retention": trims, "clocks": self._clock.status()}
        told["consumers"] = None if leading is None else leading.consumers.status(self._machine.state.tail)
        if self.gate is not None:
            told["users"] = self.gate.status()
        return status | told | {"limits": self._limit_uses()}

    def _limit_uses(self) -> Uses:
        uses = (
            process_uses(self._listener)
            | disk_uses(self._options.disk, self._directory)
            | order_uses(self._machine.state)
        )
        driver = self._driver
        if driver is None:
            return uses
        uses |= member_uses(driver.agreed_configuration)
        leadership = driver.leadership
        if self._leading is not None and leadership is not None:
            uses |= leader_uses(len(self._leading.spares), leadership)
        return uses

    def _log_id(self) -> UUID | None:
        configuration = self._machine.state.configuration
        return None if configuration is None else configuration.log

    def _peer_of(self, connection: Connection) -> Peer:
        assert self._requests is not None
        connection.together = self._requests.together
        return self._requests

    def _set_gauges(self, driver: RaftDriver) -> None:
        metrics, machine = self.metrics, self._machine
        metrics.is_leader.set_function(lambda: driver.is_leader)
        metrics.term.set_function(lambda: driver.term)
        metrics.sessions.set_function(lambda: len(machine.state.sessions.by_id))
        metrics.state_bytes.set_function(lambda: machine.state.size_bytes)
        metrics.joined.set_function(lambda: len(self._streams))
        metrics.tail.set_function(lambda: machine.state.tail)
        metrics.observe_limits(self._limit_uses)
        metrics.observe_consumers(
            lambda: () if self._leading is None else self._leading.consumers.lags(machine.state.tail)
        )
        metrics.connections.set_function(lambda: 0 if self._listener is None else self._listener.connection_count)
