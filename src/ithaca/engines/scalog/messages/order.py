"""What clients ask the ordering layer: the view, the tail, sessions; what they want agreed on is in `requests`."""

from typing import Literal

import msgspec

from ithaca.engines.scalog.ordering.outcomes import (
    Configured,
    ExpiredSession,
    FinalizedShard,
    LaneClosed,
    LaneOpened,
    RangeLost,
    RefusedEntry,
    Session,
    SessionMoved,
    SessionOpened,
    TrimmedLog,
    ViewChanged,
)
from ithaca.engines.scalog.ordering.prepared.outcomes import PartOutcome
from ithaca.model.view import Address, ClusterConfiguration, View
from ithaca.protocol.fields import Counted, Natural, ShardNumber

AppliedOutcome = (
    Configured
    | ViewChanged
    | LaneOpened
    | LaneClosed
    | FinalizedShard
    | PartOutcome
    | SessionOpened
    | SessionMoved
    | ExpiredSession
    | TrimmedLog
    | RangeLost
    | RefusedEntry
)
"""What whoever proposed an entry is told of it."""


class GetView(msgspec.Struct, frozen=True, array_like=True):
    """As far as this orderer has applied; with `at_least`, once it has applied that version of the view."""

    at_least: Natural = 0


class ViewIs(msgspec.Struct, frozen=True, array_like=True):
    view: View
    configuration: ClusterConfiguration
    orderers: tuple[Address, ...]
    leader: Address | None
    entry: Natural = 0
    """Of `model.view.Orderers`."""


class GetTail(msgspec.Struct, frozen=True, array_like=True):
    """Linearizable: through the leader's read index."""


class TailReply(msgspec.Struct, frozen=True, array_like=True):
    """Where the order stands; `time_us` is what its time would be with a cut that is proposed now."""

    tail: Counted
    first: Counted
    time_us: Natural
    view: Natural


class Propose(msgspec.Struct, frozen=True, array_like=True):
    """What version 1 says instead of a message of `engines.scalog.messages.requests`: the ordered entry that it leads
    to.

    It is taken for that message; an entry that no client can ask for is refused.
    """

    entry: bytes


class Applied(msgspec.Struct, frozen=True, array_like=True):
    outcomes: tuple[AppliedOutcome, ...]


class GetSession(msgspec.Struct, frozen=True, array_like=True):
    """Linearizable: where the session lives now."""

    producer_id: Counted


class SessionIs(msgspec.Struct, frozen=True, array_like=True):
    """None for a session that has expired."""

    session: Session | None


class Admit(msgspec.Struct, frozen=True, array_like=True):
    """The server at this address shall become a replica of the shard. Asked again and again until it has."""

    shard: ShardNumber
    address: Address


class AdmissionIs(msgspec.Struct, frozen=True, array_like=True):
    """How far that is: nobody has enlisted there; it copies (`whole`: what there was); it is a replica."""

    state: Literal["absent", "learning", "whole", "added"]
    replica: Natural = 0
