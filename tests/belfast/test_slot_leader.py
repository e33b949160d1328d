"""A leader's whole term in drawn worlds, and its rules one by one."""

from collections.abc import Callable
from random import Random

import pytest
from tests.belfast.led_world import DETECTION_US, LedWorld

from ithaca.engines.belfast.leading.keeping import Here
from ithaca.engines.belfast.limits import TAKEOVER_AFTER_S
from ithaca.engines.belfast.speculation.entries import FailLane
from ithaca.engines.belfast.speculation.takeover import Promised
from ithaca.engines.scalog.ordering.entries import OpenLane
from ithaca.engines.scalog.ordering.outcomes import LaneOpened
from ithaca.model.positions import LaneId


def run(seed: int, *, shards: int, steps: int, faults: bool) -> LedWorld:
    random = Random(seed)
    world = LedWorld(random, shards, rounds=random.choice([1, 2, 5, 48]))
    for _ in range(4):
        world.round()
    for _ in range(steps):
        lanes = world.up()
        lane = random.choice(lanes) if lanes else None
        replica = random.choice(list(world.replicas.values()))
        match random.randint(0, 30):
            case number if number < 5 and lane:
                world.offer(lane, random.choice([1, 1, 2, 3, 50, 5000]))
            case number if number < 7 and lane:
                world.hand(lane)
            case number if number < 14 and lane:
                world.sync(lane, replica)
            case number if number < 18 and lane:
                world.report(lane)
            case number if number < 21:
                world.decide()
            case number if number < 25:
                world.commit()
            case 26 if faults and random.random() < 0.3:
                world.restart(replica)
            case 27 if faults and random.random() < 0.2:
                world.kill(replica)
            case 28 if faults and random.random() < 0.3:
                world.lead()
            case 29 if faults and random.random() < 0.05:
                world.finalize(random.randrange(shards))
            case 25:
                world.answer()
            case 30:
                world.now_us += random.choice([1000, DETECTION_US])
            case _:
                world.hear()
    world.settle()
    return world


@pytest.mark.parametrize("seed", range(10))
def test_without_faults_all_is_ordered_and_nothing_fails(seed: int) -> None:
    world = run(seed, shards=1 + seed % 3, steps=500, faults=False)
    assert not world.failed
    assert world.ordered


@pytest.mark.parametrize("seed", range(25))
def test_with_faults_lanes_come_back_and_places_stay(seed: int) -> None:
    run(100 + seed, shards=1 + seed % 3, steps=600, faults=True)


@pytest.mark.campaign
@pytest.mark.parametrize("part", range(10))
def test_with_faults_in_many_runs(part: int) -> None:
    for seed in range(100):
        run(10_000 + 100 * part + seed, shards=1 + seed % 4, steps=1500, faults=True)


def test_a_lane_opens_when_enough_replicas_are_there_to_keep_what_it_takes() -> None:
    world = LedWorld(Random(1), 1, 2)
    for number in (1, 2):
        world.kill(world.replicas[0, number])
    for _ in range(4):
        world.round()
    assert not world.lanes
    world.restart(world.replicas[0, 2])
    for _ in range(4):
        world.round()
    assert [lane.replica for lane in world.lanes] == [0]


def test_a_lane_without_enough_replicas_fails_after_a_while_and_not_before() -> None:
    world = LedWorld(Random(1), 1, 2)
    for _ in range(8):
        world.round()
    assert world.state.slots.mode == "fixed"
    (lane,) = world.lanes
    supervisor = world.leader.supervisor
    supervisor.went(0, 1)
    assert supervisor.look(0) == []
    supervisor.went(0, 2)
    assert supervisor.look(0) == []
    assert supervisor.next_look_us() == DETECTION_US
    assert supervisor.look(DETECTION_US - 1) == []
    supervisor.came(0, 2, Here(1, 1))
    assert supervisor.look(DETECTION_US) == []
    supervisor.went(0, 2)
    supervisor.look(DETECTION_US)
    assert supervisor.look(2 * DETECTION_US) == [FailLane(lane)]
    assert supervisor.look(2 * DETECTION_US) == []
    assert supervisor.next_look_us() is None  # until something is told
    supervisor.settled(FailLane(lane), 3 * DETECTION_US)
    assert supervisor.next_look_us() == 3 * DETECTION_US


def test_whoever_comes_goes_or_is_silent_and_what_is_ordered_has_the_leader_look_and_reports_do_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = LedWorld(Random(1), 1, 100)
    for _ in range(8):
        world.round()
    (lane,) = world.lanes
    supervisor, looked = world.leader.supervisor, list[LaneId]()

    def look_at(shard: object, lane: LaneId, now_us: int) -> list[object]:
        looked.append(lane)
        return []

    monkeypatch.setattr(supervisor, "_look_at", look_at)
    for _ in range(3):
        world.offer(world.lanes[lane], 1)
        world.round()
    assert world.ordered
    assert not looked, "cuts and reports say nothing of who is here"
    changes: list[Callable[[], object]] = [
        lambda: supervisor.went(0, 1),
        lambda: supervisor.came(0, 1, Here(1, 1)),
        lambda: supervisor.are_silent([(0, 2)]),
        lambda: supervisor.are_silent([]),
        lambda: supervisor.settled(FailLane(lane)),
        lambda: world.leader.applied([LaneOpened(LaneId(0, 1, 9), 1)], own=False),
        lambda: world.leader.takeovers.begin(lane),
    ]
    for change in changes:
        change()
        world.decide()
        assert looked == [lane]
        looked.clear()


def test_a_primary_that_started_again_is_gone_at_once_and_an_emptied_disk_does_not_count() -> None:
    world = LedWorld(Random(1), 1, 2)
    for _ in range(8):
        world.round()
    (lane,) = world.lanes
    supervisor, takeovers = world.leader.supervisor, world.leader.takeovers
    supervisor.came(0, 1, Here(9, 9))
    supervisor.went(0, 2)
    supervisor.came(0, 0, Here(2, 1))
    assert supervisor.look(8) == []
    assert lane not in takeovers, "one disk is too few"
    assert supervisor.next_look_us() == 8 + DETECTION_US
    assert supervisor.look(8 + DETECTION_US) == [FailLane(lane)]
    supervisor.came(0, 2, Here(1, 1))
    assert supervisor.look(8 + DETECTION_US) == []
    assert lane in takeovers


def test_replicas_that_have_all_had_their_lane_start_again() -> None:
    world = LedWorld(Random(1), 1, 2)
    for _ in range(8):
        world.round()
    for number in (0, 1, 2):
        entry = FailLane(next(iter(world.lanes)))
        world.raft.append((world.term, entry))
        world.commit()
        if number < 2:
            assert world.leader.supervisor.look(0) == [OpenLane(0, number + 1, 1)]
            world.raft.append((world.term, OpenLane(0, number + 1, 1)))
            world.commit()
    assert world.replicas[0, 0].boot == 1
    world.settle()
    assert world.replicas[0, 0].boot == 2
    assert [lane.replica for lane in world.lanes] == [0]


def test_a_primary_that_is_gone_is_taken_over_soon_and_nothing_fails() -> None:
    world = LedWorld(Random(1), 1, 2)
    for _ in range(8):
        world.round()
    (lane,) = world.lanes
    world.offer(world.lanes[lane], 3)
    world.hand(world.lanes[lane])
    world.replicas[0, 0].synced[lane] = world.replicas[0, 1].synced[lane] = 3
    world.kill(world.replicas[0, 0])
    supervisor, takeovers = world.leader.supervisor, world.leader.takeovers
    assert supervisor.look(world.now_us) == []
    assert lane not in takeovers
    assert supervisor.next_look_us() == world.now_us + int(TAKEOVER_AFTER_S * 1e6)
    assert supervisor.look(world.now_us + int(TAKEOVER_AFTER_S * 1e6)) == []
    assert lane in takeovers
    world.settle()
    assert not world.failed
    assert {at for at in world.ordered.values() if at[0] == lane} == {(lane, lsn) for lsn in range(3)}


def test_a_new_leader_waits_longer_for_a_primary_that_it_has_not_met() -> None:
    world = LedWorld(Random(1), 1, 2)
    for _ in range(8):
        world.round()
    (lane,) = world.lanes
    world.kill(world.replicas[0, 0])
    world.lead()
    supervisor, takeovers = world.leader.supervisor, world.leader.takeovers
    supervisor.look(0)
    assert supervisor.next_look_us() == DETECTION_US
    supervisor.look(DETECTION_US - 1)
    assert lane not in takeovers
    supervisor.look(DETECTION_US)
    assert lane in takeovers


def test_a_promise_to_an_earlier_leader_has_the_lane_taken_over() -> None:
    world = LedWorld(Random(1), 1, 2)
    for _ in range(8):
        world.round()
    (lane,) = world.lanes
    world.replicas[0, 1].promised.add(lane)
    world.lead()
    world.leader.takeovers.promised(lane, Promised(1, 0, 1))
    assert lane in world.leader.takeovers
    world.settle()
    assert lane not in world.lanes
    assert not world.failed


def test_reports_free_kept_cuts_while_windows_are_fixed() -> None:
    """Else nothing is ordered any more once as many are kept as may be."""
    world = LedWorld(Random(1), 1, 2)
    for _ in range(8):
        world.round()
    world.lead()
    assert world.leader._retention._synced == {}
    for _ in range(2):
        world.round()
    assert world.state.slots.mode == "fixed"
    assert world.leader._retention._synced == {0: 1 << 40}


def mode_of(world: LedWorld) -> str:
    return world.state.slots.mode


def test_where_the_state_has_no_room_for_a_window_the_order_goes_on_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """It once proposed the same window again and again, in one turn of its loop, and each went into the Raft log."""
    limit = "ORDERING_STATE_BYTES_MAX"
    world = LedWorld(Random(1), 2, rounds=2)
    for _ in range(4):
        world.round()
    assert mode_of(world) == "fixed"
    with monkeypatch.context() as full:
        full.setattr(f"ithaca.engines.belfast.speculation.state.{limit}", world.state.size_bytes)
        for lane in world.up():
            world.offer(lane, 5000)
        for _ in range(10):
            world.round()
        assert mode_of(world) == "free"
        for lane in world.up():
            world.offer(lane, 10)
        world.round()
        world.round()
        assert all(world.state.lanes.ordered_length(lane.lane) == lane.core.length > 5000 for lane in world.up())
        index = world.index
        for _ in range(10):
            world.round()
        assert world.index == index, "nothing is tried that would be void"
    world.settle()
    assert mode_of(world) == "fixed"
