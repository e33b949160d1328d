"""What aggregators say and are told (types 80 to 89): reports of many replicas upwards, the order downwards.

An aggregator stands between replicas and the ordering leader, or another aggregator. Whoever is below it speaks to it
as to the leader: `Join` and its answer pass through, reports are put together, the news are taken apart.
"""

from typing import Annotated
from uuid import UUID

import msgspec
from msgspec import Meta

from ithaca.engines.scalog.ordering.cut_slices import CutPart
from ithaca.engines.scalog.ordering.outcomes import (
    ExpiredSession,
    FinalizedShard,
    LaneClosed,
    LaneOpened,
    RangeLost,
    SessionMoved,
    SessionOpened,
    TrimmedLog,
    ViewChanged,
)
from ithaca.engines.scalog.ordering.prepared.outcomes import PartDropped, PartOpened, PartSealed
from ithaca.engines.scalog.ordering.reports import Report
from ithaca.model.limits import AGGREGATOR_LEVEL_MAX, AGGREGATOR_NUMBER_MAX, REPORTS_TOGETHER_MAX, SUSPECTS_MAX
from ithaca.model.view import Address, Orderers
from ithaca.protocol.fields import ReplicaNumber, ShardNumber

AggregatorNumber = Annotated[int, Meta(ge=1, le=AGGREGATOR_NUMBER_MAX)]
Suspects = Annotated[tuple[Address, ...], Meta(max_length=SUSPECTS_MAX)]
"""Aggregators that did not serve whoever says this."""

Change = (
    ViewChanged
    | LaneOpened
    | LaneClosed
    | FinalizedShard
    | PartOpened
    | PartSealed
    | PartDropped
    | SessionOpened
    | SessionMoved
    | ExpiredSession
    | TrimmedLog
    | RangeLost
)
"""What is agreed beside cuts, and told to the replicas whom it concerns."""
CarriedNews = CutPart | Change
"""What an aggregator is told of all its shards, in the order in which it was agreed."""


class ReportsAre(msgspec.Struct, frozen=True, array_like=True):
    """The newest report of each of these replicas, as the replica made it: nothing is added up on the way."""

    reports: Annotated[tuple[Report, ...], Meta(max_length=REPORTS_TOGETHER_MAX)]


class OrderNews(msgspec.Struct, frozen=True, array_like=True):
    items: tuple[CarriedNews, ...]


class Left(msgspec.Struct, frozen=True, array_like=True):
    """Upwards: this replica is not reached over this connection any more. Downwards: it has joined elsewhere, or
    shall go to `to`."""

    shard: ShardNumber
    replica: ReplicaNumber
    to: Address | None = None


class Attach(msgspec.Struct, frozen=True, array_like=True):
    """An aggregator offers to carry replicas, or those of a lower level."""

    aggregator: AggregatorNumber
    address: Address
    level: Annotated[int, Meta(ge=1, le=AGGREGATOR_LEVEL_MAX)] = 1
    suspects: Suspects = ()


class Attached(msgspec.Struct, frozen=True, array_like=True):
    """It may; this is the log, and these are the orderers."""

    log: UUID
    orderers: Orderers = Orderers()


class Detach(msgspec.Struct, frozen=True, array_like=True):
    """An aggregator below this one is gone."""

    aggregator: AggregatorNumber


class Assigned(msgspec.Struct, frozen=True, array_like=True):
    """Go through the aggregator at this address: the answer to `Join` or `Attach`, or news to who has joined."""

    to: Address


class Probe(msgspec.Struct, frozen=True, array_like=True):
    """Is anybody there? Asked when nothing was heard for a while."""


class Alive(msgspec.Struct, frozen=True, array_like=True):
    pass


class SignsOfLife(msgspec.Struct, frozen=True, array_like=True):
    """What these replicas have said as `SignOfLife`: shard, replica, and whether it lacks nothing."""

    signs: Annotated[tuple[tuple[ShardNumber, ReplicaNumber, bool], ...], Meta(max_length=REPORTS_TOGETHER_MAX)]
