"""What is hardest for an order of slots, staged one by one (engines: a primary cut off, promises, races, windows)."""

from itertools import product
from random import Random

import pytest
from tests.belfast.led_world import Lane, LedWorld, Replica
from tests.ordering.building import address

from ithaca.engines.belfast.speculation.entries import BelfastEntry, CutRange, FailLane, OpenWindow
from ithaca.engines.scalog.ordering.entries import AddReplica, RemoveReplica
from ithaca.engines.scalog.ordering.outcomes import RefusedEntry
from ithaca.model.positions import LaneId


def begun(shards: int = 1, rounds: int = 4) -> LedWorld:
    """A world whose order is fixed."""
    world = LedWorld(Random(1), shards, rounds)
    for _ in range(8):
        world.round()
    assert world.state.slots.mode == "fixed"
    return world


def lane_of(world: LedWorld, shard: int = 0) -> Lane:
    (lane,) = [lane for name, lane in world.lanes.items() if name.shard == shard]
    return lane


def write(world: LedWorld, lane: Lane, records: int, *synced: int) -> None:
    """A batch that these replicas sync, whose acknowledgements arrive."""
    world.offer(lane, records)
    world.hand(lane)
    for number in synced:
        replica = world.replicas[lane.lane.shard, number]
        while replica.synced.get(lane.lane, 0) < lane.core.length and lane.lane not in replica.promised:
            world.sync(lane, replica)
    while world.inbox:
        world.hear()


def ordered_of(world: LedWorld, lane: LaneId) -> int:
    return sum(at[0] == lane for at in world.ordered.values())


def test_a_primary_that_only_the_orderers_do_not_reach_is_taken_over_and_heals() -> None:
    """Its follower acknowledges on, until it promises: all that was delivered by then is ordered in its place."""
    world = begun()
    lane, primary = lane_of(world), world.replicas[0, 0]
    write(world, lane, 2, 0, 1)
    world.cut_off(primary)
    write(world, lane, 3, 0, 1)
    assert lane.delivered == 5, "the primary does not know yet, and speculators have it"
    world.round()
    world.round()
    assert lane.lane in world.leader.takeovers or not world.state.lanes.is_open(lane.lane)
    write(world, lane, 4, 0, 1, 2)
    assert lane.delivered == 5, "nobody acknowledges any more"
    world.heal(primary)
    world.settle()
    assert not world.failed
    assert ordered_of(world, lane.lane) == 5
    assert lane_of(world).lane != lane.lane


def test_a_watermark_stays_true_when_the_primary_is_killed_before_any_write() -> None:
    """The slots that it has passed stay empty, and the next lane has none before the end of all windows."""
    world = begun(rounds=5)
    lane = lane_of(world)
    lane.core._pass_to(3)
    told = lane.core.watermark
    assert told > world.state.tail, "slots are passed that are not ordered"
    horizon = world.state.slots.end
    world.kill(world.replicas[0, 0])
    for _ in range(8):
        world.round()
    after = lane_of(world)
    assert after.lane.replica != 0
    write(world, after, 2, 1, 2)
    world.settle()
    assert not world.failed
    assert ordered_of(world, after.lane) == 2
    assert min(world.ordered) >= horizon >= told


@pytest.mark.parametrize("kept", list(product((False, True), repeat=3)))
def test_a_leader_changes_with_a_cut_a_window_and_a_failure_uncommitted(kept: tuple[bool, bool, bool]) -> None:
    """Whatever of them is committed under the next leader, in this order: each counts as a whole, or not at all."""
    world = begun(shards=2)
    first, second = lane_of(world, 0), lane_of(world, 1)
    write(world, first, 2, 0, 1)
    write(world, second, 3, 0, 1)
    world.report(first)
    world.report(second)
    for lane in (first, second):
        lane.core._pass_to(2)
        world.report(lane)
    world.now_us += 1
    world.decide()
    slots = world.state.slots
    cuts = [entry for _, entry in world.raft if isinstance(entry, CutRange)]
    assert cuts, "a cut is in flight"
    lanes = tuple(sorted((first.lane, second.lane)))
    window = OpenWindow(slots.number + 1, slots.end, 4, 1, (4096,), lanes, slots.attempt)
    entries: list[BelfastEntry] = [cuts[0], window, FailLane(first.lane)]
    world.raft.clear()
    world.lead()
    world.raft.extend((world.term - 1, entry) for entry, is_kept in zip(entries, kept, strict=True) if is_kept)
    while world.raft:
        world.commit()
    world.settle()
    assert (first.lane in world.failed) == kept[2]
    assert ordered_of(world, second.lane) == 3
    if not kept[2] or kept[0]:
        assert ordered_of(world, first.lane) == 2


def test_an_emptied_copy_does_not_count_when_the_primary_is_killed_next() -> None:
    """A follower lost its disk while something was delivered and not ordered: what it acknowledged is gone with it, and
    the primary is waited for, which has the rest."""
    world = begun()
    lane = lane_of(world)
    write(world, lane, 2, 0, 1)
    assert lane.delivered == 2
    follower = world.replicas[0, 1]
    world.kill(follower)
    follower.wipe()
    world.restart(follower)
    world.kill(world.replicas[0, 0])
    world.round()
    assert not ordered_of(world, lane.lane), "one disk that counts is left, and it has nothing"
    world.restart(world.replicas[0, 0])
    world.settle()
    assert not world.failed
    assert ordered_of(world, lane.lane) == 2


def change(world: LedWorld, entry: AddReplica | RemoveReplica) -> None:
    """As a server does it: once the order is free."""
    world.leader.changes = 1
    while not world.leader.is_free:
        world.round()
    world.raft.append((world.term, entry))
    world.commit()
    world.leader.changes = 0


def replace(world: LedWorld, former: int, number: int) -> None:
    """Another replica takes the place of this one, which is gone: with all that is ordered, and no more."""
    epoch = world.state.shards.by_number[0].epoch
    change(world, RemoveReplica(0, epoch, former))
    change(world, AddReplica(0, epoch + 1, number, address(number)))
    gone = world.replicas.pop((0, former))
    assert not gone.is_up
    fresh = world.replicas[0, number] = Replica(0, number)
    fresh.synced = {lane: ordered_of(world, lane) for lane in world.all_lanes}
    world.restart(fresh)


@pytest.mark.parametrize("former", [0, 1], ids=["primary", "follower"])
def test_a_replica_is_replaced_under_records_that_are_not_ordered_and_then_the_primary_is_killed(former: int) -> None:
    """All that was delivered is ordered before the shard changes; what is delivered then is on the new replica's disk,
    from where the next takeover has it."""
    world = begun()
    lane = lane_of(world)
    write(world, lane, 5, 0, 1)
    world.kill(world.replicas[0, former])
    assert (lane.delivered, ordered_of(world, lane.lane)) == (5, 0)
    removal = RemoveReplica(0, world.state.shards.by_number[0].epoch, former)
    world.index += 1
    (refused,) = world.state.apply(world.index, removal)
    assert isinstance(refused, RefusedEntry), "nobody leaves while something is delivered and not ordered"
    replace(world, former, 3)
    assert ordered_of(world, lane.lane) == 5
    for _ in range(8):
        world.round()
    assert world.state.slots.mode == "fixed"
    after = lane_of(world)
    assert (after.lane == lane.lane) == (former == 1), "the primary stays where a follower is replaced"
    primary = after.lane.replica
    before = after.delivered
    write(world, after, 4, primary, 3)
    assert (after.delivered - before, ordered_of(world, after.lane)) == (4, before)
    world.kill(world.replicas[0, primary])
    for _ in range(8):
        world.round()
    assert not world.state.lanes.is_open(after.lane)
    assert ordered_of(world, after.lane) == before + 4
    world.settle()
    assert not world.failed
