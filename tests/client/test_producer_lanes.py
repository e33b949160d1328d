"""A producer whose lane is closed, silent, or goes away: nothing is lost, and nothing is there twice."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.client.fake_cluster import FakeCluster, home_of, until
from tests.client.fake_servers import FakeReplica

from ithaca.engines.scalog.client.append import producer
from ithaca.engines.scalog.client.append.appends import Appends
from ithaca.model.errors import (
    IthacaError,
    Overloaded,
    Unavailable,
)
from ithaca.model.limits import RECONNECT_PAUSE_S_MIN, SESSION_BATCHES_MAX
from ithaca.runtime.backoff import Backoff


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    async with FakeCluster() as cluster:
        yield cluster


async def test_a_closed_lane_moves_the_session_and_loses_nothing(cluster: FakeCluster) -> None:
    log = await cluster.connect()
    replica = await home_of(cluster, log)
    cluster.is_holding = True
    pendings = [await log.submit_many([b"%d" % n]) for n in range(12)]
    await until(lambda: len(replica.appended) == 1 + SESSION_BATCHES_MAX)
    cluster.close_lane(replica.lane)
    cluster.release()
    receipts = [await pending for pending in pendings]
    assert [receipt.position for receipt in receipts] == list(range(2, 14))
    assert cluster.values() == [b"first", *(b"%d" % n for n in range(12))]


@pytest.mark.parametrize(
    ("refusal", "pauses"),
    [
        pytest.param(Overloaded("the lane is full"), [1, 2, 4, 1, 1], id="full"),
        pytest.param(Unavailable("not now"), [1, 2, 4, 8, 1], id="unavailable"),
    ],
)
async def test_the_troubles_of_a_home_that_is_closed_delay_nothing_at_the_next(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, refusal: IthacaError, pauses: list[int]
) -> None:
    """Three refusals at the home, then that it is closed, then a refusal at the next: how long each is waited."""
    paused: list[float] = []

    class Noted(Backoff):
        def next_s(self) -> float:
            paused.append(super().next_s())
            return paused[-1]

    monkeypatch.setattr(producer, "Backoff", Noted)
    log = await cluster.connect()
    replica = await home_of(cluster, log)
    (other,) = (each for each in cluster.replicas[0] if each is not replica)
    replica.refusals += [refusal] * 3
    other.refusals.append(refusal)
    cluster.close_lane(replica.lane)
    assert (await log.append(b"elsewhere")).position == 2
    assert paused == [RECONNECT_PAUSE_S_MIN * times for times in pauses]
    assert cluster.values() == [b"first", b"elsewhere"]


def lose_an_answer_and_close_the_lane(cluster: FakeCluster, replica: FakeReplica) -> None:
    replica.losing_acks = 1
    original = replica.on_lost

    def close_lane_when_lost(connection: object, error: object) -> None:
        replica.on_lost = original  # type: ignore[method-assign]
        cluster.close_lane(replica.lane)

    replica.on_lost = close_lane_when_lost  # type: ignore[method-assign]


async def test_what_was_ordered_before_the_lane_closed_is_not_sent_elsewhere(cluster: FakeCluster) -> None:
    log = await cluster.connect()
    lose_an_answer_and_close_the_lane(cluster, await home_of(cluster, log))
    assert (await log.append(b"ordered")).position == 2
    assert (await log.append(b"after")).position == 3
    assert cluster.values() == [b"first", b"ordered", b"after"]


async def test_a_position_that_was_trimmed_before_it_was_told_is_not_made_up(cluster: FakeCluster) -> None:
    log = await cluster.connect()
    lose_an_answer_and_close_the_lane(cluster, await home_of(cluster, log))
    cluster.forgets_positions = True
    with pytest.raises(Unavailable, match="position is not known") as refused:
        await log.append(b"ordered")
    assert refused.value.outcome_unknown
    assert (await log.append(b"after")).position == 3
    assert cluster.values() == [b"first", b"ordered", b"after"]


async def test_a_restarted_replica_has_a_new_lane(cluster: FakeCluster) -> None:
    log = await cluster.connect()
    replica = await home_of(cluster, log)
    for round_ in range(5):
        replica.drop_connections()
        replica.open_lane()
        assert (await log.append(b"%d" % round_)).position == round_ + 2
    assert cluster.values() == [b"first", *(b"%d" % n for n in range(5))]


async def test_an_unreachable_lane_is_left_for_new_records(cluster: FakeCluster) -> None:
    log = await cluster.connect()
    replica = await home_of(cluster, log)
    await replica.stop()
    receipts = await asyncio.gather(*(log.append(b"%d" % n) for n in range(10)))
    assert [receipt.position for receipt in receipts] == list(range(2, 12))
    other = next(each for each in cluster.replicas[0] if each is not replica)
    assert len(other.appended) >= 1


async def test_what_was_sent_to_a_lane_that_went_away_stays_with_it(cluster: FakeCluster) -> None:
    log = await cluster.connect()
    replica = await home_of(cluster, log)
    cluster.is_holding = True
    sent = await log.submit(b"sent")
    await until(lambda: len(replica.appended) == 2)
    await replica.stop()
    cluster.is_holding = False
    elsewhere = await log.append(b"elsewhere")
    assert not sent.done()
    await replica.start()
    receipt = await sent
    # One cut orders both, in the order of their lanes, and which lane was used is chance.
    assert cluster.values()[receipt.position - 1] == b"sent"
    assert cluster.values()[elsewhere.position - 1] == b"elsewhere"
    assert sorted(cluster.values()) == [b"elsewhere", b"first", b"sent"]


async def test_a_silent_lane_is_left_for_new_records(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer, "LANE_STALLED_S", 0.05)
    log = await cluster.connect()
    replica = await home_of(cluster, log)
    replica.is_mute = True
    stuck = await log.submit(b"stuck")
    other = next(each for each in cluster.replicas[0] if each is not replica)

    async def appended_elsewhere() -> None:
        while not other.appended:
            await log.submit(b"new")
            await asyncio.sleep(0.01)

    await asyncio.wait_for(appended_elsewhere(), 10)
    assert not stuck.done()
    replica.is_mute = False
    replica.drop_connections()
    await log.flush()
    assert stuck.done()


async def test_a_lane_is_silent_from_the_time_on_at_which_it_was_sent_to(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer, "HOME_LOOK_S", 0.01)
    monkeypatch.setattr(producer, "LANE_STALLED_S", 0.025)
    said: list[str] = []
    monkeypatch.setattr(Appends, "unreachable", lambda self, accumulator, error: said.append(str(error)))
    log = await cluster.connect()
    replica = await home_of(cluster, log)
    replica.is_mute = True
    await log.submit(b"stuck")
    await until(lambda: bool(said))
    assert said[0].endswith("did not answer for 0.03 s")
    replica.is_mute = False
    replica.drop_connections()
    await log.flush()


async def test_what_a_home_has_that_is_closed_and_silent_goes_elsewhere(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer, "HOME_LOOK_S", 0.05)
    log = await cluster.connect()
    home = await home_of(cluster, log)
    home.is_mute = True
    appending = asyncio.ensure_future(log.append(b"second"))
    await asyncio.sleep(0)
    cluster.close_lane(home.lane)
    assert (await asyncio.wait_for(appending, 10)).position == 2
    assert cluster.values() == [b"first", b"second"]
