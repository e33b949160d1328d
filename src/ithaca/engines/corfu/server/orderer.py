"""An orderer: a member of the Raft group that decides on projections, and the sequencer when it is its turn. Wiring
only.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from ithaca.engines.corfu.client.links import Links
from ithaca.engines.corfu.messages import SEQUENCER_CALLS, Decide
from ithaca.engines.corfu.sequencing.calls import GetProjection
from ithaca.engines.corfu.sequencing.commands import Command, FoundLog, GetSessions
from ithaca.engines.corfu.server.caretaking import Caretaker
from ithaca.engines.corfu.server.founding import founding
from ithaca.engines.corfu.server.machine import ProjectionMachine, encoded
from ithaca.engines.corfu.server.sequencing import Caller, SequencerService
from ithaca.model.config.cluster import ClusterFile, check_founders
from ithaca.model.errors import IthacaError, LastOrderer, NoSuchOrderer, ProtocolError, Unavailable
from ithaca.model.view import Address, Orderers
from ithaca.protocol.codec import Message, Received
from ithaca.protocol.greeting import FEATURES, VERSION_MAX, VERSION_MIN, GetStatus, Hello, Redirect, StatusIs, Welcome
from ithaca.protocol.members import Clocks
from ithaca.raft.events import Role, RoleChanged, Settings
from ithaca.raft.messages import ServerId
from ithaca.runtime.connection import Connection, Peer
from ithaca.runtime.listener import HttpAnswer, Listener, listen
from ithaca.runtime.raft.ports import Waiter
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


class OrdererServer(Peer):
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
        self._file = file
        self._server = server
        self._directory = directory
        self._disk = disk or OsDisk()
        self._settings = settings or Settings()
        self._listen_at = listen_at or file.orderer(server).address
        self._machine = ProjectionMachine()
        self._links = Links([place.address for place in file.orderers])
        self._sequencer = SequencerService(server, self._links)
        units = [*(replica.address for shard in file.shards for replica in shard.replicas), *file.spares]
        self._caretaker = Caretaker(self._links, units, lambda: self._machine.state.founded is not None)
        self._lock: OsFile | None = None
        self._listener: Listener | None = None
        self._host: RaftHost | None = None
        self._founding: asyncio.Task[None] | None = None
        self._ended = asyncio.Event()
        self._error: Exception | None = None

    # Life

    @property
    def address(self) -> Address:
        return self._listen_at if self._listener is None else self._listener.address

    async def start(self) -> None:
        """Recover the disk, listen, and begin to take part."""
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
        self._host = RaftHost(
            _member(self._file, self._server),
            self._disk,
            self._directory,
            RaftLogFiles(),
            self._machine,
            self,
            self._settings,
        )
        self._listener = await listen(self._listen_at, accept=self._accept, welcome=self._welcome, http=self._http)
        self._host.start()

    async def stop(self) -> None:
        """Stop cleanly: what is being written is finished. Idempotent."""
        if self._founding is not None:
            self._founding.cancel()
        await self._caretaker.close()
        await self._sequencer.close()
        if self._host is not None:
            await self._host.stop()
        self._links.close()
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

    # What Raft tells

    def clocks(self) -> Clocks | None:
        return None

    def heard(self, server: ServerId, clocks: Clocks | None) -> None:
        """Nothing comes along with messages of Raft."""

    def role_changed(self, change: RoleChanged) -> None:
        if self._founding is not None:
            self._founding.cancel()
            self._founding = None
        self._caretaker.lead(change.role is Role.LEADER)
        if change.role is Role.LEADER and self._machine.state.projection is None:
            self._founding = asyncio.create_task(self._found())

    def applied(self) -> None:
        known = self._machine.state.known
        if known is not None:
            self._sequencer.look(known)

    def members_agreed(self) -> None:
        """Who is asked is told where the leader is, and needs no list."""

    def persisted(self, seconds: float) -> None:
        """Nobody counts it."""

    def failed(self, error: Exception) -> None:
        self._error = error
        self._ended.set()

    async def _found(self) -> None:
        entry = await founding(self._file, self._server, self._links)
        self._submit(entry, lambda outcome: _log.info("the log is founded: %s", type(outcome).__name__), _log_failure)

    def _submit(self, command: Command, done: Callable[[Any], None], failed: Callable[[IthacaError], None]) -> None:
        assert self._host is not None
        self._host.driver.submit(encoded(command), Waiter(done, failed))

    # Requests

    def on_message(self, connection: Connection, received: Received) -> None:
        message = received.message
        match message:
            case GetStatus():
                connection.answer(received, StatusIs(encode_status(self.status())))
            case Decide(FoundLog()):
                raise ProtocolError("a log is founded by its first leader alone")
            case Decide(command):
                self._decide(connection, received, command)
            case GetProjection():
                self._read(connection, received, lambda: self._machine.state.known)
            case GetSessions():
                self._read(connection, received, lambda: self._machine.state.sessions)
            case _ if isinstance(message, SEQUENCER_CALLS):
                self._sequencer.ask(Caller(connection, received), message)
            case _:
                raise ProtocolError(f"an orderer does not know {type(message).__name__}")

    def on_lost(self, connection: Connection, error: IthacaError | None) -> None:
        """Whoever is gone needs no answer."""

    def _decide(self, connection: Connection, received: Received, command: Command) -> None:
        assert self._host is not None
        if self._host.driver.is_leader:
            self._submit(
                command,
                lambda outcome: connection.answer(received, outcome),
                lambda error: connection.fail(received, error),
            )
        else:
            self._redirect(connection, received)

    def _read(self, connection: Connection, received: Received, told: Callable[[], Message | None]) -> None:
        """Answer behind everything that was decided before the question came."""

        def done(_: object) -> None:
            answer = told()
            if answer is None:
                connection.fail(received, Unavailable("the log is not founded yet: not all of its units have answered"))
            else:
                connection.answer(received, answer)

        assert self._host is not None
        if self._host.driver.is_leader:
            self._host.driver.submit_read(Waiter(done, lambda error: connection.fail(received, error)))
        else:
            self._redirect(connection, received)

    def _redirect(self, connection: Connection, received: Received) -> None:
        assert self._host is not None
        group = self._host.group
        connection.answer(received, Redirect(group.leader, Orderers(group.commit_index, group.voters)))

    # What others learn of this server

    def status(self) -> dict[str, Any]:
        assert self._host is not None, "a server has a status once it was started"
        driver, known, core = self._host.driver, self._machine.state.known, self._sequencer.core
        projection = None if known is None else known.projection
        is_sequencer = projection is not None and projection.sequencer == self._server
        return {
            "role": "orderer",
            "name": str(self._server),
            "address": str(self.address),
            "state": self._host.group.state or ("leading" if driver.is_leader else "following"),
            "term": driver.term,
            "commit_index": driver.commit_index,
            "log": None if self._log_id() is None else str(self._log_id()),
            "epoch": None if projection is None else projection.epoch,
            "units": None if projection is None else [unit.number for unit in projection.units],
            "is_sequencer": is_sequencer,
            "is_preparing": is_sequencer and self._sequencer.is_preparing,
            "next_row": core.next_row if is_sequencer else None,
            "short_chains": None if known is None else known.projection.short_chains(known.sizes),
            "bound": None if known is None else known.bound,
            "first": None if known is None else known.trim,
        }

    def _log_id(self) -> UUID | None:
        founded = self._machine.state.founded
        return None if founded is None else founded.log

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
        return self._host.accept(connection, hello) if hello.role == ORDERERS.role else self

    def _http(self, path: str) -> HttpAnswer | None:
        return answer_http(path, self.status)


def _log_failure(error: IthacaError) -> None:
    _log.warning("the log was not founded by this leader: %s", error)


def _member(file: ClusterFile, server: ServerId) -> RaftMember:
    """This orderer in its group, as the file has it. One that is joining knows of nobody."""

    def founders() -> Mapping[ServerId, Address]:
        return {} if file.orderer(server).joining else check_founders(file)

    return RaftMember(server, ORDERERS, founders, {place.server: place.address for place in file.orderers})
