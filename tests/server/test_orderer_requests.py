"""What orderers answer to clients and replicas, and what they refuse."""

import asyncio
from pathlib import Path
from uuid import UUID

import pytest
from tests.server.orderers import (
    FakeReplica,
    agree,
    ask,
    client,
    cluster_file,
    joined,
    orderers,
    propose,
    redirected,
    tail,
    until,
    view,
)

from ithaca.engines.scalog.messages.listing import GetSessions, SessionsAre
from ithaca.engines.scalog.messages.order import (
    Applied,
    GetSession,
    GetTail,
    GetView,
    Propose,
    SessionIs,
    TailReply,
    ViewIs,
)
from ithaca.engines.scalog.messages.reporting import BootIsKnown, Join, Joined
from ithaca.engines.scalog.messages.requests import BeginSession, PublishParts, TrimBefore
from ithaca.engines.scalog.ordering import entries, sessions
from ithaca.engines.scalog.ordering.entries import (
    AddReplica,
    CloseLane,
    Configure,
    DeclareLost,
    ExpireSession,
    Finalize,
    MoveSession,
    OpenLane,
    OpenSession,
    OrderingEntry,
    RegisterShard,
    TrimTo,
    encode_entry,
)
from ithaca.engines.scalog.ordering.outcomes import (
    ExpiredSession,
    FinalizedShard,
    LaneClosed,
    LaneOpened,
    RefusedEntry,
    SessionMoved,
    SessionOpened,
    TrimmedLog,
    ViewChanged,
)
from ithaca.engines.scalog.ordering.prepared.entries import ExpireParts, SealPart
from ithaca.engines.scalog.ordering.prepared.outcomes import PartsUnfit
from ithaca.engines.scalog.server.orderer import views
from ithaca.engines.scalog.server.orderer.server import OrdererServer
from ithaca.model.cut import LaneLengths, LaneRun, ShardCut
from ithaca.model.errors import InvalidInput, NoSuchShard, StorageFull, Unavailable, VersionMismatch, WrongLane
from ithaca.model.limits import PART_INCARNATION_MIN, PARTS_MAX
from ithaca.model.positions import LaneId
from ithaca.model.view import Address, ClusterConfiguration
from ithaca.server.options import ServerOptions
from ithaca.sessions.carried import encode_carried
from ithaca.sim.disk import SimDisk


async def test_the_view_is_unavailable_until_the_log_is_configured(tmp_path: Path) -> None:
    file = cluster_file(orderers=3)
    alone = OrdererServer(file, 1, str(tmp_path))
    await alone.start()
    try:
        with pytest.raises(Unavailable, match="not ready"):
            await view(alone.address)
        for message in (GetTail(), Join(0, 0, 1), GetSession(1), TrimBefore(1)):
            assert await redirected(alone.address, message) is None
    finally:
        await alone.stop()


async def test_a_view_can_be_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with orderers(cluster_file(orderers=3), tmp_path) as group:
        leader = group.address(await group.leader())
        known = (await view(leader)).view.version
        async with client(leader) as asking:
            newer = asyncio.create_task(asking.request(GetView(known + 1)))
            await asking.request(GetView(known))  # so the other one is waiting
            assert not newer.done()
            shard = RegisterShard(7, 0, False, ((0, Address("127.0.0.1", 9)),))
            assert isinstance((await propose(leader, shard))[0], ViewChanged)
            answer = (await newer).message
            assert isinstance(answer, ViewIs)
            assert [each.shard for each in answer.view.shards] == [0, 7]
        monkeypatch.setattr(views, "VIEW_WAIT_S_MAX", 0.01)
        with pytest.raises(Unavailable, match=f"not yet {known + 9}"):
            await view(leader, at_least=known + 9)
        monkeypatch.setattr(views, "VIEW_WAITS_MAX", 0)
        with pytest.raises(Unavailable, match="wait for a newer view"):
            await view(leader, at_least=known + 9)


async def test_the_tail_covers_every_cut_that_a_replica_heard_of(tmp_path: Path) -> None:
    async with orderers(cluster_file(orderers=3, replicas=1), tmp_path) as group:
        leader = group.address(await group.leader())
        replica = FakeReplica(0, 0)
        async with joined(leader, [replica]), client(leader) as asking:
            for length in range(1, 30):
                replica.report({replica.lane: length})
                cut = await replica.hear_cut(length)
                answer = (await asking.request(GetTail())).message
                assert isinstance(answer, TailReply)
                assert answer.tail >= cut.tail
                assert answer.time_us >= cut.time_us


async def test_clients_propose_and_are_told_the_outcome(tmp_path: Path) -> None:
    async with orderers(cluster_file(orderers=3, shards=2, replicas=1), tmp_path) as group:
        leader = group.address(await group.leader())
        one, other = FakeReplica(0, 0), FakeReplica(1, 0)
        async with joined(leader, [one, other]):
            one.report({one.lane: 5})
            await one.hear_cut(1)
            assert await propose(leader, TrimTo(3)) == (TrimmedLog(3),)
            assert await propose(leader, TrimTo(99)) == (RefusedEntry(TrimTo(99), "beyond the tail"),)
            assert (await ask(leader, GetTail(), TailReply)).first == 3
            final = await propose(leader, Finalize(1))
            assert FinalizedShard(1, 1) in final


@pytest.mark.parametrize(
    "entry",
    [
        entries.cut(LaneLengths.of({LaneId(0, 0, 1): 5}), time_us=1, view=1),
        OpenLane(0, 0, 9),
        AddReplica(0, 1, 7, Address("127.0.0.1", 9)),
        CloseLane(LaneId(0, 0, 1)),
        DeclareLost(LaneId(0, 0, 1), 0, 1),
        Configure(ClusterConfiguration(UUID(int=1), "scalog")),
        SealPart(LaneId(0, 0, 1 << 30), bytes(16), 1, 1),
        ExpireParts((LaneId(0, 0, 1 << 30),), 1),
    ],
    ids=lambda entry: type(entry).__name__,
)
async def test_what_is_the_leaders_own_is_refused(entry: OrderingEntry, tmp_path: Path) -> None:
    async with orderers(cluster_file(orderers=1), tmp_path) as group:
        leader = group.address(await group.leader())
        applied = group.up[1].status()["applied"]
        with pytest.raises(InvalidInput, match=f"may not propose {type(entry).__name__}"):
            await ask(leader, Propose(encode_entry(entry)), Applied)
        with pytest.raises(VersionMismatch):
            await ask(leader, Propose(b"\x92\xa6future\x01"), Applied)
        assert group.up[1].status()["applied"] == applied


# Sessions


async def test_sessions_are_opened_moved_and_expired(tmp_path: Path) -> None:
    async with orderers(cluster_file(orderers=3), tmp_path) as group:
        number = await group.leader()
        leader = group.address(number)
        one, other = FakeReplica(0, 0), FakeReplica(0, 1)
        async with joined(leader, [one, other]):
            (opened,) = await propose(leader, OpenSession("orders", one.lane))
            assert isinstance(opened, SessionOpened)
            session = opened.session
            assert (session.producer_id, session.epoch, session.home) == (1, 1, one.lane)
            assert await one.hear(SessionOpened) == opened
            (again,) = await propose(leader, OpenSession("orders", one.lane))
            assert isinstance(again, SessionOpened)
            assert again.session.epoch == 2
            carried = encode_carried([(1, 2, 17, 0)])
            move = MoveSession(1, 2, one.lane, other.lane, carried=carried)
            (refused,) = await propose(leader, move)
            assert isinstance(refused, RefusedEntry)
            assert refused.reason == "the source is not closed"
            await agree(group.up[number], CloseLane(one.lane))
            with pytest.raises(InvalidInput, match="carries"):
                await propose(leader, MoveSession(1, 2, one.lane, other.lane, carried=b"nonsense"))
            moved, trimmed = await propose(leader, move)
            assert isinstance(moved, SessionMoved)
            assert trimmed == TrimmedLog(1, (one.lane,)), "it was empty, and nobody is at home there any more"
            found = (await ask(leader, GetSession(1), SessionIs)).session
            assert found == moved.session
            assert found is not None
            assert (found.home, found.carried) == (other.lane, carried)
            (expired,) = await propose(leader, ExpireSession(1, 2))
            assert expired == ExpiredSession(found)
            assert (await ask(leader, GetSession(1), SessionIs)).session is None


async def test_anonymous_sessions_make_room_for_new_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "ORDERING_SESSIONS_MAX", 4)
    monkeypatch.setattr(sessions, "ORDERING_NAMED_SESSIONS_MAX", 2)
    async with orderers(cluster_file(orderers=3), tmp_path) as group:
        leader = group.address(await group.leader())
        replica = FakeReplica(0, 0)
        async with joined(leader, [replica]), client(leader) as asking:
            for name in ("kept", "~a", "~b", "also kept"):
                await propose(leader, OpenSession(name, replica.lane))

            async def open_session(name: str) -> tuple[object, ...]:
                answer = (await asking.request(BeginSession(name, replica.lane))).message
                assert isinstance(answer, Applied)
                return answer.outcomes

            # Both at once: each expires another one.
            answers = await asyncio.gather(open_session("~c"), open_session("~d"))
            kinds = [tuple(map(type, outcomes)) for outcomes in answers]
            assert kinds == [(ExpiredSession, SessionOpened)] * 2
            (refused,) = await open_session("new")
            assert isinstance(refused, RefusedEntry)
            assert refused.reason == "too many sessions"
            listed = await ask(leader, GetSessions(), SessionsAre)
            assert [each.name for each in listed.sessions] == ["kept", "also kept"]
            after = await ask(leader, GetSessions(listed.sessions[0].producer_id), SessionsAre)
            assert [each.name for each in after.sessions] == ["also kept"]
            names = set()
            for producer_id in range(1, 8):
                found = (await ask(leader, GetSession(producer_id), SessionIs)).session
                names |= {found.name} if found is not None else set()
            assert names == {"kept", "also kept", "~c", "~d"}


# Joining


async def test_replicas_that_are_not_in_the_log_cannot_join(tmp_path: Path) -> None:
    async with orderers(cluster_file(orderers=1, shards=2), tmp_path) as group:
        leader = group.address(await group.leader())
        with pytest.raises(InvalidInput, match="no replica 9 of shard 0"):
            await ask(leader, Join(0, 9, 1), Joined)
        for shard in (9, 1 << 19):
            with pytest.raises(Unavailable, match=f"shard {shard} is not registered yet"):
                await ask(leader, Join(shard, 0, 1), Joined)
        await propose(leader, Finalize(1))
        await propose(leader, TrimTo(1))
        with pytest.raises(NoSuchShard, match="shard 1 was finalized and trimmed whole"):
            await ask(leader, Join(1, 0, 1), Joined)


async def test_each_start_of_a_replica_has_its_lane(tmp_path: Path) -> None:
    async with orderers(cluster_file(orderers=1), tmp_path) as group:
        leader = group.address(await group.leader())
        peer = FakeReplica(0, 1)
        async with joined(leader, [peer]):
            first = await ask(leader, Join(0, 0, 5), Joined)
            second = await ask(leader, Join(0, 0, 6), Joined)
            assert (first.lane, second.lane) == (LaneId(0, 0, 1), LaneId(0, 0, 2))
            assert await peer.hear(LaneClosed) == LaneClosed(LaneId(0, 0, 1), 0)
            assert await ask(leader, Join(0, 0, 5), BootIsKnown) == BootIsKnown(6)
            await agree(group.up[1], CloseLane(LaneId(0, 0, 2)))
            with pytest.raises(WrongLane, match="higher boot"):
                await ask(leader, Join(0, 0, 6), Joined)


async def test_a_replica_of_a_finalized_shard_has_no_lane_and_hears_on(tmp_path: Path) -> None:
    async with orderers(cluster_file(orderers=1, shards=2, replicas=1), tmp_path) as group:
        leader = group.address(await group.leader())
        live, final = FakeReplica(0, 0), FakeReplica(1, 0)
        await propose(leader, Finalize(1))
        async with joined(leader, [live, final]):
            assert final.joined.lane is None
            assert final.joined.summary.shard.phase == "finalized"
            live.report({live.lane: 2})
            assert (await final.hear_cut(1)).tail == 3


async def test_news_begins_where_the_answer_to_joining_ends(tmp_path: Path) -> None:
    """Whenever a replica joins, what it was told of at once and what follows add up to every cut, each once."""
    async with orderers(cluster_file(orderers=1, shards=2, replicas=1), tmp_path) as group:
        leader = group.address(await group.leader())
        busy = FakeReplica(0, 0)
        async with joined(leader, [busy]):
            for boot in range(1, 6):
                late = FakeReplica(1, 0, boot=boot)
                start = 10 * boot
                for length in range(start, start + 5):
                    busy.report({busy.lane: length})
                joining = asyncio.create_task(late.join(leader))
                for length in range(start + 5, start + 10):
                    busy.report({busy.lane: length})
                    await asyncio.sleep(0)
                cut = (await joining).summary.cut
                numbers = []
                while cut.tail < start + 10:
                    cut = await late.hear(ShardCut)
                    numbers.append(cut.number)
                first = late.joined.summary.cut.number + 1
                assert numbers == list(range(first, first + len(numbers)))
                await late.leave()


async def test_a_full_disk_refuses_proposals_and_answers_reads(tmp_path: Path) -> None:
    disk = SimDisk()
    server = OrdererServer(cluster_file(orderers=1), 1, "/orderer", ServerOptions(disk))
    await server.start()
    try:
        await until(lambda: bool(server.status()["shards"]))
        disk.capacity_bytes = 0
        async with client(server.address) as asking:
            names = tuple((LaneId(0, 0, PART_INCARNATION_MIN + number), bytes(16)) for number in range(PARTS_MAX))
            big = PublishParts("w", 1, "", names)
            waiting = [asyncio.create_task(asking.request(big)) for _ in range(6)]
            await until(lambda: bool(server.status()["full"]))
            with pytest.raises(StorageFull):
                await propose(server.address, TrimTo(1))
            assert await tail(server.address) == 1
            disk.capacity_bytes = None
            first, *others = await asyncio.gather(*waiting, return_exceptions=True)
            assert not isinstance(first, BaseException)
            assert isinstance(first.message, Applied)
            assert isinstance(first.message.outcomes[0], PartsUnfit)
            assert all(isinstance(other, StorageFull) or type(other) is type(first) for other in others)
            assert await propose(server.address, TrimTo(1)) == (TrimmedLog(1),)
    finally:
        await server.stop()


async def test_lanes_of_a_shard_are_told_to_its_replicas_alone(tmp_path: Path) -> None:
    async with orderers(cluster_file(orderers=1, shards=2), tmp_path) as group:
        leader = group.address(await group.leader())
        near, far = FakeReplica(0, 0), FakeReplica(1, 0)
        async with joined(leader, [near, far]):
            peer = FakeReplica(0, 1)
            async with joined(leader, [peer]):
                assert (await near.hear(LaneOpened)).lane == peer.lane
                changed = near.news[-1]
                assert isinstance(changed, ViewChanged)
                while changed not in far.news:
                    await far.hear(ViewChanged)
                assert not [each for each in far.news if isinstance(each, LaneOpened)]
                near.report({near.lane: 1})
                peer.report({near.lane: 1})
                assert (await near.hear_cut(1)).runs == (LaneRun(near.lane, 0, 1, 1),)
                assert (await far.hear_cut(1)).runs == ()
