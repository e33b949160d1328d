"""The administration of a cluster, awaited."""

from collections.abc import Sequence

from ithaca.model.engine import Feature
from ithaca.model.interface.shared import (
    MissingInfo,
    OrdererInfo,
    SessionInfo,
    ShardInfo,
    UnitInfo,
    UserInfo,
    WriterInfo,
)
from ithaca.model.interface.unsupported import unsupported
from ithaca.model.security.users import UserLimits
from ithaca.model.units import Duration


class Admin:
    """What changes a cluster while it runs: `log.admin`. Every call may be repeated after a failure.

    >>> import ithaca.aio
    >>> async def replace_shard(bootstrap: str, old: int, new: list[str]) -> int:
    ...     async with ithaca.aio.connect(bootstrap) as log:
    ...         added = await log.admin.add_shard(new)
    ...         await log.admin.finalize_shard(old, grace_cuts=10)
    ...         return added
    """

    def __repr__(self) -> str:
        return "<ithaca.Admin of a cluster>"

    async def add_shard(self, replicas: Sequence[str], *, masking: bool = False, shard: int | None = None) -> int:
        """Register a shard of the replicas at these addresses, numbered from 0 as listed; returns its number.

        By default that is the next free one. Appends go there as soon as its replicas have joined. The same
        addresses again are the same shard. `AddressInUse` when a server of the cluster has one of them.
        """
        raise unsupported(Feature.SHARDS)

    async def finalize_shard(
        self, shard: int, *, grace_cuts: int = 0, grace: Duration = 0.0, wait: bool = True, force: bool = False
    ) -> None:
        """Let the shard take nothing more: at once, or after so many cuts and so many seconds.

        During the grace clients go to other shards, and what is under way is still ordered. What was ordered stays
        readable. `wait`: return when it is finalized. `NoSuchShard`; `LastShard` unless `force`, which leaves a log
        that nobody can append to. A shard that is finalized stays so.
        """
        raise unsupported(Feature.SHARDS)

    async def remove_replica(self, shard: int, replica: int, *, force: bool = False) -> None:
        """Have the shard go on without this replica: its lane is closed, and nobody counts on what it holds.

        A shard without masking orders nothing until another was added; what is there can be read. One that was
        removed before stays so. Others that are catching up are waited for. `NoSuchShard`, `NoSuchReplica`;
        `InvalidInput` when what is ordered would be nowhere, or might be, since too few others have all of it: `force`
        takes that risk.
        """
        raise unsupported(Feature.REPLICAS)

    async def add_replica(self, shard: int, address: str, *, timeout: Duration | None = None) -> int:
        """Have the spare that waits at this address copy the shard and become a replica of it; returns its number.

        For a shard that is short of a replica, or a finalized one that shall have more copies to read from. It takes
        as long as the copying does, with a timeout that long at most (`DeadlineExceeded`); repeat the call to wait on.
        `Unavailable` when no spare waits there: it is started with `ithaca serve --spare`.
        """
        raise unsupported(Feature.REPLICAS)

    async def replace_replica(self, shard: int, replica: int, address: str, *, timeout: Duration | None = None) -> int:
        """Have the spare at this address take the place of a replica; returns the new one's number.

        Where the old one is still there the spare copies first, and the shard stops for a moment only. Otherwise as
        `remove_replica` and `add_replica`. `AddressInUse` when the spare has taken the place of another meanwhile.
        """
        raise unsupported(Feature.REPLICAS)

    async def shards(self) -> tuple[ShardInfo, ...]:
        """The shards as they are now, finalized ones included."""
        raise unsupported(Feature.SHARDS)

    async def missing(self) -> tuple[MissingInfo, ...]:
        """What is ordered, and on no replica that answers. Readers wait for it; `declare_lost` ends that."""
        raise unsupported(Feature.LOSSES)

    async def declare_lost(self, lane: str, start: int, stop: int, *, without: Sequence[int] = ()) -> None:
        """Say that no replica holds the records of the LSNs `[start, stop)` of a closed lane, nor ever will, although
        they are ordered: `missing` names them.

        Readers are told `Lost` at their positions, which are never used again, and everything else goes on. It cannot
        be taken back. Every replica of the shard is asked: `InvalidInput` for what one of them holds, for what is not
        ordered, and while one is silent; start it, or say that the shard is `without` it for good. What was declared
        before stays so.
        """
        raise unsupported(Feature.LOSSES)

    async def add_orderer(self, address: str) -> int:
        """Let the orderer that waits at this address into the group; returns its number once it votes.

        It was started with an empty directory, under a number above all that were ever used. The same address again
        is the same orderer. Two who vote more survive one failure more: go from 3 to 5, not to 4. `AddressInUse` when
        another server of the cluster has the address; `InvalidInput` when no orderer waits there.
        """
        raise unsupported(Feature.ORDERERS)

    async def remove_orderer(self, orderer: int) -> None:
        """Let an orderer go for good, be it up, down or lost; if it leads, it hands over first.

        Its number is never used again. `NoSuchOrderer`; `LastOrderer` when no other votes; `Unavailable` while most
        of those who would remain are silent. An orderer that was removed stays so.
        """
        raise unsupported(Feature.ORDERERS)

    async def orderers(self) -> tuple[OrdererInfo, ...]:
        """The orderers as they are now, those included that do not vote yet."""
        raise unsupported(Feature.ORDERERS)

    async def units(self) -> tuple[UnitInfo, ...]:
        """The storage units as they are now, spares included."""
        raise unsupported(Feature.UNITS)

    async def add_unit(self, address: str) -> int:
        """Enlist the unit that waits at this address as a spare; returns its number.

        It takes the place of the next one that is lost. The same address again is the same unit. It was started with an
        empty directory by `ithaca serve --spare`; `InvalidInput` when it has belonged to a cluster before,
        `AddressInUse` when another server of the cluster has the address, `Unavailable` when nobody answers there.
        """
        raise unsupported(Feature.UNITS)

    async def add_units(self, addresses: Sequence[str]) -> int:
        """Have the units that wait at these addresses be one more set, head first, for more capacity; returns its
        number.

        What is appended from then on goes there by turns, too; what was written before stays where it is.
        """
        raise unsupported(Feature.UNITS)

    async def replace_unit(self, unit: int, address: str | None = None, *, timeout: Duration | None = None) -> int:
        """Have another unit take the place of this one, be it up or lost: the one that waits at the address, or a
        spare; returns its number.

        New appends go there at once. What the old one has is copied in the background, from it or from the others of
        its chain; then it is removed. It takes as long as that does, with a timeout that long at most
        (`DeadlineExceeded`); repeat the call to wait on. `NoSuchUnit`; `Unavailable` when there is no spare.
        """
        raise unsupported(Feature.UNITS)

    async def rebuild_units(self, *, timeout: Duration | None = None) -> None:
        """Wait until every chain has all its units, and these have everything; the leader sees to it by itself.

        `units` says how far it is. `Unavailable` when a chain is short and there is no spare.
        """
        raise unsupported(Feature.UNITS)

    async def replace_sequencer(self, sequencer: int | None = None) -> int:
        """Have this orderer hand out positions from now on, by default the next one; returns its number.

        0 has nobody do it: then whoever appends contends for the next position, which goes on without a sequencer and
        is slower. `NoSuchOrderer`; `Unavailable` when too few units answer.
        """
        raise unsupported(Feature.UNITS)

    async def users(self) -> tuple[UserInfo, ...]:
        """The users of the cluster by name, without the operator, who is always there."""
        raise unsupported(Feature.USERS)

    async def add_user(
        self, name: str, rights: Sequence[str] = (), *, limits: UserLimits | None = None, certificate: bool = False
    ) -> str:
        """Add a user with these rights: `read`, `append`, `trim`, `admin`, `read:PREFIX`, `append:PREFIX`; returns its
        token, which is shown this once and kept nowhere.

        With `certificate` it has none, and is known by its certificate alone. `InvalidInput` if there is such a user.
        """
        raise unsupported(Feature.USERS)

    async def rotate_token(self, name: str, *, keep: bool = True) -> str:
        """Give a user another token, and return it. The newest one before it stays valid until the next rotation,
        unless it is not to be kept: then whoever is connected by it is out within a second. `NoSuchUser`."""
        raise unsupported(Feature.USERS)

    async def revoke_user(self, name: str) -> None:
        """Have a user be none any more: its connections end within a second. What it has appended stays, and so do its
        sessions and consumers, for a user of that name. One that was revoked before stays so."""
        raise unsupported(Feature.USERS)

    async def grant(self, name: str, rights: Sequence[str]) -> None:
        """Give a user more rights, as in `add_user`. `NoSuchUser`."""
        raise unsupported(Feature.USERS)

    async def withdraw(self, name: str, rights: Sequence[str]) -> None:
        """Take rights from a user, which have to be named as they were given; within a second it has them no more,
        whatever is under way. `NoSuchUser`."""
        raise unsupported(Feature.USERS)

    async def limit_user(self, name: str, limits: UserLimits) -> None:
        """Bound what a user may use; these limits replace all that it had. `NoSuchUser`."""
        raise unsupported(Feature.USERS)

    async def sessions(self) -> tuple[SessionInfo, ...]:
        """The sessions that have names, in the order in which they were first opened."""
        raise unsupported(Feature.SESSIONS)

    async def expire_session(self, name: str) -> None:
        """Forget a named session, whoever has it open: its retries are `SessionExpired`, and the name begins again.

        `NoSuchSession`. Its records stay; whoever opens the name again has to know which of them are there.
        """
        raise unsupported(Feature.SESSIONS)

    async def writers(self) -> tuple[WriterInfo, ...]:
        """The writers whose newest publication is remembered, by name."""
        raise unsupported(Feature.PREPARED)

    async def forget_writer(self, writer: str) -> None:
        """Forget what a writer published last: it must not come back, since it could publish that once more.

        `NoSuchWriter`. What it published stays.
        """
        raise unsupported(Feature.PREPARED)
