"""One or more examples of every message, with every kind of news and outcome among them."""

from uuid import UUID

import msgspec
import numpy as np

from ithaca.engines.scalog.messages import aggregation as a
from ithaca.engines.scalog.messages import appending, copying, listing, losing, order, reading, reporting, requests
from ithaca.engines.scalog.messages.places import LocateRecords, RecordLocations
from ithaca.engines.scalog.ordering.cut_slices import CutPart
from ithaca.engines.scalog.ordering.entries import CloseLane
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
from ithaca.engines.scalog.ordering.prepared.outcomes import (
    ConsumptionRefused,
    PartDropped,
    PartOpened,
    PartSealed,
    PartsPublished,
    PartsRenewed,
    PartsUnfit,
    PublishConflicts,
    StagedPart,
    WriterForgotten,
)
from ithaca.engines.scalog.ordering.reports import Report
from ithaca.engines.scalog.ordering.state import ShardSummary
from ithaca.model.consumers import (
    CommitPosition,
    ConsumerGone,
    ConsumerPart,
    ConsumerRefused,
    ConsumerState,
    DeleteConsumer,
    ExpireConsumer,
    GroupStands,
    MakeGroup,
    OpenConsumer,
    OpenGroupPart,
    PartStands,
    ResetConsumer,
)
from ithaca.model.cut import LaneRun, ShardCut, lane_key, pack
from ithaca.model.groups import GroupBeat, GroupMember, GroupTold
from ithaca.model.limits import PART_INCARNATION_MIN
from ithaca.model.parts import Published
from ithaca.model.positions import LaneId
from ithaca.model.security.users import (
    AddUser,
    Grant,
    GrantRights,
    LimitUser,
    RevokeUser,
    RotateToken,
    TokenHash,
    User,
    UserGone,
    UserLimits,
    UserRefused,
    UserStands,
    WithdrawRights,
)
from ithaca.model.view import Address, ClusterConfiguration, Orderers, Replica, Shard, View
from ithaca.protocol import consumers, greeting, members, users
from ithaca.protocol.filters import Filter
from ithaca.raft import messages as raft
from ithaca.users.table import PackedUsers

LOG = UUID(int=7)
LANE, OTHER = LaneId(1, 0, 3), LaneId(1, 1, 2)
AT = Address("127.0.0.1", 7600)
CONFIGURATION = ClusterConfiguration(LOG, "scalog", 100)
SHARD = Shard(1, 1, False, (Replica(0, AT, 3, 3, True), Replica(1, Address("::1", 7601), 2, 2)), 1, epoch=2)
CUT = ShardCut(1, 9, 120, 1_700_000_000_000_000, (LaneRun(LANE, 10, 100, 12), LaneRun(OTHER, 0, 112, 8)))
SESSION = Session(5, "loader", 2, LANE, (OTHER,), b"carried")
TOKEN = bytes(range(16))
TOKEN_HASH = TokenHash(bytes(16), bytes(range(32)))
PART = StagedPart(LaneId(1, 0, PART_INCARNATION_MIN), TOKEN, LANE, 1_700_000_000_000_000, 12)
PUBLISHED = Published("loader", 7, "query", 100, 12)
SUMMARY = ShardSummary(77, SHARD, CUT, 1, [(LANE, 22), (OTHER, 8)], [SESSION], [(OTHER, ((2, 4),))], 6, [PART])
_CHANGES = (
    ViewChanged(6, 1, SHARD),
    ViewChanged(7, 2, None),
    LaneOpened(LANE, 3),
    LaneClosed(OTHER, 8),
    FinalizedShard(1, 9),
    PartOpened(PART),
    PartSealed(PART.lane, 12),
    PartDropped(PART.lane),
    SessionOpened(SESSION),
    SessionMoved(SESSION, OTHER),
    ExpiredSession(SESSION),
    TrimmedLog(50, (OTHER,)),
    RangeLost(OTHER, 2, 4),
)
NEWS = (CUT, *_CHANGES)
_PUBLISHED = (
    *(PartsPublished(PUBLISHED), PublishConflicts(PUBLISHED), PartsUnfit((PART.lane,), ())),
    *(PartsRenewed((PART.lane,)), WriterForgotten(PUBLISHED)),
    ConsumptionRefused(ConsumerRefused("billing", "fenced", 3)),
)
OUTCOMES = (Configured(CONFIGURATION), *_CHANGES, *_PUBLISHED, RefusedEntry(CloseLane(LANE), "no such lane"))
RAFT: tuple[raft.AnyMessage, ...] = (
    raft.RequestVote(1, 4, 10, 3, pre=True),
    raft.VoteReply(2, 4, True),
    raft.AppendEntries(1, 4, 10, 3, (raft.Entry(11, 4, raft.EntryKind.PAYLOAD, b"entry"),), 10, 5),
    raft.InstallSnapshot(1, 4, raft.Snapshot(10, 3, raft.Configuration((1, 2, 3)), b"state")),
    raft.SnapshotChunk(1, 4, 10, 3, raft.Configuration((1, 2, 3)), 1000, 5, b"state"),
    raft.ChunkReply(2, 4, 10, 3, 5, 10),
    raft.AppendReply(2, 4, False, 10, 8, 3),
    raft.TimeoutNow(1, 4),
)
CUT_PART = CutPart(
    9, 120, 1_700_000_000_000_000, *(pack(np.array([n], np.int64)) for n in (lane_key(LANE), 20, 2, 118))
)

EXAMPLES: tuple[msgspec.Struct, ...] = (
    greeting.Hello(1, 1, "client", "test", greeting.FEATURES, LOG, b"secret"),
    greeting.Hello(1, 1, "replica"),
    greeting.Hello(1, 2, "client", engine=greeting.ANY_ENGINE),
    greeting.Welcome(1, "replica", "0/1", greeting.FEATURES, LOG, "os"),
    greeting.Welcome(1, "orderer"),
    greeting.Welcome(2, "orderer", engine="corfu"),
    greeting.Failure("Trimmed", "gone", {"first": 7, "file": "x"}, True),
    greeting.Redirect(AT),
    greeting.Redirect(None, Orderers(7, (AT,))),
    members.AddOrderer(4, AT),
    consumers.ChangeConsumers(
        (
            OpenConsumer("billing", 7, 1),
            MakeGroup("group", 5, 16),
            OpenGroupPart("group", 3, 7),
            CommitPosition("billing", 0, 2, 9),
            ResetConsumer("billing", 8, 3, 1),
            DeleteConsumer("billing", 1),
            ExpireConsumer("billing", 3),
        )
    ),
    consumers.ConsumersChanged(
        (
            PartStands("billing", 0, 2, 9),
            GroupStands("group", 16),
            ConsumerGone("billing"),
            ConsumerRefused("billing", "fenced", 2),
        )
    ),
    consumers.BeatGroup(GroupBeat("group", 7, 3, (0, 3), 10_000, False, "host:4711")),
    consumers.GroupBeaten(GroupTold(16, (0,), (3,), 500)),
    consumers.GetGroup("group"),
    consumers.GroupIs((GroupMember(7, "host:4711", (0, 3), (3,), 0.25, 10.0),)),
    consumers.GetConsumers("billing"),
    consumers.ConsumersAre(
        1_700_000_000_000_000, (ConsumerState("billing", 1, 3, 1_700_000_000_000_000, (ConsumerPart(2, 7, 9),)),)
    ),
    users.ChangeUsers(
        (
            AddUser(User("alice", Grant(("read",), (), (b"orders/",)), (TOKEN_HASH,), UserLimits(connections=4))),
            RotateToken("alice", TOKEN_HASH, keep=False),
            RevokeUser("bob"),
            GrantRights("alice", Grant(("trim", "admin"))),
            WithdrawRights("alice", Grant((), (b"a/", b"b/"))),
            LimitUser("alice", UserLimits(1, 2, 3, 4, 5, 6)),
        )
    ),
    users.UsersChanged(
        (UserStands("alice", Grant(("read",)), 1, UserLimits()), UserGone("bob"), UserRefused("eve", "unknown"))
    ),
    users.ListUsers("alice"),
    users.UsersListed((UserStands("alice", Grant(("read",)), 2, UserLimits()),)),
    users.GetUsers(7),
    users.UsersAre(PackedUsers(8, [User("alice", Grant(("append",)), (TOKEN_HASH,))])),
    users.UsersAre(None),
    members.RemoveOrderer(4),
    members.GetMembers(),
    members.MembersAre((members.Member(1, AT, True, True), members.Member(4, AT, False, False)), 4),
    members.OrderersAre(Orderers(7, (AT, AT))),
    greeting.Finished(),
    greeting.GetStatus(),
    greeting.StatusIs(b"{}"),
    order.GetView(5),
    order.ViewIs(View(6, (SHARD,)), CONFIGURATION, (AT,), None),
    order.GetTail(),
    order.TailReply(120, 1, 1_700_000_000_000_000, 6),
    order.Propose(b"entry"),
    requests.BeginSession("orders", LANE),
    requests.RelocateSession(5, 2, LANE, OTHER, b"carried"),
    requests.EndSession(5, 2),
    requests.TrimBefore(7),
    requests.BeginPart(LANE, bytes(16), 1_000_000),
    requests.PublishParts("w", 3, "me", ((LaneId(1, 0, 1 << 30), bytes(16)),)),
    requests.DropParts(((LaneId(1, 0, 1 << 30), bytes(16)),)),
    requests.KeepParts(((LaneId(1, 0, 1 << 30), bytes(16)),), 1_000_000),
    requests.EndWriter("w", 3),
    requests.AddShard(3, 0, False, ((0, AT),)),
    requests.FinalizeShard(3, 2, 9, True),
    requests.DismissReplica(3, 1, 0),
    losing.DeclareLoss(LaneId(0, 1, 3), 40, 100, (1,)),
    losing.GetHeldLength(LaneId(0, 1, 3)),
    losing.HeldLengthIs(40, 30),
    order.Applied(OUTCOMES),
    order.GetSession(5),
    order.SessionIs(SESSION),
    order.SessionIs(None),
    reporting.Join(1, 0, 3),
    reporting.Join(1, 2, 3, (AT,), 1, AT),
    reporting.Joined(LOG, LANE, SUMMARY, (CUT,)),
    reporting.Joined(LOG, None, SUMMARY, ()),
    reporting.Join(1, 2, 3, takes_pieces=True),
    reporting.JoinedLanes(((LANE, 22), (OTHER, 0))),
    reporting.Joined(LOG, LANE, SUMMARY, (), gone=(OTHER,)),
    reporting.BootIsKnown(7),
    reporting.News(NEWS),
    reporting.ReportIs(Report(1, 2, 0, 3, 9, ((LANE, 22), (OTHER, 8)))),
    reporting.Join(1, 0, 3, (AT,), 2),
    a.ReportsAre((Report(1, 2, 0, 3, 9, ((LANE, 22), (OTHER, 8))), Report(2, 1, 1, 4, 9, ()))),
    a.OrderNews((CUT_PART, *_CHANGES)),
    a.Left(1, 0),
    a.Left(1, 0, AT),
    a.Attach(3, AT, 2, (AT,)),
    a.Attached(LOG),
    a.Attached(LOG, Orderers(7, (AT,))),
    a.Detach(3),
    a.Assigned(AT),
    a.Probe(),
    a.Alive(),
    a.SignsOfLife(((0, 1, True), (2, 0, False))),
    appending.Append(LANE),
    appending.Acks(((1, 100), (3, 101))),
    appending.GetNextSeq(LANE, 5, 2),
    appending.NextSeqIs(17),
    appending.GetSessionTail(LANE, 5),
    appending.SessionTailReply(((1, 16, 100),)),
    appending.AppendPart(PART.lane, TOKEN, 8),
    appending.PartSynced(12),
    appending.FinishPart(PART.lane, TOKEN, 12),
    appending.GetPart(PART.lane, TOKEN),
    appending.PartIs(PART),
    appending.PartIs(None),
    listing.GetSessions(5),
    listing.SessionsAre(1_700_000_000_000_000, (listing.listed(SESSION),)),
    listing.GetWriters("copier"),
    listing.WritersAre(1_700_000_000_000_000, ((PUBLISHED, 0),)),
    reading.Read(100, 250),
    reading.Found(LANE, 96),
    reading.Elsewhere(),
    reading.Behind(90),
    reading.Subscribe(1),
    reading.Subscribe(1, 100, Filter("hash", low=0, last=(1 << 64) - 1)),
    reading.Subscribe(1, None, Filter("prefix", b"user-")),
    reading.Deliver(
        (reading.Delivered(LANE, 100, 2, 9), reading.Delivered(OTHER, 112, 0, 2, b"\0\0\0\0\3\0\0\0")), 120, 6
    ),
    reading.SeekTime(1_700_000_000_000_000, 120),
    reading.TimeIs(100),
    reading.TimeIs(None),
    reading.SeekBytes(1 << 40),
    reading.KeptFrom(100),
    LocateRecords("a machine", 1, 100),
    RecordLocations("/replica/lanes", 7, 12, ((LANE, 0, 1, 60), (OTHER, 5, 61, 39)), 100),
    copying.FollowLane(LANE, 10, 22),
    copying.FollowLane(LANE, 10),
    copying.LaneBatches(LANE),
    copying.GetRuns(LANE, 10, 22),
    reporting.Enlist(AT),
    reporting.Enlisted(1, 2),
    order.Admit(1, AT),
    order.AdmissionIs("learning", 2),
    reporting.SignOfLife(),
    reporting.SignOfLife(True),
    copying.RunsReply(((10, 100, 12, 1_700_000_000_000_000),)),
    *(members.RaftMessage(said) for said in RAFT),
    members.RaftMessage(RAFT[0], members.Clocks(1_700_000_000_000_000, 1_700_000_000_000_001)),
)
