"""Which lane a record goes to."""

import random
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from ithaca.engines.scalog.client.append.policy import Lanes
from ithaca.model.errors import InvalidInput
from ithaca.model.interface import ShardPolicy
from ithaca.model.limits import LANE_STALLED_S
from ithaca.model.positions import LaneId
from ithaca.model.view import Address, Replica, Shard, View


def view_of(shards: int, replicas: int = 2, *, version: int = 1, closed: frozenset[LaneId] = frozenset()) -> View:
    def member(shard: int, replica: int) -> Replica:
        is_open = LaneId(shard, replica, 1) not in closed
        return Replica(replica, Address("127.0.0.1", 7600 + 10 * shard + replica), 1, 1, is_open)

    found = [
        Shard(shard, replicas - 1, False, tuple(member(shard, replica) for replica in range(replicas)), replicas - 1)
        for shard in range(shards)
    ]
    return View(version, tuple(found))


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def lanes_by(policy: ShardPolicy, seed: int = 7) -> tuple[Lanes, Clock]:
    clock = Clock()
    return Lanes(policy, clock, random.Random(seed)), clock


def test_sticky_keeps_one_lane_while_it_works() -> None:
    view = view_of(3)
    chosen = {lanes_by("sticky", seed)[0].choose(view, None) for seed in range(50)}
    assert chosen == set(view.live_lanes())
    lanes, clock = lanes_by("sticky")
    first = lanes.choose(view, b"k")
    assert {lanes.choose(view, b"%d" % n) for n in range(20)} == {first}
    assert first is not None
    lanes.leave(first)
    second = lanes.choose(view, None)
    assert second != first
    clock.now_s = 2 * LANE_STALLED_S
    assert lanes.choose(view, None) == second
    gone = frozenset({second}) if second is not None else frozenset()
    assert lanes.choose(view_of(3, version=2, closed=gone), None) not in (None, second)


def test_a_lane_that_was_left_is_used_when_there_is_no_other() -> None:
    lanes, _ = lanes_by("sticky")
    view = view_of(1, replicas=1)
    lanes.leave(LaneId(0, 0, 1))
    assert lanes.choose(view, None) == LaneId(0, 0, 1)
    assert lanes.choose(View(9), None) is None


def test_round_robin_takes_every_lane_in_turn() -> None:
    lanes, _ = lanes_by("round_robin")
    view = view_of(2)
    assert [lanes.choose(view, None) for _ in range(8)] == view.live_lanes() * 2


def shards_of(keys: list[bytes], shards: list[int]) -> list[int]:
    lanes, _ = lanes_by("key_hash")
    whole = view_of(max(shards) + 1)
    view = View(1, tuple(each for each in whole.shards if each.shard in shards))
    found = [lanes.choose(view, key) for key in keys]
    assert found == [lanes.choose(view, key) for key in keys]
    return [lane.shard for lane in found if lane is not None]


KEYS = [b"key-%d" % n for n in range(4000)]


def test_key_hash_divides_the_keys_evenly_among_the_shards() -> None:
    for count in (1, 2, 3, 7):
        found = shards_of(KEYS, list(range(count)))
        assert len(found) == len(KEYS)
        shares = [found.count(shard) * count / len(KEYS) for shard in range(count)]
        assert all(0.8 < share < 1.2 for share in shares), shares
    assert lanes_by("key_hash")[0].choose(view_of(3), None) is not None


@given(st.sets(st.integers(0, 60), min_size=1, max_size=12), st.integers(0, 60))
def test_only_the_keys_of_a_shard_that_comes_or_goes_move(others: set[int], shard: int) -> None:
    without, having = sorted(others - {shard}), sorted(others | {shard})
    assume(without)
    keys = KEYS[:500]
    before, after = shards_of(keys, without), shards_of(keys, having)
    moved = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
    assert {new for _, new in moved} <= {shard}
    assert len(moved) == after.count(shard) < 2.5 * len(keys) / len(having)


def test_keys_are_placed_as_ever() -> None:
    """Clients of different versions must agree."""
    assert shards_of(KEYS[:12], [0, 1, 2, 3]) == [1, 0, 3, 3, 2, 2, 2, 0, 2, 2, 1, 1]


def test_shards_that_take_nothing_new_are_not_chosen() -> None:
    view = view_of(3)
    leaving = [replace(view.shards[0], phase="finalizing"), replace(view.shards[1], phase="finalized")]
    rest = View(2, (*leaving, view.shards[2]))
    seen: set[tuple[int, ...]] = set()

    def choose(key: bytes | None, shards: Any) -> int:
        seen.add(tuple(shards))
        return int(shards[0])

    policies: list[ShardPolicy] = ["sticky", "round_robin", "key_hash", "nearest", choose]
    for policy in policies:
        lanes, _ = lanes_by(policy)
        lanes.distances_s = {lane: lane.shard for lane in view.live_lanes()}
        for n in range(20):
            lanes.choose(view, b"%d" % n)
        chosen = {lanes.choose(rest, b"%d" % n) for n in range(20)}
        assert chosen <= set(view.shards[2].open_lanes()), policy
    assert seen == {(0, 1, 2), (2,)}


def test_nearest_takes_the_closest_that_was_measured() -> None:
    lanes, _ = lanes_by("nearest")
    view = view_of(2)
    near, far = LaneId(1, 0, 1), LaneId(0, 1, 1)
    lanes.distances_s = {far: 0.5, near: 0.001}
    assert lanes.choose(view, None) == near
    lanes.leave(near)
    assert lanes.choose(view, None) == far


def test_distances_count_for_nearest_alone() -> None:
    view = view_of(3)
    lanes, _ = lanes_by("key_hash")
    chosen = lanes.choose(view, None)
    assert chosen is not None
    lanes.distances_s = {lane: 0.001 for lane in view.live_lanes() if lane != chosen}
    assert lanes.choose(view, None) == chosen, "it stays where it is without a key, whatever is near"


def test_a_function_gets_the_key_and_the_live_shards() -> None:
    seen: list[tuple[bytes | None, tuple[int, ...]]] = []

    def choose(key: bytes | None, shards: Any) -> int:
        seen.append((key, tuple(shards)))
        return 1 if key == b"one" else 99

    lanes, _ = lanes_by(choose)
    view = view_of(2)
    lane = lanes.choose(view, b"one")
    assert lane is not None
    assert lane.shard == 1
    assert seen == [(b"one", (0, 1))]
    with pytest.raises(InvalidInput, match="99"):
        lanes.choose(view, None)


def test_an_unknown_policy_is_refused_by_name() -> None:
    wrong: Any = "fastest"
    with pytest.raises(InvalidInput, match="fastest"):
        lanes_by(wrong)
