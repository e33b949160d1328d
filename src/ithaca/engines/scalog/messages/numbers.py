"""Every message of the engine, with the number of its frame type; `protocol.messages` has those of all engines.

| type | message       | from → to             | answered by                 | payload            |
|------|---------------|-----------------------|-----------------------------|--------------------|
| 10   | GetView       | anyone → orderer      | ViewIs                      |                    |
| 11   | ViewIs        | back                  |                             |                    |
| 12   | GetTail       | client → leader       | TailReply                      |                    |
| 13   | TailReply        | back                  |                             |                    |
| 14   | Propose       | client of version 1 → leader | Applied              |                    |
| 15   | Applied       | back                  |                             |                    |
| 16   | GetSession    | client → leader       | SessionIs                   |                    |
| 17   | SessionIs     | back                  |                             |                    |
| 94   | BeginSession  | client → leader       | Applied                     |                    |
| 95   | RelocateSession | client → leader       | Applied                     |                    |
| 96   | EndSession    | client → leader       | Applied                     |                    |
| 97   | TrimBefore    | client → leader       | Applied                     |                    |
| 98   | BeginPart     | client → leader       | Applied                     |                    |
| 99   | PublishParts  | client → leader       | Applied                     |                    |
| 100  | DropParts     | client → leader       | Applied                     |                    |
| 101  | AddShard      | client → leader       | Applied                     |                    |
| 102  | FinalizeShard | client → leader       | Applied                     |                    |
| 103  | DismissReplica | client → leader       | Applied                     |                    |
| 104  | KeepParts     | client → leader       | Applied                     |                    |
| 105  | EndWriter     | client → leader       | Applied                     |                    |
| 110  | DeclareLoss   | client → leader       | Applied                     |                    |
| 111  | GetHeldLength | leader → replica      | HeldLengthIs                |                    |
| 112  | HeldLengthIs  | back                  |                             |                    |
| 20   | Join          | replica → leader      | Assigned, or Joined and a stream of News |       |
| 21   | Joined        | back                  |                             |                    |
| 25   | JoinedLanes   | back, before Joined   |                             |                    |
| 22   | News          | leader → replica      |                             |                    |
| 23   | ReportIs      | replica → leader      |                             |                    |
| 24   | BootIsKnown   | back                  |                             |                    |
| 30   | Append        | client → replica      | Acks, or a Failure          | one batch          |
| 31   | Acks          | replica → client      |                             |                    |
| 32   | GetNextSeq    | client → home replica | NextSeqIs                   |                    |
| 33   | NextSeqIs     | back                  |                             |                    |
| 34   | GetSessionTail     | client → replica      | SessionTailReply                   |                    |
| 35   | SessionTailReply     | back                  |                             |                    |
| 36   | AppendPart    | client → replica      | PartSynced                  | one batch          |
| 37   | PartSynced    | back                  |                             |                    |
| 38   | FinishPart    | client → leader       | Applied                     |                    |
| 90   | GetPart       | client → leader       | PartIs                      |                    |
| 91   | PartIs        | back                  |                             |                    |
| 106  | GetSessions   | client → leader       | SessionsAre                 |                    |
| 107  | SessionsAre   | back                  |                             |                    |
| 108  | GetWriters    | client → leader       | WritersAre                  |                    |
| 109  | WritersAre    | back                  |                             |                    |
| 40   | Read          | client → replica      | Found, Elsewhere or Behind  |                    |
| 41   | Found         | back                  |                             | one batch          |
| 42   | Elsewhere     | back                  |                             |                    |
| 43   | Behind        | back                  |                             |                    |
| 44   | Subscribe     | client → replica      | a stream of Deliver, Finished |                  |
| 45   | Deliver       | replica → client      |                             | batches            |
| 46   | SeekTime      | client, leader → replica | TimeIs                   |                    |
| 47   | TimeIs        | back                  |                             |                    |
| 92   | SeekBytes     | leader → replica      | KeptFrom                    |                    |
| 93   | KeptFrom      | back                  |                             |                    |
| 48   | LocateRecords     | client → replica      | RecordLocations                   |                    |
| 49   | RecordLocations     | back                  |                             |                    |
| 50   | FollowLane    | replica → replica     | a stream of LaneBatches, Finished |              |
| 51   | LaneBatches   | back                  |                             | batches            |
| 52   | GetRuns       | replica → replica     | RunsReply                     |                    |
| 53   | RunsReply       | back                  |                             |                    |
| 54   | Enlist        | spare → leader        | Enlisted, when it is needed |                    |
| 55   | Enlisted      | back                  |                             |                    |
| 56   | Admit         | client → leader       | AdmissionIs                 |                    |
| 57   | AdmissionIs   | back                  |                             |                    |
| 58   | SignOfLife    | replica → leader      |                             |                    |
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

Where the leader is named, an aggregator may stand (`engines.scalog.messages.aggregation`). `Acks` is not an answer but
names several requests. Streams (subscriptions, lanes, news) have a connection of their own, so that TCP is their
backpressure.
"""

import msgspec

from ithaca.engines.scalog.messages.aggregation import (
    Alive,
    Assigned,
    Attach,
    Attached,
    Detach,
    Left,
    OrderNews,
    Probe,
    ReportsAre,
    SignsOfLife,
)
from ithaca.engines.scalog.messages.appending import (
    Acks,
    Append,
    AppendPart,
    FinishPart,
    GetNextSeq,
    GetPart,
    GetSessionTail,
    NextSeqIs,
    PartIs,
    PartSynced,
    SessionTailReply,
)
from ithaca.engines.scalog.messages.copying import FollowLane, GetRuns, LaneBatches, RunsReply
from ithaca.engines.scalog.messages.listing import GetSessions, GetWriters, SessionsAre, WritersAre
from ithaca.engines.scalog.messages.losing import DeclareLoss, GetHeldLength, HeldLengthIs
from ithaca.engines.scalog.messages.order import (
    AdmissionIs,
    Admit,
    Applied,
    GetSession,
    GetTail,
    GetView,
    Propose,
    SessionIs,
    TailReply,
    ViewIs,
)
from ithaca.engines.scalog.messages.places import LocateRecords, RecordLocations
from ithaca.engines.scalog.messages.reading import (
    Behind,
    Deliver,
    Elsewhere,
    Found,
    KeptFrom,
    Read,
    SeekBytes,
    SeekTime,
    Subscribe,
    TimeIs,
)
from ithaca.engines.scalog.messages.reporting import (
    BootIsKnown,
    Enlist,
    Enlisted,
    Join,
    Joined,
    JoinedLanes,
    News,
    ReportIs,
    SignOfLife,
)
from ithaca.engines.scalog.messages.requests import (
    AddShard,
    BeginPart,
    BeginSession,
    DismissReplica,
    DropParts,
    EndSession,
    EndWriter,
    FinalizeShard,
    KeepParts,
    PublishParts,
    RelocateSession,
    TrimBefore,
)
from ithaca.protocol.codec import always, register

TYPES: dict[int, type[msgspec.Struct]] = {
    10: GetView,
    11: ViewIs,
    12: GetTail,
    13: TailReply,
    14: Propose,
    15: Applied,
    16: GetSession,
    17: SessionIs,
    20: Join,
    21: Joined,
    22: News,
    23: ReportIs,
    24: BootIsKnown,
    25: JoinedLanes,
    30: Append,
    31: Acks,
    32: GetNextSeq,
    33: NextSeqIs,
    34: GetSessionTail,
    35: SessionTailReply,
    36: AppendPart,
    37: PartSynced,
    38: FinishPart,
    90: GetPart,
    91: PartIs,
    106: GetSessions,
    107: SessionsAre,
    108: GetWriters,
    109: WritersAre,
    40: Read,
    41: Found,
    42: Elsewhere,
    43: Behind,
    44: Subscribe,
    45: Deliver,
    46: SeekTime,
    47: TimeIs,
    92: SeekBytes,
    93: KeptFrom,
    48: LocateRecords,
    49: RecordLocations,
    50: FollowLane,
    51: LaneBatches,
    52: GetRuns,
    53: RunsReply,
    54: Enlist,
    55: Enlisted,
    56: Admit,
    57: AdmissionIs,
    58: SignOfLife,
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
    94: BeginSession,
    95: RelocateSession,
    96: EndSession,
    97: TrimBefore,
    98: BeginPart,
    99: PublishParts,
    100: DropParts,
    101: AddShard,
    102: FinalizeShard,
    103: DismissReplica,
    104: KeepParts,
    105: EndWriter,
    110: DeclareLoss,
    111: GetHeldLength,
    112: HeldLengthIs,
}
"""Numbers are never given to another message."""

register(
    TYPES,
    for_servers=(
        Propose,  # what it proposes is an entry of whatever kind: clients of later versions ask for what they want
        Join,
        ReportIs,
        SignOfLife,
        Enlist,
        FollowLane,
        GetRuns,
        SeekBytes,
        GetHeldLength,
        ReportsAre,
        Attach,
        Detach,
        Left,
        Probe,
        SignsOfLife,
    ),
    administrative=dict.fromkeys(
        (AddShard, FinalizeShard, DismissReplica, Admit, EndSession, EndWriter, TrimBefore, DeclareLoss), always
    ),
)
