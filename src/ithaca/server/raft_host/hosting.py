"""A server that is an orderer of its cluster's file: its life, its port, and its member of the Raft group."""

from abc import abstractmethod
from uuid import UUID

from prometheus_client import CollectorRegistry

from ithaca.model.config.cluster import ClusterFile
from ithaca.protocol.greeting import Hello
from ithaca.protocol.members import Clocks
from ithaca.raft.events import Settings
from ithaca.raft.messages import ServerId
from ithaca.runtime.connection import Connection, Peer
from ithaca.runtime.dialling import Said
from ithaca.runtime.raft.ports import RaftFiles, StateMachine
from ithaca.server.greeter import Greeter
from ithaca.server.life import LivingServer, lock_directory
from ithaca.server.options import ServerOptions
from ithaca.server.raft_host.host import Cargo, HostOwner, RaftHost
from ithaca.server.raft_host.orderers import ORDERERS, orderer_of
from ithaca.server.users.gate import UserGate
from ithaca.users.table import UserTable


class HostingServer(LivingServer, HostOwner):
    """Made from the file, with a host from `_open_host` on. It hears of the Raft group, and passes over what it can."""

    def __init__(self, file: ClusterFile, server: ServerId, directory: str, options: ServerOptions | None) -> None:
        self._options = options or ServerOptions()
        super().__init__(self._options.listen_at or file.orderer(server).address)
        self._file = file
        self._server = server
        self._directory = directory
        self._greeter = Greeter(file, ORDERERS.role, str(server), self._log_id)
        self._host: RaftHost | None = None
        self.gate: UserGate | None = None
        """Who says what clients may do, where the cluster has users."""

    @property
    def host(self) -> RaftHost:
        assert self._host is not None, "the server was started"
        return self._host

    @abstractmethod
    def _log_id(self) -> UUID | None:
        """The log that the group has founded."""

    @abstractmethod
    def _peer_of(self, connection: Connection) -> Peer:
        """Who takes the requests of a connection that no other member has dialled."""

    def _open_host(
        self, machine: StateMachine, files: RaftFiles, settings: Settings | None = None, cargo: Cargo | None = None
    ) -> RaftHost:
        """Take the directory, and recover what it holds; nothing is sent yet."""
        self._lock = lock_directory(self._options.disk, self._directory)
        self._host = RaftHost(
            orderer_of(self._file, self._server),
            self._options.disk,
            self._directory,
            files,
            machine,
            self,
            settings or self._options.settings,
            cargo,
        )
        return self._host

    async def _take_part(self, registry: CollectorRegistry | None = None) -> None:
        """Listen, and begin."""
        self.gate = self._make_gate()
        if self.gate is not None:
            self.gate.holds_table = True
        await self._listen(self._greeter, self._accept, registry, gate=self.gate)
        self.host.start()

    def _make_gate(self) -> UserGate | None:
        """By the rules of the engine, where it has some."""
        return None

    def _users(self) -> UserTable:
        """As far as entries were applied here."""
        return UserTable()

    def _users_changed(self) -> None:
        """Have the gate know the users as they are here; to be called whenever entries were applied, or the leader is
        another. A server that was started knows none of them until it has applied what it has."""
        if self.gate is None or not (self.gate.is_told or self.host.driver.is_current):
            return
        if not (self.gate.is_told and self.gate.version == self._users().version):
            self.gate.changed(self._users().copy())

    async def _close_host(self) -> None:
        if self._host is not None:
            await self._host.stop()

    def _accept(self, connection: Connection, hello: Hello) -> Peer:
        return self.host.accept(connection, hello) if hello.role == ORDERERS.role else self._peer_of(connection)

    # What the host calls

    def hello(self) -> Said:
        return self._greeter.hello()

    def clocks(self) -> Clocks | None:
        return None

    def heard(self, server: ServerId, clocks: Clocks | None) -> None:
        pass

    def members_agreed(self) -> None:
        pass

    def removed(self) -> None:
        pass

    def persisted(self, seconds: float) -> None:
        pass
