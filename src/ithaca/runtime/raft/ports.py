"""What a `RaftDriver` needs of others: what Raft agrees on, what persists it, and whoever runs it."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

from ithaca.model.errors import IthacaError
from ithaca.raft.events import Persist, RefusedRequest, RoleChanged
from ithaca.raft.messages import AnyMessage, DurableState, ServerId, Snapshot
from ithaca.storage.disk import Disk


class RaftStore(Protocol):
    """Where terms, votes, entries and snapshots are durable."""

    def persist(self, effect: Persist) -> None:
        """Returns when all of it is synced; `StorageFull` if nothing was written, and it may be repeated."""


class RaftFiles(Protocol):
    """How the store of a server lies in its directory."""

    @property
    def name(self) -> str:
        """Of the file that is there as soon as there is a store."""

    def open(self, disk: Disk, directory: str) -> tuple[RaftStore, DurableState]:
        """The store that is there, with what it holds; `Corrupt` if that is not what was persisted."""

    def create(self, disk: Disk, directory: str, state: DurableState) -> RaftStore:
        """A new server's store, which holds this, durably."""


class StateMachine(Protocol):
    """What committed entries are applied to."""

    def apply(self, index: int, term: int, data: bytes) -> object:
        """Take in the payload at this index; what it returns is the result of its proposal."""

    def snapshot(self) -> Iterator[bytes]:
        """The whole state, after the last entry applied, in pieces that are made while it goes on to change."""

    def restore(self, index: int, data: bytes) -> None:
        """Replace the whole state by a snapshot, taken after `index`."""


class Owner(Protocol):
    """Whom the driver works for. Called from the loop, and never while another call of these is under way."""

    def send(self, to: ServerId, message: AnyMessage) -> None:
        """Hand to the transport, which may lose it."""

    def role_changed(self, change: RoleChanged) -> None: ...

    def members_changed(self) -> None:
        """The configuration is another one, agreed or not yet; messages to new members follow."""

    def applied(self) -> None:
        """The state machine has taken in one or more entries, or a snapshot."""

    def persisted(self, seconds: float) -> None:
        """The disk took so long for one persist."""

    def fetch(self, snapshot: Snapshot, leader: ServerId) -> None:
        """Fetch what the leader's snapshot refers to, then step `SnapshotFetched`. Only asked with `Settings.fetches`;
        again while that has not been done."""

    def error_of(self, refused: RefusedRequest) -> IthacaError:
        """What whoever asked is told when Raft refuses something."""

    def failed(self, error: Exception) -> None:
        """The driver has stopped for good."""


class Waiter(NamedTuple):
    """Who is told of a request, by a plain call in the loop: exactly one of the two, once."""

    done: Callable[[Any], None]
    failed: Callable[[IthacaError], None]
