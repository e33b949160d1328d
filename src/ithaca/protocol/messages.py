"""Every message of a cluster, with the number of its frame type.

| type | message       | from → to             | answered by                 | payload            |
|------|---------------|-----------------------|-----------------------------|--------------------|
| 1    | Hello         | dialler → server      | Welcome                     |                    |
| 2    | Welcome       | back                  |                             |                    |
| 3    | Failure       | any answer            |                             |                    |
| 4    | Redirect      | orderer → anyone      |                             |                    |
| 5    | Finished      | end of a stream       |                             |                    |
| 6    | GetStatus     | anyone → server       | StatusIs                    |                    |
| 7    | StatusIs      | back                  |                             |                    |
| 10   | GetView       | anyone → orderer      | ViewIs                      |                    |
| 11   | ViewIs        | back                  |                             |                    |
| 12   | GetTail       | client → leader       | TailIs                      |                    |
| 13   | TailIs        | back                  |                             |                    |
| 14   | Propose       | client → leader       | Applied                     |                    |
| 15   | Applied       | back                  |                             |                    |
| 16   | GetSession    | client → leader       | SessionIs                   |                    |
| 17   | SessionIs     | back                  |                             |                    |
| 20   | Join          | replica → leader      | Assigned, or Joined and a stream of News |       |
| 21   | Joined        | back                  |                             |                    |
| 22   | News          | leader → replica      |                             |                    |
| 23   | ReportIs      | replica → leader      |                             |                    |
| 24   | BootIsKnown   | back                  |                             |                    |
| 30   | Append        | client → replica      | Acks, or a Failure          | one batch          |
| 31   | Acks          | replica → client      |                             |                    |
| 32   | GetNextSeq    | client → home replica | NextSeqIs                   |                    |
| 33   | NextSeqIs     | back                  |                             |                    |
| 34   | GetPlaced     | client → replica      | PlacedAre                   |                    |
| 35   | PlacedAre     | back                  |                             |                    |
| 36   | AppendPart    | client → replica      | PartSynced                  | one batch          |
| 37   | PartSynced    | back                  |                             |                    |
| 38   | FinishPart    | client → leader       | Applied                     |                    |
| 90   | GetPart       | client → leader       | PartIs                      |                    |
| 91   | PartIs        | back                  |                             |                    |
| 40   | Read          | client → replica      | Found, Elsewhere or Behind  |                    |
| 41   | Found         | back                  |                             | one batch          |
| 42   | Elsewhere     | back                  |                             |                    |
| 43   | Behind        | back                  |                             |                    |
| 44   | Subscribe     | client → replica      | a stream of Deliver, Finished |                  |
| 45   | Deliver       | replica → client      |                             | batches            |
| 46   | SeekTime      | client → replica      | TimeIs                      |                    |
| 47   | TimeIs        | back                  |                             |                    |
| 48   | GetPlaces     | client → replica      | PlacesAre                   |                    |
| 49   | PlacesAre     | back                  |                             |                    |
| 50   | FollowLane    | replica → replica     | a stream of LaneBatches, Finished |              |
| 51   | LaneBatches   | back                  |                             | batches            |
| 52   | GetRuns       | replica → replica     | RunsAre                     |                    |
| 53   | RunsAre       | back                  |                             |                    |
| 54   | Enlist        | spare → leader        | Enlisted, when it is needed |                    |
| 55   | Enlisted      | back                  |                             |                    |
| 56   | Admit         | client → leader       | AdmissionIs                 |                    |
| 57   | AdmissionIs   | back                  |                             |                    |
| 58   | SignOfLife    | replica → leader      |                             |                    |
| 60   | AddOrderer    | client → leader       | MembersAre                  |                    |
| 61   | RemoveOrderer | client → leader       | MembersAre                  |                    |
| 62   | GetMembers    | client → leader       | MembersAre                  |                    |
| 63   | MembersAre    | back                  |                             |                    |
| 64   | OrderersAre   | leader → replica      |                             |                    |
| 70   | RaftSays      | orderer → orderer     |                             |                    |
| 80   | ReportsAre    | aggregator → leader   |                             |                    |
| 81   | OrderNews     | leader → aggregator   |                             |                    |
| 82   | Left          | aggregator ↔ leader   |                             |                    |
| 83   | Attach        | aggregator → leader   | Attached or Assigned        |                    |
| 84   | Attached      | back                  |                             |                    |
| 85   | Detach        | aggregator → leader   |                             |                    |
| 86   | Assigned      | leader → replica      |                             |                    |
| 87   | Probe         | replica → leader      | Alive                       |                    |
| 88   | Alive         | back                  |                             |                    |
| 89   | SignsOfLife   | aggregator → leader   |                             |                    |

Where the leader is named, an aggregator may stand (`protocol.aggregation`); places are in `protocol.places`. An answer
carries its request's correlation number. `Acks` is not an answer but names several requests.
Streams (subscriptions, lanes, news) have a connection of their own, so that TCP is their backpressure.
"""

from typing import Annotated, Literal
from uuid import UUID

import msgspec
from msgspec import Meta

from ithaca.model.cut import ShardCut
from ithaca.model.limits import (
    HELLO_FEATURES_MAX,
    HELLO_TEXT_BYTES_MAX,
    ORDERER_NUMBER_MAX,
    READ_WAIT_MS_MAX,
)
from ithaca.model.parts import Token
from ithaca.model.positions import LaneId
from ithaca.model.records import Durability
from ithaca.model.view import Address, ClusterConfiguration, Orderers, View
from ithaca.ordering.outcomes import (
    Configured,
    LaneClosed,
    LaneOpened,
    RangeLost,
    Refused,
    Session,
    SessionExpired,
    SessionMoved,
    SessionOpened,
    ShardFinalized,
    TrimmedTo,
    ViewChanged,
)
from ithaca.ordering.part_outcomes import PartOutcome, StagedPart
from ithaca.ordering.reports import Report
from ithaca.ordering.state import ShardSummary
from ithaca.protocol.aggregation import (
    Alive,
    Assigned,
    Attach,
    Attached,
    Change,
    Detach,
    Left,
    OrderNews,
    Probe,
    ReportsAre,
    SignsOfLife,
    Suspects,
)
from ithaca.protocol.places import GetPlaces, PlacesAre
from ithaca.raft.messages import AnyMessage

VERSION_MIN = 1
VERSION_MAX = 1
FEATURES: tuple[str, ...] = ("lz4", "zstd")
"""What this version can do beyond the protocol's version; peers use only what both name."""

Role = Literal["client", "replica", "orderer", "aggregator"]
ShardNews = ShardCut | Change
"""What a replica is told of its shard, in the order in which it was agreed."""
AppliedOutcome = (
    Configured
    | ViewChanged
    | LaneOpened
    | LaneClosed
    | ShardFinalized
    | PartOutcome
    | SessionOpened
    | SessionMoved
    | SessionExpired
    | TrimmedTo
    | RangeLost
    | Refused
)
"""What whoever proposed an entry is told of it."""

_Natural = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
_Counted = Annotated[int, Meta(ge=1, le=(1 << 63) - 1)]
_Text = Annotated[str, Meta(max_length=HELLO_TEXT_BYTES_MAX)]


class Hello(msgspec.Struct, frozen=True, array_like=True):
    """The first message of a connection. `log` None accepts any log; `credentials` is not looked at yet."""

    version_min: _Natural
    version_max: _Natural
    role: Role
    name: _Text = ""
    features: Annotated[tuple[_Text, ...], Meta(max_length=HELLO_FEATURES_MAX)] = ()
    log: UUID | None = None
    credentials: Annotated[bytes, Meta(max_length=1024)] = b""


class Welcome(msgspec.Struct, frozen=True, array_like=True):
    """The connection is on, with this version. `log` is None while the cluster is not configured yet."""

    version: _Natural
    role: Role
    name: _Text = ""
    features: tuple[_Text, ...] = ()
    log: UUID | None = None
    durability: Durability = "fsync"
    """What this server's acknowledgements mean."""


class Failure(msgspec.Struct, frozen=True, array_like=True):
    """An error of `model.errors`, by name. With correlation 0 it concerns the connection, which then ends."""

    name: str
    message: str
    detail: dict[str, int | str] = {}
    outcome_unknown: bool = False


class Redirect(msgspec.Struct, frozen=True, array_like=True):
    """Only the leader can answer this; `leader` is where it is, None while there is none."""

    leader: Address | None
    orderers: Orderers = Orderers()


class Finished(msgspec.Struct, frozen=True, array_like=True):
    """The stream has come to the end that was asked for."""


class GetStatus(msgspec.Struct, frozen=True, array_like=True):
    pass


class StatusIs(msgspec.Struct, frozen=True, array_like=True):
    """The server's state as a JSON object (`server.status`)."""

    json: bytes


class GetView(msgspec.Struct, frozen=True, array_like=True):
    """As far as this orderer has applied; with `at_least`, once it has applied that version of the view."""

    at_least: _Natural = 0


class ViewIs(msgspec.Struct, frozen=True, array_like=True):
    view: View
    configuration: ClusterConfiguration
    orderers: tuple[Address, ...]
    leader: Address | None
    entry: _Natural = 0
    """Of `model.view.Orderers`."""


class GetTail(msgspec.Struct, frozen=True, array_like=True):
    """Linearizable: through the leader's read index."""


class TailIs(msgspec.Struct, frozen=True, array_like=True):
    """Where the order stands; `time_us` is what its time would be with a cut that is proposed now."""

    tail: _Counted
    first: _Counted
    time_us: _Natural
    view: _Natural


class Propose(msgspec.Struct, frozen=True, array_like=True):
    """An ordered entry (`ordering.entries.encode_entry`) of a kind that clients may propose."""

    entry: bytes


class Applied(msgspec.Struct, frozen=True, array_like=True):
    outcomes: tuple[AppliedOutcome, ...]


class GetSession(msgspec.Struct, frozen=True, array_like=True):
    """Linearizable: where the session lives now."""

    producer_id: _Counted


class SessionIs(msgspec.Struct, frozen=True, array_like=True):
    """None for a session that has expired."""

    session: Session | None


class Join(msgspec.Struct, frozen=True, array_like=True):
    """A replica has started for the `boot`-th time, or found a new leader: it gets a lane and the news.

    With its `address` it may be a learner: one that is not of the shard yet gets the news and no lane.
    """

    shard: _Natural
    replica: _Natural
    boot: _Counted
    suspects: Suspects = ()
    via: _Natural = 0
    """The number of the aggregator that it came to; 0 when it came to the leader itself."""
    address: Address | None = None


class Joined(msgspec.Struct, frozen=True, array_like=True):
    """Where the shard stands, the replica's new lane included, and the kept cuts that have runs of it.

    `lane` is None when the shard is finalized, and the replica only serves reads; and for a learner.
    """

    log: UUID
    lane: LaneId | None
    summary: ShardSummary
    cuts: tuple[ShardCut, ...]
    orderers: Orderers = Orderers()


class BootIsKnown(msgspec.Struct, frozen=True, array_like=True):
    """The replica cannot join: a later start of it is known, and this is its boot."""

    boot: int


class News(msgspec.Struct, frozen=True, array_like=True):
    items: tuple[ShardNews, ...]


class ReportIs(msgspec.Struct, frozen=True, array_like=True):
    report: Report


class Append(msgspec.Struct, frozen=True, array_like=True):
    """Append the batch in the payload to this lane, which the receiver must be the primary of.

    The batch's `producer_id` is a session whose home is this lane.
    """

    lane: LaneId


class Acks(msgspec.Struct, frozen=True, array_like=True):
    """These requests' batches are durable and ordered: (correlation, position of the first record).

    `leaving` is 0, or the version of a view in which the shard takes nothing new: clients look for another.
    """

    items: tuple[tuple[_Natural, _Counted], ...]
    leaving: _Natural = 0


class GetNextSeq(msgspec.Struct, frozen=True, array_like=True):
    """The number that continues a session, asked of its home."""

    lane: LaneId
    producer_id: _Counted
    epoch: _Counted


class NextSeqIs(msgspec.Struct, frozen=True, array_like=True):
    next_seq: _Counted


class GetPlaced(msgspec.Struct, frozen=True, array_like=True):
    """What a closed lane holds of a session, asked of any replica that has the lane up to its length."""

    lane: LaneId
    producer_id: _Counted


class PlacedAre(msgspec.Struct, frozen=True, array_like=True):
    """The session's last batches there: (first number, records, position or 0); empty when it has none."""

    placed: tuple[tuple[_Counted, _Counted, _Natural], ...]


class AppendPart(msgspec.Struct, frozen=True, array_like=True):
    """Write the batch in the payload to this part, which the receiver writes, from record `lsn` of it on.

    One that is there already is answered like the first time.
    """

    lane: LaneId
    token: Token
    lsn: _Natural


class PartSynced(msgspec.Struct, frozen=True, array_like=True):
    """The part is on the disk of the replica that writes it, up to this length."""

    length: _Natural


class FinishPart(msgspec.Struct, frozen=True, array_like=True):
    """Seal the part at this length, as soon as it is durable."""

    lane: LaneId
    token: Token
    length: _Natural


class GetPart(msgspec.Struct, frozen=True, array_like=True):
    """Linearizable: whether the part is neither published nor gone."""

    lane: LaneId
    token: Token


class PartIs(msgspec.Struct, frozen=True, array_like=True):
    """None for one that is published or gone."""

    part: StagedPart | None


class Read(msgspec.Struct, frozen=True, array_like=True):
    """One record. The replica waits up to `wait_ms` for its order to reach the position."""

    position: _Counted
    wait_ms: Annotated[int, Meta(ge=0, le=READ_WAIT_MS_MAX)] = 0


class Found(msgspec.Struct, frozen=True, array_like=True):
    """The batch in the payload is of this lane, and its first record is at `position`."""

    lane: LaneId
    position: _Counted


class Elsewhere(msgspec.Struct, frozen=True, array_like=True):
    """The position is ordered, and not in this shard."""


class Behind(msgspec.Struct, frozen=True, array_like=True):
    """This replica's order ends at `tail`, before the position."""

    tail: _Counted


class Filter(msgspec.Struct, frozen=True, array_like=True):
    """A `KeyFilter`; of hashes, those from `low` to `last`, both included, since 2**64 does not fit."""

    kind: Literal["equals", "prefix", "hash"]
    key: bytes = b""
    low: Annotated[int, Meta(ge=0)] = 0
    last: Annotated[int, Meta(ge=-1)] = -1


class Subscribe(msgspec.Struct, frozen=True, array_like=True):
    """This shard's records of `[start, stop)`, for ever without a stop."""

    start: _Counted
    stop: _Counted | None = None
    where: Filter | None = None


class Delivered(msgspec.Struct, frozen=True, array_like=True):
    """One batch of the payload.

    Without `rows` it is the batch as stored: its first record is at `position`, and the records `[low, high)`
    are meant. With `rows` it was made of the matching records alone: these are their positions less
    `position`, as packed little-endian u32.
    """

    lane: LaneId
    position: _Counted
    low: _Natural
    high: _Natural
    rows: bytes | None = None


class Deliver(msgspec.Struct, frozen=True, array_like=True):
    """The batches in the payload, one after the other; then this shard has nothing more below `up_to`.

    `view` is the version of the view that holds at `up_to`: records below it may be in any shard of that view.
    """

    items: tuple[Delivered, ...]
    up_to: _Counted
    view: _Natural


class SeekTime(msgspec.Struct, frozen=True, array_like=True):
    """The first position of this shard that was ordered at this time or later, below `tail`."""

    time_us: int
    tail: _Counted


class TimeIs(msgspec.Struct, frozen=True, array_like=True):
    """None when there is none below the tail that was asked about."""

    position: _Counted | None


class FollowLane(msgspec.Struct, frozen=True, array_like=True):
    """The lane's batches from `start` on: up to `stop`, or without it as they are accepted, for ever."""

    lane: LaneId
    start: _Natural
    stop: _Natural | None = None


class LaneBatches(msgspec.Struct, frozen=True, array_like=True):
    """Consecutive batches of the lane, whole; the first may start before what was asked for."""

    lane: LaneId


class GetRuns(msgspec.Struct, frozen=True, array_like=True):
    lane: LaneId
    start: _Natural
    stop: _Natural


class RunsAre(msgspec.Struct, frozen=True, array_like=True):
    """(LSN, position, count, time) each; they may end early. If the first is behind what was asked for, then all that
    is before it was trimmed."""

    runs: tuple[tuple[_Natural, _Counted, _Counted, _Natural], ...]


class Enlist(msgspec.Struct, frozen=True, array_like=True):
    """A storage server at this address is nobody yet, and waits to be told who it shall be."""

    address: Address


class Enlisted(msgspec.Struct, frozen=True, array_like=True):
    """The spare is this replica from now on: one that the view has, or a learner."""

    shard: _Natural
    replica: _Natural


class Admit(msgspec.Struct, frozen=True, array_like=True):
    """The server at this address shall become a replica of the shard. Asked again and again until it has."""

    shard: _Natural
    address: Address


class AdmissionIs(msgspec.Struct, frozen=True, array_like=True):
    """How far that is: nobody has enlisted there; it copies (`whole`: what there was); it is a replica."""

    state: Literal["absent", "learning", "whole", "added"]
    replica: _Natural = 0


class SignOfLife(msgspec.Struct, frozen=True, array_like=True):
    """A sign of life of all replicas that have joined over this connection.

    `whole` says that they lack nothing of their shard, but for what is on its way: others may be spared.
    """

    whole: bool = False


class AddOrderer(msgspec.Struct, frozen=True, array_like=True):
    """Let the orderer that waits there into the group; the same again is the same orderer."""

    server: Annotated[int, Meta(ge=1, le=ORDERER_NUMBER_MAX)]
    address: Address


class RemoveOrderer(msgspec.Struct, frozen=True, array_like=True):
    """Let it go for good; one that was removed before stays so."""

    server: Annotated[int, Meta(ge=1, le=ORDERER_NUMBER_MAX)]


class GetMembers(msgspec.Struct, frozen=True, array_like=True):
    """Linearizable."""


class Member(msgspec.Struct, frozen=True, array_like=True):
    """One orderer. It votes once it has kept up with the others."""

    server: _Counted
    address: Address
    votes: bool
    leads: bool


class MembersAre(msgspec.Struct, frozen=True, array_like=True):
    """The orderers by number; `last` is the highest number that one ever had."""

    members: tuple[Member, ...]
    last: _Natural


class OrderersAre(msgspec.Struct, frozen=True, array_like=True):
    """The orderers are others now."""

    orderers: Orderers


class RaftSays(msgspec.Struct, frozen=True, array_like=True):
    message: AnyMessage


TYPES: dict[int, type[msgspec.Struct]] = {
    1: Hello,
    2: Welcome,
    3: Failure,
    4: Redirect,
    5: Finished,
    6: GetStatus,
    7: StatusIs,
    10: GetView,
    11: ViewIs,
    12: GetTail,
    13: TailIs,
    14: Propose,
    15: Applied,
    16: GetSession,
    17: SessionIs,
    20: Join,
    21: Joined,
    22: News,
    23: ReportIs,
    24: BootIsKnown,
    30: Append,
    31: Acks,
    32: GetNextSeq,
    33: NextSeqIs,
    34: GetPlaced,
    35: PlacedAre,
    36: AppendPart,
    37: PartSynced,
    38: FinishPart,
    90: GetPart,
    91: PartIs,
    40: Read,
    41: Found,
    42: Elsewhere,
    43: Behind,
    44: Subscribe,
    45: Deliver,
    46: SeekTime,
    47: TimeIs,
    48: GetPlaces,
    49: PlacesAre,
    50: FollowLane,
    51: LaneBatches,
    52: GetRuns,
    53: RunsAre,
    54: Enlist,
    55: Enlisted,
    56: Admit,
    57: AdmissionIs,
    58: SignOfLife,
    60: AddOrderer,
    61: RemoveOrderer,
    62: GetMembers,
    63: MembersAre,
    64: OrderersAre,
    70: RaftSays,
    80: ReportsAre,
    81: OrderNews,
    82: Left,
    83: Attach,
    84: Attached,
    85: Detach,
    86: Assigned,
    87: Probe,
    88: Alive,
    89: SignsOfLife,
}
"""Numbers are never given to another message."""
