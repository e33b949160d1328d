"""`RaftHost`: one member of a Raft group, with its store, links and members, for whatever state machine it agrees on.

The owner is the server. It has the port on which others dial, hands over who says that it is a member (`accept`), and
proposes and reads by way of `driver`. What is agreed goes to the state machine; the owner is told what else happens.
"""

import logging
from collections.abc import Sequence
from typing import Protocol

from ithaca.model.errors import IthacaError, ProtocolError
from ithaca.model.records import Buffer
from ithaca.protocol.greeting import Hello
from ithaca.protocol.members import Clocks, RaftMessage
from ithaca.raft.events import RefusedRequest, Role, RoleChanged, Settings, Unreachable
from ithaca.raft.messages import AnyMessage, Configuration, ServerId, Snapshot
from ithaca.runtime.connection import Connection, Peer
from ithaca.runtime.dialling import Said, hello_in
from ithaca.runtime.raft.driver import RaftDriver
from ithaca.runtime.raft.ports import RaftFiles, StateMachine
from ithaca.server.raft_host.directory import open_store
from ithaca.server.raft_host.group import Group
from ithaca.server.raft_host.identity import RaftMember
from ithaca.server.raft_host.links import RaftLinks
from ithaca.server.raft_host.members import MemberChanges
from ithaca.server.raft_host.peers import RaftPeers
from ithaca.server.raft_host.refusals import error_of
from ithaca.storage.disk import Disk

_log = logging.getLogger("ithaca.raft")


class HostOwner(Protocol):
    """The server that the host is part of. Called from its loop, and never from within another of these calls."""

    def hello(self) -> Said:
        """What this server says of itself when it dials, with its role and its number."""

    def clocks(self) -> Clocks | None:
        """What goes along with each message to another member; None for nothing."""

    def heard(self, server: ServerId, clocks: Clocks | None) -> None:
        """Another member speaks, and this came along. Called before what it says counts."""

    def role_changed(self, change: RoleChanged) -> None: ...

    def applied(self) -> None:
        """The state machine has taken in one or more entries, or a snapshot."""

    def members_agreed(self) -> None:
        """Who the members are was agreed again."""

    def removed(self) -> None:
        """This server is no member any more, for good, as another one says."""

    def persisted(self, seconds: float) -> None:
        """The disk took so long for one persist."""

    def failed(self, error: Exception) -> None:
        """The host has stopped for good."""


class Cargo(Protocol):
    """What belongs to entries and snapshots, and is not in them: it travels beside messages, or is fetched."""

    def load(self, message: AnyMessage) -> Sequence[Buffer]:
        """What goes out beside a message."""

    def unload(self, message: AnyMessage, payload: Buffer) -> None:
        """What came beside a message, before that is believed; `ProtocolError` for what does not belong to it."""

    def fetch(self, snapshot: Snapshot, leader: ServerId) -> None:
        """As `runtime.raft.ports.Owner.fetch`."""


class RaftHost:
    """Made from the directory, then `start`, then `stop`."""

    def __init__(
        self,
        member: RaftMember,
        disk: Disk,
        directory: str,
        files: RaftFiles,
        machine: StateMachine,
        owner: HostOwner,
        settings: Settings,
        cargo: Cargo | None = None,
    ) -> None:
        """Recover what the directory holds, or found the group in it; nothing is sent yet."""
        self._member = member
        self._owner = owner
        self._cargo = cargo
        store, durable = open_store(disk, directory, files, member)
        self.driver = RaftDriver(member.server, settings, store, durable, machine, self)
        self.group = Group(member, self.driver)
        self.changes = MemberChanges(member, self.driver, self.group)
        self._links = RaftLinks(member, self)
        self._peers = RaftPeers(member, self.group, self.hear)
        self._agreed: Configuration | None = None
        self._is_started = False

    def start(self) -> None:
        """Begin to take part: from now on others may dial."""
        self._is_started = True
        self._links.follow(self.group.others)
        self.driver.start()
        if self.group.state == "waiting":
            _log.info("%s has an empty directory, and waits to be added", self._member.named(self._member.server))

    async def stop(self) -> None:
        """What is being written is finished. Idempotent."""
        self.changes.close()
        await self.driver.stop()
        await self._links.close()

    def accept(self, connection: Connection, hello: Hello) -> Peer:
        """Whoever says that it is another member has dialled: who takes what it says."""
        server, peer = self._peers.accept(connection, hello, hello_in(self._owner.hello()))
        self._links.is_back(server)
        return peer

    # What Raft calls

    def send(self, to: ServerId, message: AnyMessage) -> None:
        says = RaftMessage(message, self._owner.clocks())
        payload = () if self._cargo is None else self._cargo.load(message)
        if not self._links.send(to, says, payload):
            self._peers.send(to, says, payload)

    def fetch(self, snapshot: Snapshot, leader: ServerId) -> None:
        assert self._cargo is not None
        self._cargo.fetch(snapshot, leader)

    def error_of(self, refused: RefusedRequest) -> IthacaError:
        return error_of(self._member, refused)

    def role_changed(self, change: RoleChanged) -> None:
        self._owner.role_changed(change)
        if change.role is Role.LEADER:
            self.members_changed()

    def members_changed(self) -> None:
        if self._is_started:
            self._links.follow(self.group.others)
            self.changes.look()

    def applied(self) -> None:
        self._owner.applied()
        agreed = self.driver.agreed_configuration
        if agreed is not self._agreed:
            self._agreed = agreed
            self._owner.members_agreed()
            self._peers.dismiss_removed()

    def persisted(self, seconds: float) -> None:
        self._owner.persisted(seconds)

    def failed(self, error: Exception) -> None:
        self._owner.failed(error)

    # What links call

    def hello(self) -> Said:
        return self._owner.hello()

    def link_lost(self, server: ServerId) -> None:
        self.driver.step(Unreachable(server))

    def hear(self, says: RaftMessage, payload: Buffer) -> None:
        if self._cargo is not None:
            self._cargo.unload(says.message, payload)
        elif len(payload):
            raise ProtocolError(f"{len(payload)} bytes came beside a message of Raft, to which nothing belongs")
        self._owner.heard(says.message.sender, says.clocks)  # first: with this vote the server may become the leader
        self.driver.receive(says.message)

    def told_removed(self, by: ServerId) -> None:
        if not self.group.is_removed:
            _log.warning("this server was removed, as %s says: it can be stopped", self._member.named(by))
            self.group.is_removed = True
            self._owner.removed()
