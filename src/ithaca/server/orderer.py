"""An ordering server: one member of the Raft group that decides the order. Wiring only.

`runtime.raft_driver` runs Raft, `orderer_machine` applies what it agrees on, `orderer_leading` turns reports
into cuts while this server leads; `orderer_requests` answers clients and replicas, `orderer_streams` tells
replicas the news, `orderer_links` carries Raft's messages.
"""

import asyncio
import logging
from typing import Any
from uuid import UUID

from prometheus_client import CollectorRegistry

from ithaca.model.cluster_config import ClusterFile
from ithaca.model.errors import AuthenticationFailed, ConfigError, IthacaError, ProtocolError
from ithaca.model.view import Address
from ithaca.ordering.outcomes import OrderedCut, Outcome
from ithaca.protocol.codec import Received
from ithaca.protocol.messages import FEATURES, VERSION_MAX, VERSION_MIN, Hello, RaftSays, Welcome
from ithaca.raft.events import Receive, Role, RoleChanged, Settings, Unreachable
from ithaca.raft.messages import AnyMessage, ServerId
from ithaca.runtime.connection import Connection, Peer
from ithaca.runtime.listener import HttpAnswer, Listener, listen
from ithaca.runtime.metrics import OrdererMetrics, exposition
from ithaca.runtime.raft_driver import RaftDriver
from ithaca.server.orderer_aggregators import Aggregators
from ithaca.server.orderer_directory import open_raft_log
from ithaca.server.orderer_leading import Leading
from ithaca.server.orderer_links import RaftLinks
from ithaca.server.orderer_machine import OrderingMachine
from ithaca.server.orderer_requests import Requests
from ithaca.server.orderer_status import orderer_status
from ithaca.server.orderer_streams import NewsStreams
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
        self._addresses = {place.server: place.address for place in file.orderers}
        if server not in self._addresses:
            raise ConfigError(f"there is no orderer {server} in the cluster's file, only {sorted(self._addresses)}")
        self._listen_at = listen_at or self._addresses[server]
        self._registry = CollectorRegistry()
        self.metrics = OrdererMetrics(self._registry)
        self._machine = OrderingMachine(self._entry_applied)
        self._streams = NewsStreams()
        self._aggregators = Aggregators(self._streams, are_expected=bool(file.aggregators))
        self._lock: OsFile | None = None
        self._listener: Listener | None = None
        self._driver: RaftDriver | None = None
        self._requests: Requests | None = None
        others = {number: address for number, address in self._addresses.items() if number != server}
        self._links = RaftLinks(others, self._hello, self._unreachable)
        self._leading: Leading | None = None
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
        log, durable = open_raft_log(self._disk, self._directory, self._server, self._addresses)
        driver = RaftDriver(self._server, self._settings, log, durable, self._machine, self)
        if set(driver.members) != set(self._addresses):
            raise ConfigError(
                f"the cluster's file names orderers {sorted(self._addresses)}, and those of {self._directory} are "
                f"{sorted(driver.members)}: members are not changed by the file"
            )
        self._driver = driver
        self._requests = Requests(
            self._machine,
            driver,
            self._streams,
            self._addresses,
            lambda: encode_status(self.status()),
            self.metrics,
            self._aggregators,
        )
        self._set_gauges(driver)
        self._listener = await listen(self._listen_at, accept=self._accept, welcome=self._welcome, http=self._http)
        self._links.start()
        driver.start()

    async def stop(self) -> None:
        """Stop cleanly: what is being written is finished. Idempotent."""
        self._end_leading()
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
        self._links.send(to, message)

    def role_changed(self, change: RoleChanged) -> None:
        self._end_leading()
        if change.role is Role.LEADER:
            assert self._driver is not None
            assert self._requests is not None
            self._leading = Leading(self._file, change.term, self._machine.state, self._driver, self.metrics)
            self._requests.leading = self._leading
            self._aggregators.begin()

    def applied(self) -> None:
        """News first: replicas wait for it, and the next cut has time until the disk is free again."""
        self._streams.flush()
        if self._leading is not None:
            self._leading.propose()
        if self._requests is not None:
            self._requests.applied()

    def persisted(self, seconds: float) -> None:
        self.metrics.persisted(seconds)

    def failed(self, error: Exception) -> None:
        self._end_leading()
        self._error = error
        self._ended.set()

    def _entry_applied(self, term: int, outcomes: list[Outcome]) -> None:
        self.metrics.commits.inc()
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
                self._requests.leading = None
            self._streams.close()
            self._aggregators.end()

    def _unreachable(self, server: ServerId) -> None:
        if self._driver is not None:
            self._driver.step(Unreachable(server))

    # What others learn of this server

    def status(self) -> dict[str, Any]:
        assert self._driver is not None, "a server has a status once it was started"
        said = orderer_status(self._server, self.address, self._driver, self._machine.state, self._streams)
        return said | {"aggregators": self._aggregators.status()}

    def _log_id(self) -> UUID | None:
        configuration = self._machine.state.configuration
        return None if configuration is None else configuration.log

    def _hello(self) -> Hello:
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
        others = {str(number): number for number in self._addresses if number != self._server}
        if hello.name not in others:
            raise AuthenticationFailed(f"{connection.name} is no other orderer of this cluster's file: {hello.name!r}")
        return _RaftPeer(others[hello.name], self._driver)

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
        metrics.joined.set_function(lambda: len(self._streams))
        metrics.tail.set_function(lambda: machine.state.tail)
        metrics.connections.set_function(lambda: 0 if self._listener is None else self._listener.connection_count)


class _RaftPeer:
    """Another orderer, which dialled this one: it speaks, and is answered over this server's own link to it."""

    def __init__(self, server: ServerId, driver: RaftDriver) -> None:
        self._server = server
        self._driver = driver

    def on_message(self, connection: Connection, received: Received) -> None:
        message = received.message
        if not isinstance(message, RaftSays):
            raise ProtocolError(f"orderer {self._server} sent {type(message).__name__} over its link")
        if message.message.sender != self._server:
            raise ProtocolError(f"orderer {self._server} speaks as server {message.message.sender}")
        self._driver.step(Receive(message.message))

    def on_lost(self, connection: Connection, error: IthacaError | None) -> None:
        pass
