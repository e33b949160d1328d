"""Who has which part of a group: balanced, sticky, one holder at a time, whoever comes, goes, or does nothing."""

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ithaca.consumers.assigning import Assignment
from ithaca.model.groups import GroupBeat, GroupTold
from ithaca.model.limits import GROUP_LEASE_S

LEASE_S = 4.0


@dataclass
class Member:
    """A member that does what it is told: it opens what it is granted, and finishes what is asked back."""

    name: int
    number: int = 0
    opened: set[int] = field(default_factory=set)
    leaving: set[int] = field(default_factory=set)

    def beat(self, *, is_leaving: bool = False) -> GroupBeat:
        self.number += 1
        holds = tuple(sorted(self.opened))
        return GroupBeat("billing", self.name, self.number, holds, int(LEASE_S * 1000), is_leaving)

    def heard(self, told: GroupTold, owners: list[int]) -> None:
        self.opened &= {*told.granted, *told.asked_back}
        self.leaving = self.opened & set(told.asked_back)
        for part in told.granted:
            self.opened.add(part)
            owners[part] = self.name


class Group:
    """Some members, and whoever assigns them."""

    def __init__(self, parts: int) -> None:
        self.owners = [0] * parts
        self.assignment = Assignment(self.owners, 0.0)
        self.now_s = 0.0
        self.members: dict[int, Member] = {}

    def join(self, name: int) -> Member:
        return self.members.setdefault(name, Member(name))

    def turn(self, name: int, *, finishes: bool = True) -> GroupTold:
        member = self.members[name]
        if finishes:
            member.opened -= member.leaving
        told = self.assignment.step(member.beat(), self.owners, self.now_s)
        member.heard(told, self.owners)
        return told

    def settle(self) -> None:
        for _ in range(4):
            for name in self.members:
                self.turn(name)

    def shares(self) -> dict[int, set[int]]:
        return {name: set(member.opened) for name, member in self.members.items()}


def settled(parts: int, *names: int) -> Group:
    group = Group(parts)
    for name in names:
        group.join(name)
        group.turn(name)
    group.settle()
    return group


def test_the_first_member_has_everything_at_once() -> None:
    group = Group(4)
    group.join(1)
    assert group.turn(1).granted == (0, 1, 2, 3)


def test_one_more_member_takes_its_share_and_no_other_part_moves() -> None:
    """Invariant 3."""
    group = settled(7, 1, 2)
    before = group.shares()
    group.join(3)
    group.settle()
    after = group.shares()
    assert sorted(map(len, after.values())) == [2, 2, 3]
    assert after[1] < before[1] or after[1] == before[1]
    assert after[2] < before[2] or after[2] == before[2]
    assert after[3] == (before[1] | before[2]) - after[1] - after[2]


def test_a_part_is_handed_over_when_its_holder_says_that_it_is_finished() -> None:
    group = settled(2, 1)
    group.join(2)
    assert group.turn(2).granted == ()
    back = group.turn(1, finishes=False).asked_back
    assert len(back) == 1
    assert group.turn(2).granted == ()
    assert group.turn(1, finishes=True).granted == tuple({0, 1} - set(back))
    assert group.turn(2).granted == back


def test_a_holder_that_does_not_finish_loses_the_part_when_its_lease_has_passed() -> None:
    group = settled(2, 1)
    group.join(2)
    group.turn(2)
    back = group.turn(1, finishes=False).asked_back
    for _ in range(4):
        group.now_s += LEASE_S / 4
        told = group.turn(2)
        group.turn(1, finishes=False)
    assert told.granted == back
    assert group.members[1].opened == {0, 1} - set(back)


def test_what_a_dead_member_had_goes_on_when_its_lease_has_ended() -> None:
    """Invariant 4."""
    group = settled(4, 1, 2)
    dead = group.shares()[1]
    group.now_s += LEASE_S - 0.1
    assert set(group.turn(2).granted).isdisjoint(dead)
    group.now_s += 0.1
    assert dead <= set(group.turn(2).granted)


def test_a_member_that_leaves_hands_over_at_once() -> None:
    group = settled(4, 1, 2)
    told = group.assignment.step(group.members[1].beat(is_leaving=True), group.owners, group.now_s)
    assert (told.granted, told.asked_back) == ((), ())
    assert group.turn(2).granted == (0, 1, 2, 3)


def test_members_beyond_the_parts_wait() -> None:
    group = settled(2, 1, 2, 3)
    assert sorted(map(len, group.shares().values())) == [0, 1, 1]
    group.assignment.step(group.members[1].beat(is_leaving=True), group.owners, group.now_s)
    assert len(group.turn(3).granted) == 1


def test_a_new_leader_leaves_parts_to_those_who_opened_them() -> None:
    group = settled(6, 1, 2, 3)
    before = group.shares()
    group.assignment = Assignment(group.owners, group.now_s)
    group.join(4)
    assert group.turn(4).granted == ()
    for name in (3, 1, 2):
        told = group.turn(name, finishes=False)
        assert set(told.granted) | set(told.asked_back) == before[name]


def test_a_new_leader_waits_for_a_lease_for_those_that_it_did_not_hear_of() -> None:
    group = settled(2, 1)
    group.assignment = Assignment(group.owners, group.now_s)
    group.join(2)
    assert group.turn(2).granted == ()
    group.now_s += GROUP_LEASE_S
    assert group.turn(2).granted == (0, 1)


def test_who_was_fenced_is_told_so_and_opens_again() -> None:
    group = settled(2, 1)
    group.owners[1] = 99
    told = group.turn(1, finishes=False)
    assert (told.granted, told.asked_back) == ((0,), ())
    assert group.turn(1, finishes=False).granted == (0, 1)


def test_a_beat_that_comes_late_gives_nothing_away() -> None:
    group = Group(2)
    late = group.join(1).beat()
    group.turn(1)
    group.settle()
    group.join(2)
    group.turn(2)
    assert len(group.turn(1, finishes=False).asked_back) == 1
    group.assignment.step(late, group.owners, group.now_s)
    assert group.turn(2).granted == ()


class Rebalancing(RuleBasedStateMachine):
    """Members come, go, die, pause and dawdle in any order, and leaders change: nobody shares a part."""

    @initialize(parts=st.integers(1, 9))
    def begin(self, parts: int) -> None:
        self.group = Group(parts)
        self.came = 0

    @rule()
    def join(self) -> None:
        if len(self.group.members) < 6:
            self.came += 1
            self.group.join(self.came)
            self.group.turn(self.came)

    @rule(choice=st.integers(0, 5), finishes=st.booleans())
    def beat(self, choice: int, finishes: bool) -> None:
        if names := sorted(self.group.members):
            self.group.turn(names[choice % len(names)], finishes=finishes)

    @rule(choice=st.integers(0, 5))
    def leave(self, choice: int) -> None:
        if names := sorted(self.group.members):
            gone = self.group.members.pop(names[choice % len(names)])
            self.group.assignment.step(gone.beat(is_leaving=True), self.group.owners, self.group.now_s)

    @rule(choice=st.integers(0, 5))
    def die(self, choice: int) -> None:
        if names := sorted(self.group.members):
            self.group.members.pop(names[choice % len(names)])

    @rule()
    def change_leader(self) -> None:
        self.group.assignment = Assignment(self.group.owners, self.group.now_s)

    @rule(part=st.integers(0, 8))
    def reset_elsewhere(self, part: int) -> None:
        self.group.owners[part % len(self.group.owners)] = 10_000

    @rule(seconds=st.sampled_from([0.1, 1.0, 1.9]))
    def wait(self, seconds: float) -> None:
        """Everybody that is alive beats before its own lease is over: so much is promised of a member."""
        for name in self.group.members:
            self.group.turn(name, finishes=False)
        self.group.now_s += seconds

    @invariant()
    def no_part_is_handed_out_by_two(self) -> None:
        """Invariant 1."""
        if not hasattr(self, "group"):
            return
        handing = [part for each in self.group.members.values() for part in each.opened - each.leaving]
        assert len(handing) == len(set(handing))

    @invariant()
    def held_once(self) -> None:
        if hasattr(self, "group"):
            held = [part for each in self.group.assignment.members(self.group.now_s) for part in each.parts]
            assert len(held) == len(set(held))

    def teardown(self) -> None:
        """Invariant 2: when all is quiet, every part is held, and fairly."""
        if not hasattr(self, "group") or not self.group.members:
            return
        for _ in range(12):  # what the dead had is free when their leases have ended
            self.group.now_s += 1.0
            self.group.settle()
        shares = self.group.shares()
        assert set().union(*shares.values()) == set(range(len(self.group.owners)))
        assert max(map(len, shares.values())) - min(map(len, shares.values())) <= 1


TestRebalancing = Rebalancing.TestCase
TestRebalancing.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
