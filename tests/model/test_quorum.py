"""How many servers there must be, and how many may be lost."""

from itertools import combinations

import pytest

from ithaca.model.quorum import majority, shard_f, shard_size


@pytest.mark.parametrize("masking", [False, True])
@pytest.mark.parametrize("f", range(6))
def test_a_shard_of_the_size_for_f_survives_f(f: int, masking: bool) -> None:
    assert shard_f(shard_size(f, masking), masking) == f
    assert shard_f(shard_size(f, masking) - 1, masking) < max(f, 1)


def test_with_masking_an_even_number_survives_no_more_than_one_less() -> None:
    assert [shard_f(replicas, masking=True) for replicas in (1, 2, 3, 4, 5)] == [0, 0, 1, 1, 2]


@pytest.mark.parametrize("members", range(1, 7))
def test_any_two_majorities_meet_and_fewer_need_not(members: int) -> None:
    most = majority(members)
    groups = list(map(set, combinations(range(members), most)))
    assert all(one & other for one in groups for other in groups)
    fewer = list(map(set, combinations(range(members), most - 1)))
    assert any(not one & other for one in fewer for other in fewer)
