"""The public interface of a cluster's administration, synchronous; `interface_admin_aio` is its awaited twin."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import msgspec

from ithaca.model.view import ShardPhase


class ReplicaInfo(msgspec.Struct, frozen=True):
    """One storage server of a shard: its newest lane, whether that may grow, and how much of it is ordered.

    >>> ReplicaInfo(replica=0, address="127.0.0.1:7603", lane="0-0-1", is_open=True, ordered=7).address
    '127.0.0.1:7603'
    """

    replica: int
    address: str
    lane: str | None = None
    is_open: bool = False
    ordered: int = 0


class ShardInfo(msgspec.Struct, frozen=True):
    """One shard: its phase, how many of its replicas may be lost (`f`), and the records that are ordered in it.

    Of a shard that was trimmed, `records` counts those that its lanes still have, and those trimmed from them.

    >>> ShardInfo(shard=2, phase="finalized", f=1, masking=False, replicas=(), records=7).phase
    'finalized'
    """

    shard: int
    phase: ShardPhase
    f: int
    masking: bool
    replicas: tuple[ReplicaInfo, ...]
    records: int = 0


class OrdererInfo(msgspec.Struct, frozen=True):
    """One ordering server. It votes once it has kept up with the others; one of those that vote leads.

    >>> OrdererInfo(orderer=4, address="127.0.0.1:7607", votes=True, leads=False).votes
    True
    """

    orderer: int
    address: str
    votes: bool
    leads: bool


class SessionInfo(msgspec.Struct, frozen=True):
    """A named session: how often it was opened, the lane in which it lives, and for how long nobody has used it.

    `idle_s` goes by the order's time, and is None when it is not known. What was appended counts once the leader has
    asked for it, which it does only of sessions that may be idle: an active one may seem idle for longer than it is.

    >>> SessionInfo(name="importer", epoch=2, lane="0-0-1", idle_s=3600.0).name
    'importer'
    """

    name: str
    epoch: int
    lane: str
    idle_s: float | None


class WriterInfo(msgspec.Struct, frozen=True):
    """A writer that is remembered, with what it published last: `count` records from `position` on, so long ago.

    >>> WriterInfo(writer="loader", key=7, owner="", position=11, count=2, idle_s=60.0).key
    7
    """

    writer: str
    key: int
    owner: str
    position: int
    count: int
    idle_s: float | None


class Admin(ABC):
    """What changes a cluster while it runs: `log.admin`. Every call may be repeated after a failure.

    >>> import ithaca
    >>> def replace_shard(bootstrap: str, old: int, new: list[str]) -> int:
    ...     with ithaca.connect(bootstrap) as log:
    ...         added = log.admin.add_shard(new)
    ...         log.admin.finalize_shard(old, grace_cuts=10)
    ...         return added
    """

    @abstractmethod
    def add_shard(self, replicas: Sequence[str], *, masking: bool = False, shard: int | None = None) -> int:
        """Register a shard of the replicas at these addresses, numbered from 0 as listed; returns its number.

        By default that is the next free one. Appends go there as soon as its replicas have joined. The same
        addresses again are the same shard. `AddressInUse` when a server of the cluster has one of them.
        """

    @abstractmethod
    def finalize_shard(
        self, shard: int, *, grace_cuts: int = 0, grace: float = 0.0, wait: bool = True, force: bool = False
    ) -> None:
        """Let the shard take nothing more: at once, or after so many cuts and so many seconds.

        During the grace clients go to other shards, and what is under way is still ordered. What was ordered stays
        readable. `wait`: return when it is finalized. `NoSuchShard`; `LastShard` unless `force`, which leaves a log
        that nobody can append to. A shard that is finalized stays so.
        """

    @abstractmethod
    def remove_replica(self, shard: int, replica: int, *, force: bool = False) -> None:
        """Have the shard go on without this replica: its lane is closed, and nobody counts on what it holds.

        A shard without masking orders nothing until another was added; what is there can be read. One that was
        removed before stays so. `NoSuchShard`, `NoSuchReplica`; `InvalidInput` when what is ordered would be nowhere,
        or might be, since too few others have all of it: `force` takes that risk.
        """

    @abstractmethod
    def add_replica(self, shard: int, address: str, *, timeout: float | None = None) -> int:
        """Have the spare that waits at this address copy the shard and become a replica of it; returns its number.

        For a shard that is short of a replica, or a finalized one that shall have more copies to read from. It takes
        as long as the copying does, with a timeout that long at most (`DeadlineExceeded`); repeat the call to wait on.
        `Unavailable` when no spare waits there: it is started with `ithaca serve --spare`.
        """

    @abstractmethod
    def replace_replica(self, shard: int, replica: int, address: str, *, timeout: float | None = None) -> int:
        """Have the spare at this address take the place of a replica; returns the new one's number.

        Where the old one is still there the spare copies first, and the shard stops for a moment only. Otherwise as
        `remove_replica` and `add_replica`. `AddressInUse` when the spare has taken the place of another meanwhile.
        """

    @abstractmethod
    def shards(self) -> tuple[ShardInfo, ...]:
        """The shards as they are now, finalized ones included."""

    @abstractmethod
    def add_orderer(self, address: str) -> int:
        """Let the orderer that waits at this address into the group; returns its number once it votes.

        It was started with an empty directory, under a number above all that were ever used. The same address again
        is the same orderer. Two who vote more survive one failure more: go from 3 to 5, not to 4. `AddressInUse` when
        another server of the cluster has the address; `InvalidInput` when no orderer waits there.
        """

    @abstractmethod
    def remove_orderer(self, orderer: int) -> None:
        """Let an orderer go for good, be it up, down or lost; if it leads, it hands over first.

        Its number is never used again. `NoSuchOrderer`; `LastOrderer` when no other votes; `Unavailable` while most
        of those who would remain are silent. An orderer that was removed stays so.
        """

    @abstractmethod
    def orderers(self) -> tuple[OrdererInfo, ...]:
        """The orderers as they are now, those included that do not vote yet."""

    @abstractmethod
    def sessions(self) -> tuple[SessionInfo, ...]:
        """The sessions that have names, in the order in which they were first opened."""

    @abstractmethod
    def expire_session(self, name: str) -> None:
        """Forget a named session, whoever has it open: its retries are `SessionExpired`, and the name begins again.

        `NoSuchSession`. Its records stay; whoever opens the name again has to know which of them are there.
        """

    @abstractmethod
    def writers(self) -> tuple[WriterInfo, ...]:
        """The writers whose newest publication is remembered, by name."""

    @abstractmethod
    def forget_writer(self, writer: str) -> None:
        """Forget what a writer published last: it must not come back, since it could publish that once more.

        `NoSuchWriter`. What it published stays.
        """
