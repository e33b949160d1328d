"""What clients may ask the ordering leader to have agreed on: one message per intention (types 94 to 105).

The leader makes the ordered entry of it. Entries themselves never come from outside: what only a leader can know, such
as lengths that are durable, lanes that are opened or closed and the time, has no message here.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from ithaca.engines.scalog.ordering.entries import (
    ExpireSession,
    Finalize,
    MoveSession,
    OpenSession,
    OrderingEntry,
    RegisterShard,
    RemoveReplica,
    TrimTo,
)
from ithaca.engines.scalog.ordering.prepared.entries import (
    AbortParts,
    ForgetWriter,
    OpenPart,
    PartName,
    Publish,
    RenewParts,
)
from ithaca.model.consumers import CommitPosition
from ithaca.model.errors import InvalidInput
from ithaca.model.limits import (
    CONSUMER_COMMANDS_MAX,
    PART_TTL_S_MAX,
    PART_TTL_S_MIN,
    PARTS_MAX,
    PUBLISH_KEY_MAX,
    SESSION_CARRIED_BYTES_MAX,
    SESSION_NAME_BYTES_MAX,
    SHARD_REPLICAS_MAX,
    WRITER_NAME_BYTES_MAX,
)
from ithaca.model.parts import Token
from ithaca.model.positions import LaneId
from ithaca.model.view import Address
from ithaca.protocol.fields import Counted, ReplicaNumber, ShardNumber

_Natural = Annotated[int, Meta(ge=0, lt=1 << 62)]
_SessionName = Annotated[str, Meta(min_length=1, max_length=SESSION_NAME_BYTES_MAX)]
_WriterName = Annotated[str, Meta(max_length=WRITER_NAME_BYTES_MAX)]
_Carried = Annotated[bytes, Meta(max_length=SESSION_CARRIED_BYTES_MAX)]
_Parts = Annotated[tuple[PartName, ...], Meta(max_length=PARTS_MAX)]
_Ttl = Annotated[int, Meta(ge=int(PART_TTL_S_MIN * 1e6), le=int(PART_TTL_S_MAX * 1e6))]
_Replicas = Annotated[tuple[tuple[ReplicaNumber, Address], ...], Meta(max_length=SHARD_REPLICAS_MAX)]


class BeginSession(msgspec.Struct, frozen=True, array_like=True):
    """Open a session, or open it again under a higher epoch; a new one lives in `home`."""

    name: _SessionName
    home: LaneId


class RelocateSession(msgspec.Struct, frozen=True, array_like=True):
    """Give a session another home, because the one that it has is closed; `carried` is what it has done there."""

    producer_id: Counted
    epoch: Counted
    source: LaneId
    target: LaneId
    carried: _Carried = b""


class EndSession(msgspec.Struct, frozen=True, array_like=True):
    """Forget a session, unless it was opened again meanwhile."""

    producer_id: Counted
    epoch: Counted


class TrimBefore(msgspec.Struct, frozen=True, array_like=True):
    """Nothing before this position is read any more."""

    position: Counted


class BeginPart(msgspec.Struct, frozen=True, array_like=True):
    """Make a part at the replica that writes `home`."""

    home: LaneId
    token: Token
    ttl_us: _Ttl


class PublishParts(msgspec.Struct, frozen=True, array_like=True):
    """Give all parts consecutive positions, in this order, or none of them any; once for each key of a writer."""

    writer: _WriterName
    key: Annotated[int, Meta(ge=0, le=PUBLISH_KEY_MAX)]
    owner: _WriterName
    parts: _Parts
    consumed: Annotated[tuple[CommitPosition, ...], Meta(max_length=CONSUMER_COMMANDS_MAX)] = ()


class DropParts(msgspec.Struct, frozen=True, array_like=True):
    """These parts are never to be published."""

    parts: _Parts


class KeepParts(msgspec.Struct, frozen=True, array_like=True):
    """Whoever writes these parts, or is to publish them, lives: let them wait so long from now on."""

    parts: _Parts
    ttl_us: _Ttl


class EndWriter(msgspec.Struct, frozen=True, array_like=True):
    """The writer does not come back; unless it has published a later key meanwhile."""

    writer: _WriterName
    key: Annotated[int, Meta(ge=0, le=PUBLISH_KEY_MAX)]


class AddShard(msgspec.Struct, frozen=True, array_like=True):
    """A new shard with all its replicas, sorted by number."""

    shard: ShardNumber
    f: Annotated[int, Meta(ge=0, lt=SHARD_REPLICAS_MAX)]
    masking: bool
    replicas: _Replicas


class FinalizeShard(msgspec.Struct, frozen=True, array_like=True):
    """The shard takes nothing more after `cuts` further cuts, and not before the order's time is `until_us`."""

    shard: ShardNumber
    cuts: _Natural = 0
    until_us: _Natural = 0
    may_be_last: bool = False


class DismissReplica(msgspec.Struct, frozen=True, array_like=True):
    """The replica belongs to the shard no more. `epoch` is the configuration that this one succeeds."""

    shard: ShardNumber
    epoch: Counted
    replica: ReplicaNumber


Request = (
    BeginSession
    | RelocateSession
    | EndSession
    | TrimBefore
    | BeginPart
    | PublishParts
    | DropParts
    | KeepParts
    | EndWriter
    | AddShard
    | FinalizeShard
    | DismissReplica
)
REQUESTS: tuple[type[msgspec.Struct], ...] = Request.__args__


def entry_of(request: Request) -> OrderingEntry:
    """The entry that the leader proposes for a request; `InvalidInput` says what is wrong with it."""
    match request:
        case BeginSession(name, home):
            return OpenSession(name, home)
        case RelocateSession(producer_id, epoch, source, target, carried):
            return MoveSession(producer_id, epoch, source, target, carried=carried)
        case EndSession(producer_id, epoch):
            return ExpireSession(producer_id, epoch)
        case TrimBefore(position):
            return TrimTo(position)
        case BeginPart(home, token, ttl_us):
            return OpenPart(home, token, ttl_us)
        case PublishParts(writer, key, owner, parts, consumed):
            return Publish(writer, key, owner, parts, consumed=consumed)
        case DropParts(parts):
            return AbortParts(parts)
        case KeepParts(parts, ttl_us):
            return RenewParts(parts, ttl_us)
        case EndWriter(writer, key):
            return ForgetWriter(writer, key)
        case AddShard(shard, f, masking, replicas):
            return RegisterShard(shard, f, masking, replicas)
        case FinalizeShard(shard, cuts, until_us, may_be_last):
            return Finalize(shard, cuts, until_us, may_be_last)
        case DismissReplica(shard, epoch, replica):
            return RemoveReplica(shard, epoch, replica)


def request_of(entry: OrderingEntry) -> Request:
    """How a client asks for an entry; `InvalidInput` for one that is the leader's own."""
    match entry:
        case OpenSession(name, home):
            return BeginSession(name, home)
        case MoveSession(producer_id, epoch, source, target):
            return RelocateSession(producer_id, epoch, source, target, entry.carried)
        case ExpireSession(producer_id, epoch):
            return EndSession(producer_id, epoch)
        case TrimTo(position):
            return TrimBefore(position)
        case OpenPart(home, token, ttl_us):
            return BeginPart(home, token, ttl_us)
        case Publish(writer, key, owner, parts):
            return PublishParts(writer, key, owner, parts, entry.consumed)
        case AbortParts(parts):
            return DropParts(parts)
        case RenewParts(parts, ttl_us):
            return KeepParts(parts, ttl_us)
        case ForgetWriter(writer, key):
            return EndWriter(writer, key)
        case RegisterShard(shard, f, masking, replicas):
            return AddShard(shard, f, masking, replicas)
        case Finalize(shard, cuts, until_us, may_be_last):
            return FinalizeShard(shard, cuts, until_us, may_be_last)
        case RemoveReplica(shard, epoch, replica):
            return DismissReplica(shard, epoch, replica)
        case _:
            raise InvalidInput(f"clients may not propose {type(entry).__name__}: only the leader can know of it")
