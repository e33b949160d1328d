"""An ordering server: one member of the Raft group that decides the order. Wiring only.

`runtime.raft.driver` runs Raft, `machine` applies what it agrees on, `leading` turns reports
into cuts while this server leads; `requests` answers clients and replicas, `streams` tells
replicas the news, `links` carries Raft's messages.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any
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
from ithaca.model.config.cluster import ClusterFile
from ithaca.model.errors import AuthenticationFailed, IthacaError, NoSuchOrderer, ProtocolError
from ithaca.model.limit_use import Uses
from ithaca.model.limits import ORDERER_NUMBER_MAX
from ithaca.model.view import Address
from ithaca.protocol.codec import Received
from ithaca.protocol.greeting import FEATURES, VERSION_MAX, VERSION_MIN, Hello, Welcome
from ithaca.protocol.members import OrderersAre, RaftMessage
from ithaca.raft.events import RefusedRequest, Role, RoleChanged, Settings, Unreachable
from ithaca.raft.messages import AnyMessage, Configuration, ServerId
from ithaca.runtime.connection import Connection, Peer
from ithaca.runtime.listener import HttpAnswer, Listener, listen
from ithaca.runtime.metrics import OrdererMetrics, exposition
from ithaca.runtime.raft.driver import RaftDriver
from ithaca.server.raft_host.directory import open_raft_log, state_to_begin_with
from ithaca.server.raft_host.group import Group
from ithaca.server.raft_host.links import RaftLinks
from ithaca.server.raft_host.members import MemberChanges
from ithaca.server.raft_host.refusals import error_of
from ithaca.server.status import encode_status
from ithaca.storage.directory_lock import take_lock
from ithaca.storage.disk import Disk, OsDisk, OsFile

_log = logging.getLogger("ithaca.orderer")


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
        self._machine = OrderingMachine(self._entry_applied)
        self._streams = NewsStreams()
        self._aggregators = Aggregators(self._streams, are_expected=bool(file.aggregators))
        self._lock: OsFile | None = None
        self._listener: Listener | None = None
        self._driver: RaftDriver | None = None
        self._requests: Requests | None = None
        self._group: Group | None = None
        self._changes: MemberChanges | None = None
        self._agreed: Configuration | None = None
        self._links = RaftLinks(self)
        self._clock = OrderTime(server)
        self._peers: dict[ServerId, set[Connection]] = {}
        """Connections that other orderers have dialled."""
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
        log, durable = open_raft_log(
            self._disk, self._directory, self._server, lambda: state_to_begin_with(self._file, self._server)
        )
        driver = RaftDriver(self._server, self._settings, log, durable, self._machine, self)
        self._driver = driver
        self._clock.driver = driver
        self._group = Group(self._server, self._file, driver)
        self._changes = MemberChanges(self._server, driver, self._group)
        self._requests = Requests(
            self._machine,
            driver,
            self._streams,
            self._group,
            self._changes,
            lambda: encode_status(self.status()),
            self.metrics,
            self._aggregators,
            self._clock.lead,
        )
        self._set_gauges(driver)
        self._listener = await listen(self._listen_at, accept=self._accept, welcome=self._welcome, http=self._http)
        self._links.follow(self._group.others)
        driver.start()
        if self._group.state == "waiting":
            _log.info("orderer %d has an empty directory, and waits to be added", self._server)

    async def stop(self) -> None:
        """Stop cleanly: what is being written is finished. Idempotent."""
        self._end_leading()
        if self._changes is not None:
            self._changes.close()
        if self._driver is not None:
            await self._driver.stop()
        if self._requests is not None:
            self._requests.close()
        await self._links.close()
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

    # What Raft calls

    def send(self, to: ServerId, message: AnyMessage) -> None:
        says = RaftMessage(message, self._clock.readings())
        if not self._links.send(to, says):
            for connection in self._peers.get(to, ()):
                connection.send(says)

    def error_of(self, refused: RefusedRequest) -> IthacaError:
        return error_of(self._server, refused)

    def role_changed(self, change: RoleChanged) -> None:
        self._end_leading()
        assert self._driver is not None
        assert self._requests is not None
        if change.role is Role.LEADER:
            self._clock.begin()
            ready = self._requests.leader_changed
            self._leading = LeaderService(
                self._file, change.term, self._machine.state, self._driver, self.metrics, ready, self.hello, self._clock
            )
            self._requests.leads(self._leading)
            self._aggregators.begin()
            self.members_changed()
        self._requests.leader_changed()

    def members_changed(self) -> None:
        if self._group is not None and self._changes is not None and self._listener is not None:
            self._links.follow(self._group.others)
            self._changes.look()

    def applied(self) -> None:
        """News first: replicas wait for it, and the next cut has time until the disk is free again."""
        self._streams.flush()
        if self._leading is not None:
            self._leading.propose()
        if self._requests is not None:
            self._requests.applied()
        if self._driver is not None and self._driver.agreed_configuration is not self._agreed:
            self._agreed = self._driver.agreed_configuration
            self._members_agreed()

    def _members_agreed(self) -> None:
        """Tell those who have joined, and let go of those who were removed."""
        assert self._group is not None
        spares = () if self._leading is None else self._leading.spares.connections()
        told = OrderersAre(self._group.orderers)
        for connection in dict.fromkeys((*self._streams.connections(), *self._aggregators.connections(), *spares)):
            connection.send(told)
        for server, connections in self._peers.items():
            if self._group.was_removed(server):
                for connection in list(connections):
                    connection.refuse(_removed(server))

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

    # What links call

    def link_lost(self, server: ServerId) -> None:
        if self._driver is not None:
            self._driver.step(Unreachable(server))

    def hear(self, says: RaftMessage) -> None:
        if self._driver is not None:
            self._clock.heard(says.message.sender, says.clocks)  # first: with this vote it may become the leader
            self._driver.receive(says.message)

    def told_removed(self, by: ServerId) -> None:
        assert self._group is not None
        if not self._group.is_removed:
            _log.warning("this orderer was removed, as orderer %d says: it can be stopped", by)
            self._group.is_removed = True

    # What others learn of this server

    def status(self) -> dict[str, Any]:
        assert self._driver is not None, "a server has a status once it was started"
        assert self._group is not None
        status = orderer_status(
            self._server, self.address, self._driver, self._group, self._machine.state, self._streams
        )
        leading = self._leading
        trims = None if leading is None else leading.retention_status()
        told = {"aggregators": self._aggregators.status(), "retention": trims, "clocks": self._clock.status()}
        return status | told | {"limits": self._limit_uses()}

    def _limit_uses(self) -> Uses:
        uses = process_uses(self._listener) | disk_uses(self._disk, self._directory) | order_uses(self._machine.state)
        if self._driver is None:
            return uses
        uses |= member_uses(self._driver.agreed_configuration)
        leadership = self._driver.leadership
        if self._leading is not None and leadership is not None:
            uses |= leader_uses(len(self._leading.spares), leadership)
        return uses

    def _log_id(self) -> UUID | None:
        configuration = self._machine.state.configuration
        return None if configuration is None else configuration.log

    def hello(self) -> Hello:
        return Hello(VERSION_MIN, VERSION_MAX, "orderer", str(self._server), FEATURES, self._log_id())

    def _welcome(self) -> Welcome:
        return Welcome(
            VERSION_MAX, "orderer", str(self._server), FEATURES, self._log_id(), durability=self._file.durability
        )

    def _accept(self, connection: Connection, hello: Hello) -> Peer:
        assert self._driver is not None
        assert self._requests is not None
        if hello.role != "orderer":
            return self._requests
        number = int(hello.name) if hello.name.isascii() and hello.name.isdecimal() else 0
        if number == self._server or not 1 <= number <= ORDERER_NUMBER_MAX:
            raise AuthenticationFailed(f"{connection.name} is no other orderer: {hello.name!r}")
        assert self._group is not None
        if self._group.was_removed(number):
            raise _removed(number)
        if number not in self._group.addresses and self._log_id() not in (None, hello.log):
            raise AuthenticationFailed(
                f"{connection.name} is no orderer of this log that is known here: {hello.name!r}"
            )
        connections = self._peers.setdefault(number, set())
        connections.add(connection)
        self._links.is_back(number)
        return _RaftPeer(number, self.hear, connections)

    def _http(self, path: str) -> HttpAnswer | None:
        if path == "/metrics":
            return exposition(self._registry)
        if path == "/health":
            return HttpAnswer(200, "application/json", encode_status(self.status()))
        return None

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


class _RaftPeer:
    """Another orderer, which dialled this one: it speaks, and is answered over this server's own link to it."""

    def __init__(self, server: ServerId, hear: Callable[[RaftMessage], None], connections: set[Connection]) -> None:
        self._server = server
        self._hear = hear
        self._connections = connections

    def on_message(self, connection: Connection, received: Received) -> None:
        message = received.message
        if not isinstance(message, RaftMessage):
            raise ProtocolError(f"orderer {self._server} sent {type(message).__name__} over its link")
        if message.message.sender != self._server:
            raise ProtocolError(f"orderer {self._server} speaks as server {message.message.sender}")
        self._hear(message)

    def on_lost(self, connection: Connection, error: IthacaError | None) -> None:
        self._connections.discard(connection)


def _removed(server: ServerId) -> NoSuchOrderer:
    return NoSuchOrderer(f"orderer {server} was removed: stop it; a new one needs a new number")
