"""An ordering server: one member of the Raft group that decides the order. Wiring only.

`server.raft_host` runs Raft, `machine` applies what it agrees on, `leading` turns reports into cuts while this server
leads; `requests` answers clients and replicas, `streams` tells replicas the news.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from prometheus_client import CollectorRegistry

from ithaca.engines.scalog.ordering.outcomes import OrderedCut, Outcome
from ithaca.engines.scalog.server.limit_uses import disk_uses, leader_uses, member_uses, order_uses, process_uses
from ithaca.engines.scalog.server.orderer.aggregators import Aggregators
from ithaca.engines.scalog.server.orderer.answers import agreed_orderers
from ithaca.engines.scalog.server.orderer.leading import LeaderService
from ithaca.engines.scalog.server.orderer.machine import OrderingMachine
from ithaca.engines.scalog.server.orderer.requests import Requests
from ithaca.engines.scalog.server.orderer.status import orderer_status
from ithaca.engines.scalog.server.orderer.streams import NewsStreams
from ithaca.engines.scalog.server.orderer.time import OrderTime
from ithaca.model.config.cluster import ClusterFile, check_founders
from ithaca.model.errors import LastOrderer, NoSuchOrderer
from ithaca.model.limit_use import Uses
from ithaca.model.view import Address
from ithaca.protocol.greeting import FEATURES, VERSION_MAX, VERSION_MIN, Hello, Welcome
from ithaca.protocol.members import Clocks, OrderersAre
from ithaca.raft.events import Role, RoleChanged, Settings
from ithaca.raft.messages import ServerId
from ithaca.runtime.connection import Connection, Peer
from ithaca.runtime.listener import HttpAnswer, Listener, listen
from ithaca.runtime.metrics import OrdererMetrics
from ithaca.runtime.raft.driver import RaftDriver
from ithaca.server.raft_host.host import RaftHost
from ithaca.server.raft_host.identity import RaftMember, Words
from ithaca.server.status import answer_http, encode_status
from ithaca.storage.directory_lock import take_lock
from ithaca.storage.disk import Disk, OsDisk, OsFile
from ithaca.storage.raft_files import RaftLogFiles

_log = logging.getLogger("ithaca.orderer")

ORDERERS = Words(
    "orderer", NoSuchOrderer, LastOrderer, way_out="remove it with ithaca orderer remove, and add another one"
)
"""What members of this Raft group are called."""


class OrdererServer:
    """One orderer of a cluster. `start`, then `wait` until it is stopped or fails, then `stop`."""

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
        self._file = file
        self._server = server
        self._directory = directory
        self._disk = disk or OsDisk()
        self._settings = settings or Settings()
        self._listen_at = listen_at or file.orderer(server).address
        self._registry = CollectorRegistry()
        self.metrics = OrdererMetrics(self._registry)
        self._machine = self._make_machine()
        self._streams = self._make_streams()
        self._aggregators = Aggregators(self._streams, are_expected=bool(file.aggregators))
        self._lock: OsFile | None = None
        self._listener: Listener | None = None
        self._host: RaftHost | None = None
        self._requests: Requests | None = None
        self._clock = OrderTime(server)
        self._leading: LeaderService | None = None
        self._ended = asyncio.Event()
        self._error: Exception | None = None

    # Life

    @property
    def address(self) -> Address:
        return self._listen_at if self._listener is None else self._listener.address

    async def start(self) -> None:
        """Recover the disk, listen, and begin to take part in the order."""
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise
        _log.info("orderer %d listens at %s", self._server, self.address)

    async def _start(self) -> None:
        self._disk.make_directory(self._directory)
        if isinstance(self._disk, OsDisk):  # a simulated disk belongs to whoever made it
            self._lock = take_lock(self._disk, self._directory, "stop that server first")
        host = self._host = RaftHost(
            _member(self._file, self._server),
            self._disk,
            self._directory,
            RaftLogFiles(),
            self._machine,
            self,
            self._settings,
        )
        self._clock.driver = host.driver
        self._requests = self._make_requests(host)
        self._set_gauges(host.driver)
        self._listener = await listen(self._listen_at, accept=self._accept, welcome=self._welcome, http=self._http)
        host.start()

    async def stop(self) -> None:
        """Stop cleanly: what is being written is finished. Idempotent."""
        self._end_leading()
        if self._host is not None:
            await self._host.stop()
        if self._requests is not None:
            self._requests.close()
        if self._listener is not None:
            await self._listener.close()
        if self._lock is not None:
            self._lock.close()
            self._lock = None
        self._ended.set()

    async def wait(self) -> None:
        """Until the server has stopped; raises what made it fail."""
        await self._ended.wait()
        if self._error is not None:
            raise self._error

    @property
    def _driver(self) -> RaftDriver | None:
        return None if self._host is None else self._host.driver

    # Its parts, which an engine that is built on this one makes of its own

    def _make_machine(self) -> OrderingMachine:
        return OrderingMachine(self._entry_applied)

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
        assert self._host is not None
        assert self._requests is not None
        if change.role is Role.LEADER:
            self._clock.begin()
            self._leading = self._make_leading(change.term, self._host.driver, self._requests.leader_changed)
            self._requests.leads(self._leading)
            self._aggregators.begin()
        self._requests.leader_changed()

    def applied(self) -> None:
        """News first: replicas wait for it, and the next cut has time until the disk is free again."""
        self._streams.flush()
        if self._leading is not None:
            self._leading.propose()
        if self._requests is not None:
            self._requests.applied()

    def members_agreed(self) -> None:
        """Tell those who have joined."""
        assert self._host is not None
        spares = () if self._leading is None else self._leading.spares.connections()
        told = OrderersAre(agreed_orderers(self._host.group))
        for connection in dict.fromkeys((*self._streams.connections(), *self._aggregators.connections(), *spares)):
            connection.send(told)

    def persisted(self, seconds: float) -> None:
        self.metrics.persisted(seconds)

    def failed(self, error: Exception) -> None:
        self._end_leading()
        self._error = error
        self._ended.set()

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
        assert self._host is not None, "a server has a status once it was started"
        status = orderer_status(self._server, self.address, self._host, self._machine.state, self._streams)
        leading = self._leading
        trims = None if leading is None else leading.retention_status()
        told = {"aggregators": self._aggregators.status(), "retention": trims, "clocks": self._clock.status()}
        return status | told | {"limits": self._limit_uses()}

    def _limit_uses(self) -> Uses:
        uses = process_uses(self._listener) | disk_uses(self._disk, self._directory) | order_uses(self._machine.state)
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

    def hello(self) -> Hello:
        return Hello(
            VERSION_MIN,
            VERSION_MAX,
            ORDERERS.role,
            str(self._server),
            FEATURES,
            self._log_id(),
            engine=self._file.engine,
        )

    def _welcome(self) -> Welcome:
        return Welcome(
            VERSION_MAX,
            ORDERERS.role,
            str(self._server),
            FEATURES,
            self._log_id(),
            durability=self._file.durability,
            engine=self._file.engine,
        )

    def _accept(self, connection: Connection, hello: Hello) -> Peer:
        assert self._host is not None
        assert self._requests is not None
        return self._host.accept(connection, hello) if hello.role == ORDERERS.role else self._requests

    def _http(self, path: str) -> HttpAnswer | None:
        return answer_http(path, self.status, self._registry)

    def _set_gauges(self, driver: RaftDriver) -> None:
        metrics, machine = self.metrics, self._machine
        metrics.is_leader.set_function(lambda: driver.is_leader)
        metrics.term.set_function(lambda: driver.term)
        metrics.sessions.set_function(lambda: len(machine.state.sessions.by_id))
        metrics.state_bytes.set_function(lambda: machine.state.size_bytes)
        metrics.joined.set_function(lambda: len(self._streams))
        metrics.tail.set_function(lambda: machine.state.tail)
        metrics.observe_limits(self._limit_uses)
        metrics.connections.set_function(lambda: 0 if self._listener is None else self._listener.connection_count)


def _member(file: ClusterFile, server: ServerId) -> RaftMember:
    """This orderer in its group, as the file has it. One that is joining knows of nobody."""

    def founders() -> Mapping[ServerId, Address]:
        return {} if file.orderer(server).joining else check_founders(file)

    return RaftMember(server, ORDERERS, founders, {place.server: place.address for place in file.orderers})
