"""Replicas that differ are found, and the first command that made them differ is named."""

from random import Random
from typing import Any

import pytest
from tests.objects.machines import command, machine_of, play, record

from ithaca.model.errors import Diverged
from ithaca.model.records import Record
from ithaca.objects.machine import Append, Effect, Fail, Machine, ReadAgain, ReadBack


class Bag:
    """What is planted in it is not the same on every replica."""

    chance = Random(0)

    def __init__(self) -> None:
        self.total = 0
        self.luck = 0

    def add(self, amount: int) -> int:
        self.total += amount
        return self.total

    def draw(self) -> int:
        return self.chance.getrandbits(32)

    def drift(self) -> None:
        self.luck = self.chance.getrandbits(32)


class World:
    """Replicas on one log in memory: what they append is played by all of them."""

    def __init__(self, replicas: int = 2, checks: int = 8) -> None:
        self.log: list[Record] = []
        self.machines: list[Machine[Bag]] = [
            machine_of(Bag, origin, checks=checks) for origin in range(1, 1 + replicas)
        ]
        self.played = [0] * replicas
        self.found: list[Diverged] = []

    def propose(self, method: str, *arguments: Any) -> int:
        self.log.append(command(len(self.log) + 1, Bag, method, *arguments, origin=99))
        return len(self.log)

    def settle(self, random: Random) -> None:
        """Play everything everywhere, in any order of the replicas and in pieces of any size."""
        while any(played < len(self.log) for played in self.played):
            which = random.choice([at for at, played in enumerate(self.played) if played < len(self.log)])
            count = random.randint(1, len(self.log) - self.played[which])
            records = self.log[self.played[which] : self.played[which] + count]
            self.played[which] += count
            self.perform(self.machines[which], play(self.machines[which], *records))

    def perform(self, machine: Machine[Bag], effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Append):
                self.log.append(record(len(self.log) + 1, effect.value))
            elif isinstance(effect, Fail):
                assert isinstance(effect.error, Diverged)
                self.found.append(effect.error)
            elif isinstance(effect, ReadAgain):
                again = self.log[effect.start - 1 : effect.position]
                self.perform(machine, machine.step(ReadBack(effect.position, again)))


def drawn(seed: int, bad: str | None, *, checks: int = 8) -> tuple[World, int]:
    """A run of 60 commands, one of which is planted; where that stands."""
    random = Random(seed)
    Bag.chance = Random(seed)
    world = World(random.choice([2, 3]), checks)
    planted, at = random.randrange(40), 0
    for number in range(60):
        if number == planted and bad is not None:
            at = world.propose(bad)
        else:
            world.propose("add", random.randrange(100))
        if random.random() < 0.3:
            world.settle(random)
    world.settle(random)
    return world, at


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("bad", ["draw", "drift"])
def test_a_planted_command_is_found_and_named(seed: int, bad: str) -> None:
    world, at = drawn(seed, bad)
    named = [(error.position, error.method) for error in world.found if error.position]
    assert named
    assert set(named) == {(at, bad)}


@pytest.mark.parametrize("seed", range(10))
def test_deterministic_commands_never_differ(seed: int) -> None:
    world, _ = drawn(seed, None)
    assert world.found == []
    assert any(len(each._agreement._kept) > 1 for each in world.machines), "checks were made"


def test_a_replica_that_joins_between_checks_compares_what_it_has_seen() -> None:
    world = World(2)
    random = Random(1)
    for _ in range(12):
        world.propose("add", 1)
    world.settle(random)
    late: Machine[Bag] = machine_of(Bag, 7, checks=8)
    late.restore(machine_snapshot(world.machines[0]))
    world.machines.append(late)
    world.played.append(late.position - 1)
    for _ in range(20):
        world.propose("add", 1)
    world.settle(random)
    assert world.found == []


def test_a_difference_that_does_not_come_again_is_told_with_its_range() -> None:
    world = World(2)
    for _ in range(5):
        world.propose("add", 1)
    world.settle(Random(1))
    world.machines[0].state.luck = 1  # as a flipped bit would
    for _ in range(5):
        world.propose("add", 1)
    world.settle(Random(1))
    assert world.found
    assert all(error.position == 0 for error in world.found)
    assert any("once more gave the same" in str(error) for error in world.found)


def test_checks_of_another_version_are_no_evidence() -> None:
    """A class whose fault was repaired is another version, and can play what the faulty one has left."""
    world, _ = drawn(3, "draw")
    repaired = machine_of(Bag, 50, checks=8, version=2)
    repaired._kind.accepts = (1, 2)
    effects = play(repaired, *world.log)
    assert not [effect for effect in effects if isinstance(effect, Fail)]


def machine_snapshot(machine: Machine[Bag]) -> Any:
    from ithaca.objects.machine import Save, SnapshotWanted

    (saved,) = machine.step(SnapshotWanted())
    assert isinstance(saved, Save)
    return saved.snapshot
