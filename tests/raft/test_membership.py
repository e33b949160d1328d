"""Configurations: one change of one server at a time, so that majorities overlap."""

from itertools import combinations

import pytest

from ithaca.model.limits import RAFT_MEMBERS_MAX
from ithaca.raft.events import Change, ChangeMembership, Reason
from ithaca.raft.membership import Membership, changed
from ithaca.raft.messages import Configuration, Snapshot, configuration_entry

NOW = Configuration((1, 2, 3), (4,))


@pytest.mark.parametrize(
    ("change", "server", "expected"),
    [
        ("add learner", 5, Configuration((1, 2, 3), (4, 5))),
        ("add learner", 2, "already a member"),
        ("promote", 4, Configuration((1, 2, 3, 4))),
        ("promote", 5, "no such member"),
        ("promote", 1, "already a member"),
        ("remove", 2, Configuration((1, 3), (4,))),
        ("remove", 4, Configuration((1, 2, 3), removed_last=4)),
        ("remove", 9, "no such member"),
    ],
)
def test_changes(change: Change, server: int, expected: Configuration | Reason) -> None:
    assert changed(NOW, ChangeMembership(1, change, server)) == expected


def test_the_last_voter_stays_and_groups_are_bounded() -> None:
    assert changed(Configuration((1,), (2,)), ChangeMembership(1, "remove", 1)) == "last voter"
    full = Configuration(tuple(range(1, RAFT_MEMBERS_MAX + 1)))
    assert changed(full, ChangeMembership(1, "add learner", 999)) == "too many members"


def test_majorities_before_and_after_any_change_overlap() -> None:
    """Thesis §4.1, figure 4.3"""

    def majorities(voters: tuple[int, ...]) -> list[set[int]]:
        sizes = range(len(voters) // 2 + 1, len(voters) + 1)
        return [set(chosen) for size in sizes for chosen in combinations(voters, size)]

    changes: list[tuple[Change, int]] = [("promote", 4), ("remove", 1), ("remove", 2)]
    for change, server in changes:
        after = changed(NOW, ChangeMembership(1, change, server))
        assert isinstance(after, Configuration)
        assert all(one & other for one in majorities(NOW.voters) for other in majorities(after.voters))


@pytest.mark.parametrize(
    ("values", "expected"),
    [([5], 5), ([5, 9], 5), ([1, 5, 9], 5), ([1, 2, 8, 9], 2), ([1, 2, 5, 8, 9], 5)],
)
def test_the_majority_value_is_what_a_majority_has_reached(values: list[int], expected: int) -> None:
    voters = tuple(range(len(values)))
    membership = Membership(Snapshot(configuration=Configuration(voters)))
    assert membership.majority_value(values.__getitem__) == expected
    assert membership.is_quorum(lambda voter: values[voter] >= expected)
    assert not membership.is_quorum(lambda voter: values[voter] > expected)


def test_a_group_without_voters_agrees_on_nothing() -> None:
    membership = Membership(Snapshot())
    assert not membership.is_quorum(lambda _: True)
    assert membership.majority_value(lambda _: 9) == 0


def test_history() -> None:
    membership = Membership(Snapshot(index=5, configuration=Configuration((1,))))
    membership.append([configuration_entry(7, 1, Configuration((1, 2)))])
    membership.append([configuration_entry(9, 1, Configuration((1, 2, 3)))])
    assert [len(membership.at(index).voters) for index in range(5, 11)] == [1, 1, 2, 2, 3, 3]
    assert [len(each.voters) for each in membership.since(6)] == [1, 2, 3]
    membership.compact(8)
    assert membership.at(8) == Configuration((1, 2))
    membership.truncate(9)
    assert (membership.current, membership.index) == (Configuration((1, 2)), 7)
