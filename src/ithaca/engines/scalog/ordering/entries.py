"""What the ordering layer agrees on: its ordered entries, each the payload of one Raft entry.

Every entry is a msgpack array: its tag, then its fields in the order below.

| tag              | fields                                                                     | paper, design |
|------------------|----------------------------------------------------------------------------|---------------|
| `configure`      | log, engine, order interval, pipeline, in one array                        | §1            |
| `register-shard` | shard, f, masking, replicas: [number, address]                             | Scalog §4.4.1 |
| `open-lane`      | shard, replica, boot                                                       | §2            |
| `close-lane`     | lane                                                                       | §2            |
| `cut`            | keys and lengths: 8 bytes per lane, little-endian (`model.cut`), time, view, forget | Scalog §4.1 |
| `finalize`       | shard, cuts, until, may be last                                            | Scalog §4.4.1 |
| `remove-replica` | shard, epoch, replica                                                      | Scalog §4.4.2 |
| `add-replica`    | shard, epoch, replica, address                                             | Scalog §4.4.2 |
| `trim`           | position                                                                   | Scalog §4.3   |
| `open-session`   | name, lane, time                                                           | §5            |
| `move-session`   | producer id, epoch, source, target, nil, carried, time                     | §5            |
| `expire-session` | producer id, epoch                                                         | §5            |
| `note-sessions`  | seen: [producer id, number], time                                          | §5            |
| `expire-idle`    | sessions: [producer id, epoch], since, time                                | §5            |
| `lost`           | lane, start, stop, placed                                                  | §5            |

Those of prepared appends are in `prepared.entries`, those of named consumers and of users in `consumers.table` and
`users.table`. A lane is an array of shard, replica and incarnation; an address
one of host and port.
"""

from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from ithaca.consumers.table import ConsumerChanges
from ithaca.engines.scalog.ordering.prepared.entries import (
    AbortParts,
    ExpireParts,
    ForgetWriter,
    ForgetWriters,
    OpenPart,
    Publish,
    RenewParts,
    SealPart,
)
from ithaca.model.cut import LaneLengths, lane_key, pack, unpack
from ithaca.model.decoding import UNDECODABLE
from ithaca.model.errors import InvalidInput, ProtocolError, VersionMismatch
from ithaca.model.limits import (
    LANE_RECORDS_MAX,
    ORDERING_FORGET_CUTS_MAX,
    ORDERING_INTERVAL_US_MAX,
    ORDERING_PIPELINE_CUTS_MAX,
    REPLICA_NUMBER_MAX,
    SESSION_CARRIED_BYTES_MAX,
    SESSION_NAME_BYTES_MAX,
    SESSIONS_TOGETHER_MAX,
    SHARD_NUMBER_MAX,
    SHARD_REPLICAS_MAX,
)
from ithaca.model.positions import LaneId
from ithaca.model.quorum import shard_size
from ithaca.model.view import Address, ClusterConfiguration
from ithaca.users.table import UserChanges

T = TypeVar("T")

_Natural = Annotated[int, Meta(ge=0, lt=1 << 62)]
_Counted = Annotated[int, Meta(ge=1, le=(1 << 63) - 1)]
_Shard = Annotated[int, Meta(ge=0, le=SHARD_NUMBER_MAX)]
_Replica = Annotated[int, Meta(ge=0, le=REPLICA_NUMBER_MAX)]
_Version = Annotated[int, Meta(ge=0, lt=1 << 62)]
_Time = Annotated[int, Meta(ge=0, lt=1 << 62)]
_Length = Annotated[int, Meta(ge=0, le=LANE_RECORDS_MAX)]


class Configure(msgspec.Struct, frozen=True, array_like=True, tag="configure"):
    """The first entry of every log says what it is; later ones may change what is not fixed."""

    configuration: ClusterConfiguration

    def __post_init__(self) -> None:
        interval_us, pipeline = self.configuration.order_interval_us, self.configuration.pipeline_cuts
        if not 0 <= interval_us <= ORDERING_INTERVAL_US_MAX:
            raise InvalidInput(f"order_interval of {interval_us} µs is outside 0..{ORDERING_INTERVAL_US_MAX}")
        if not 1 <= pipeline <= ORDERING_PIPELINE_CUTS_MAX:
            raise InvalidInput(f"a pipeline of {pipeline} cuts is outside 1..{ORDERING_PIPELINE_CUTS_MAX}")


class RegisterShard(msgspec.Struct, frozen=True, array_like=True, tag="register-shard"):
    """A new shard with all its replicas, sorted by number."""

    shard: _Shard
    f: _Natural
    masking: bool
    replicas: tuple[tuple[_Replica, Address], ...]

    def __post_init__(self) -> None:
        numbers = [number for number, _ in self.replicas]
        size = shard_size(self.f, self.masking)
        if len(numbers) != size or size > SHARD_REPLICAS_MAX:
            raise InvalidInput(
                f"shard {self.shard} is registered with {len(numbers)} replica(s), and f={self.f} "
                f"{'with' if self.masking else 'without'} masking needs {size}, at most {SHARD_REPLICAS_MAX}"
            )
        if numbers != sorted(set(numbers)):
            raise InvalidInput(f"the replicas of shard {self.shard} are not in order, each once: {numbers}")
        if len({address for _, address in self.replicas}) < len(numbers):
            raise InvalidInput(f"two replicas of shard {self.shard} have one address: give each its own")


class OpenLane(msgspec.Struct, frozen=True, array_like=True, tag="open-lane"):
    """A replica has started: its last lane is closed, and a new incarnation assigned.

    The same boot again, as a retry, gets the same incarnation.
    """

    shard: _Shard
    replica: _Replica
    boot: _Counted


class CloseLane(msgspec.Struct, frozen=True, array_like=True, tag="close-lane"):
    """Nothing more of this lane is ordered. It carries no length: that is what earlier entries ordered."""

    lane: LaneId

    def __post_init__(self) -> None:
        lane_key(self.lane)


class Cut(msgspec.Struct, frozen=True, array_like=True, tag="cut"):
    """The lanes that moved, with their absolute durable lengths; make one with `cut`.

    `time_us` is the leader's clock. `view` is the version of the view that the leader went by: lanes of a
    shard whose configuration changed after it are passed over. `forget` names kept cuts whose runs are safe.
    """

    keys: bytes = b""
    lengths: bytes = b""
    time_us: _Time = 0
    view: _Version = 0
    forget: Annotated[tuple[int, ...], Meta(max_length=ORDERING_FORGET_CUTS_MAX)] = ()

    def __post_init__(self) -> None:
        self.moved.check()

    @property
    def moved(self) -> LaneLengths:
        return LaneLengths(unpack(self.keys), unpack(self.lengths))


class Finalize(msgspec.Struct, frozen=True, array_like=True, tag="finalize"):
    """The shard orders nothing more after `cuts` further cuts and not before the order's time is `until_us`;
    with neither, at once. It carries no length: that is what earlier entries ordered.

    Unless it `may_be_last` it is refused where no other shard is live, since nothing could be appended any more.
    """

    shard: _Shard
    cuts: _Natural = 0
    until_us: _Time = 0
    may_be_last: bool = True


class RemoveReplica(msgspec.Struct, frozen=True, array_like=True, tag="remove-replica"):
    """The first half of replacing a replica. `epoch` is the configuration that this one succeeds."""

    shard: _Shard
    epoch: _Counted
    replica: _Replica


class AddReplica(msgspec.Struct, frozen=True, array_like=True, tag="add-replica"):
    """The second half, proposed when the learner has caught up under `epoch` (`Leader.has_caught_up`)."""

    shard: _Shard
    epoch: _Counted
    replica: _Replica
    address: Address


class TrimTo(msgspec.Struct, frozen=True, array_like=True, tag="trim"):
    """Nothing before this position is read any more."""

    position: _Counted


class OpenSession(msgspec.Struct, frozen=True, array_like=True, tag="open-session"):
    """Raise the session's epoch, or make it, with its home in `lane`."""

    name: str
    lane: LaneId
    time_us: _Time = 0

    def __post_init__(self) -> None:
        lane_key(self.lane)
        if not 0 < len(self.name.encode()) <= SESSION_NAME_BYTES_MAX:
            raise InvalidInput(f"session name {self.name!r} is not 1..{SESSION_NAME_BYTES_MAX} bytes long")


class MoveSession(msgspec.Struct, frozen=True, array_like=True, tag="move-session"):
    """Give the session another home, because the one that it has is closed. `carried` is what the source knew of the
    session at the end, for the target alone to understand.
    """

    producer_id: _Counted
    epoch: _Counted
    source: LaneId
    target: LaneId
    unused: _Length | None = None
    """Older versions had a field here that nobody used; entries of theirs are still read."""
    carried: Annotated[bytes, Meta(max_length=SESSION_CARRIED_BYTES_MAX)] = b""
    time_us: _Time = 0

    def __post_init__(self) -> None:
        lane_key(self.source)
        lane_key(self.target)


class ExpireSession(msgspec.Struct, frozen=True, array_like=True, tag="expire-session"):
    """Forget the session, unless it was opened again under a higher epoch meanwhile."""

    producer_id: _Counted
    epoch: _Counted


class NoteSessions(msgspec.Struct, frozen=True, array_like=True, tag="note-sessions"):
    """Their homes go on with these numbers: a session whose number is another than before was active until now."""

    seen: Annotated[tuple[tuple[_Counted, _Natural], ...], Meta(max_length=SESSIONS_TOGETHER_MAX)]
    time_us: _Time


class ExpireIdle(msgspec.Struct, frozen=True, array_like=True, tag="expire-idle"):
    """Forget those of the sessions that were not active after `since_us`, and not opened again meanwhile."""

    sessions: Annotated[tuple[tuple[_Counted, _Counted], ...], Meta(max_length=SESSIONS_TOGETHER_MAX)]
    """Producer id and epoch of each."""
    since_us: _Time
    time_us: _Time


class DeclareLost(msgspec.Struct, frozen=True, array_like=True, tag="lost"):
    """The lane's ordered records of LSNs `[start, stop)` are on no replica any more. From `placed` on nobody knows
    their positions either; without it somebody knows all of them."""

    lane: LaneId
    start: _Length
    stop: _Length
    placed: _Length | None = None

    def __post_init__(self) -> None:
        lane_key(self.lane)
        if self.start >= self.stop:
            raise InvalidInput(f"the lost range [{self.start}, {self.stop}) of lane {self.lane} is empty")
        if self.placed is not None and not self.start <= self.placed < self.stop:
            raise InvalidInput(
                f"positions of lane {self.lane} are unknown from {self.placed} on, which is not in the lost range "
                f"[{self.start}, {self.stop})"
            )


OrderingEntry = (
    Configure
    | RegisterShard
    | OpenLane
    | CloseLane
    | Cut
    | Finalize
    | RemoveReplica
    | AddReplica
    | TrimTo
    | OpenPart
    | RenewParts
    | SealPart
    | Publish
    | AbortParts
    | ExpireParts
    | ForgetWriter
    | ForgetWriters
    | OpenSession
    | MoveSession
    | ExpireSession
    | NoteSessions
    | ExpireIdle
    | DeclareLost
    | ConsumerChanges
    | UserChanges
)

TAGS = frozenset(str(kind.__struct_config__.tag) for kind in OrderingEntry.__args__)

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[OrderingEntry] = msgspec.msgpack.Decoder(OrderingEntry)


def cut(moved: LaneLengths, *, time_us: int, view: int, forget: tuple[int, ...] = ()) -> Cut:
    """The entry that orders the lanes up to these lengths."""
    return Cut(pack(moved.keys), pack(moved.lengths), time_us, view, forget)


def timed(entry: OrderingEntry, time_us: int) -> OrderingEntry:
    """An entry of a client, with the order's time where it needs one."""
    if isinstance(entry, OpenPart | RenewParts | Publish | OpenSession | MoveSession):
        return msgspec.structs.replace(entry, time_us=time_us)
    return entry


def goes_by_time(entry: OrderingEntry) -> bool:
    """Whether an entry of a client names a time without saying which it is now: then that is ordered before it.

    The time that the client was told may not be ordered with anything yet. If all orderers started again with clocks
    that were set back, nobody would know of it, and a grace would last as much longer.
    """
    return isinstance(entry, Finalize) and entry.until_us > 0


def encode_entry(entry: OrderingEntry) -> bytes:
    """The payload of an entry, which can be decoded: one that cannot would stop every orderer for ever."""
    data = _encoder.encode(entry)
    if not isinstance(entry, Cut):  # cuts are many, and all there is to them is checked when they are made
        decode_entry(data)
    return data


def decode_entry(data: bytes) -> OrderingEntry:
    """The entry of a Raft payload; `VersionMismatch` names an unknown tag, `ProtocolError` what is malformed."""
    return decode_tagged(data, _decoder, TAGS)


def decode_tagged(data: bytes, decoder: msgspec.msgpack.Decoder[T], tags: frozenset[str]) -> T:
    """The same for any union of entries that have these tags."""
    try:
        return decoder.decode(data)
    except UNDECODABLE as error:
        tag = _tag_of(data)
        if tag is not None and tag not in tags:
            raise VersionMismatch(
                f"an ordered entry of kind {tag!r} is not known to this version: update this server before it "
                "goes on, since entries cannot be skipped"
            ) from error
        raise ProtocolError(f"an ordered entry of kind {tag!r} cannot be decoded: {error}") from error


def _tag_of(data: bytes) -> str | None:
    try:
        fields = msgspec.msgpack.decode(data)
    except UNDECODABLE:
        return None
    return fields[0] if isinstance(fields, list) and fields and isinstance(fields[0], str) else None
