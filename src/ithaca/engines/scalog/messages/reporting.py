"""Between replicas and the ordering leader: joining, reports, and the news of what was agreed."""

from uuid import UUID

import msgspec

from ithaca.engines.scalog.messages.aggregation import Change, Suspects
from ithaca.engines.scalog.ordering.reports import Report
from ithaca.engines.scalog.ordering.state import ShardSummary
from ithaca.model.cut import ShardCut
from ithaca.model.positions import LaneId
from ithaca.model.view import Address, Orderers
from ithaca.protocol.fields import Boot, Natural, ReplicaNumber, ShardNumber

ShardNews = ShardCut | Change
"""What a replica is told of its shard, in the order in which it was agreed."""


class Join(msgspec.Struct, frozen=True, array_like=True):
    """A replica has started for the `boot`-th time, or found a new leader: it gets a lane and the news.

    With its `address` it may be a learner: one that is not of the shard yet gets the news and no lane.
    """

    shard: ShardNumber
    replica: ReplicaNumber
    boot: Boot
    suspects: Suspects = ()
    via: Natural = 0
    """The number of the aggregator that it came to; 0 when it came to the leader itself."""
    address: Address | None = None
    takes_pieces: bool = False
    """Whether it understands `JoinedLanes`; earlier versions do not, and leave this out."""


class JoinedLanes(msgspec.Struct, frozen=True, array_like=True):
    """A piece of the lengths of a `Joined` that follows: lanes that are closed, so that these never change."""

    lengths: tuple[tuple[LaneId, Natural], ...]


class Joined(msgspec.Struct, frozen=True, array_like=True):
    """Where the shard stands, the replica's new lane included, and the kept cuts that have runs of it.

    `lane` is None when the shard is finalized, and the replica only serves reads; and for a learner. What pieces have
    said before is not in the summary; `gone` are lanes of them that are not there any more.
    """

    log: UUID
    lane: LaneId | None
    summary: ShardSummary
    cuts: tuple[ShardCut, ...]
    orderers: Orderers = Orderers()
    gone: tuple[LaneId, ...] = ()

    def joined_with(self, pieces: dict[LaneId, int]) -> "Joined":
        """The same in one, as if nothing had been said in pieces."""
        if not pieces:
            return self
        gone = frozenset(self.gone)
        lengths = {lane: length for lane, length in pieces.items() if lane not in gone}
        lengths.update(self.summary.lengths)
        summary = msgspec.structs.replace(self.summary, lengths=list(lengths.items()))
        return msgspec.structs.replace(self, summary=summary, gone=())


class BootIsKnown(msgspec.Struct, frozen=True, array_like=True):
    """The replica cannot join: a later start of it is known, and this is its boot."""

    boot: Boot


class News(msgspec.Struct, frozen=True, array_like=True):
    items: tuple[ShardNews, ...]


class ReportIs(msgspec.Struct, frozen=True, array_like=True):
    report: Report


class Enlist(msgspec.Struct, frozen=True, array_like=True):
    """A storage server at this address is nobody yet, and waits to be told who it shall be."""

    address: Address


class Enlisted(msgspec.Struct, frozen=True, array_like=True):
    """The spare is this replica from now on: one that the view has, or a learner."""

    shard: ShardNumber
    replica: ReplicaNumber


class SignOfLife(msgspec.Struct, frozen=True, array_like=True):
    """A sign of life of all replicas that have joined over this connection.

    `whole` says that they lack nothing of their shard, but for what is on its way: others may be spared.
    """

    whole: bool = False
