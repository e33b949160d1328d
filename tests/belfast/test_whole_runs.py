"""Drawn runs of lanes, a leader and a client against naive judges (invariants 1 to 9)."""

from random import Random

import pytest
from tests.belfast.world import REPLICAS, World


def run(seed: int, *, shards: int, steps: int, faults: bool) -> World:
    random = Random(seed)
    world = World(random, shards, quotas=random.choice(["wide", "wide", "rate"]), rounds=random.choice([1, 2, 5]))
    for _ in range(steps):
        primaries = world.up()
        primary = random.choice(primaries) if primaries else None
        match random.randint(0, 40):
            case number if number < 6 and primary:
                world.offer(primary, random.choice([1, 1, 2, 3, 50, 5000]))
            case number if number < 9 and primary:
                world.hand(primary)
            case number if number < 16 and primary:
                world.sync(primary, random.choice(REPLICAS))
            case number if number < 20 and primary:
                world.report(primary)
            case number if number < 24:
                world.decide()
            case number if number < 28:
                world.commit()
            case number if number < 32 and primary:
                world.hear(primary)
            case 33:
                world.tick()
            case 34 if random.random() < 0.3:
                world.publish(random.randint(1, 3))
            case 35 if faults and primary and random.random() < 0.15:
                world.fail(primary)
            case 36 if faults and primary and random.random() < 0.2 and world.order.mode == "fixed":
                world.take_over(primary)
            case 37 if faults and random.random() < 0.3:
                world.lead()
            case _:
                world.consume()
    world.drain()
    return world


def check(world: World) -> None:
    delivered = {position: name for position, _, name, _ in world.client.records}
    assert delivered == world.ordered
    assert not world.lost & set(world.ordered.values())


@pytest.mark.parametrize("seed", range(12))
def test_without_faults_nothing_fails(seed: int) -> None:
    world = run(seed, shards=1 + seed % 3, steps=400, faults=False)
    check(world)
    assert world.client.failed == 0
    assert not world.lost


@pytest.mark.parametrize("seed", range(20))
def test_with_faults_what_is_confirmed_stays(seed: int) -> None:
    check(run(100 + seed, shards=1 + seed % 3, steps=500, faults=True))


@pytest.mark.campaign
@pytest.mark.parametrize("part", range(20))
def test_with_faults_what_is_confirmed_stays_in_many_runs(part: int) -> None:
    for seed in range(100):
        check(run(1000 + 100 * part + seed, shards=1 + seed % 8, steps=1500, faults=True))
