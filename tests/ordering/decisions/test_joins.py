"""Who may join, by facts: replicas of the view, learners, and those who were somebody once."""

import pytest
from tests.ordering.building import Driver, address

from ithaca.engines.scalog.ordering.decisions.joins import boot_problem, member, opened_lane
from ithaca.engines.scalog.ordering.entries import AddReplica, Finalize, OpenLane, RemoveReplica, TrimTo
from ithaca.engines.scalog.ordering.outcomes import LaneOpened, Reason, RefusedEntry
from ithaca.engines.scalog.ordering.shards import boot_max
from ithaca.model.errors import InvalidInput, IthacaError, NoSuchReplica, NoSuchShard, Unavailable, WrongLane
from ithaca.model.positions import LaneId
from ithaca.model.view import Address, Replica

SPARE, OTHER = Address("10.0.0.9", 1), Address("10.0.0.9", 2)
LANE = LaneId(0, 1, 2)


@pytest.fixture
def driver() -> Driver:
    """Shard 0, of which replica 0 was replaced by the spare, and shard 1, which was reclaimed."""
    driver = Driver()
    for shard in (0, 1):
        driver.shard(shard)
    driver.apply(RemoveReplica(0, 1, 0))
    driver.apply(AddReplica(0, 2, 2, SPARE))
    driver.apply(Finalize(1))
    driver.apply(TrimTo(1))
    assert driver.state.shards.was_reclaimed(1)
    return driver


@pytest.mark.parametrize(
    ("shard", "replica", "enlisted_as", "found"),
    [
        (0, 1, None, 1),
        (0, 1, address(1), 1),
        (0, 2, SPARE, 2),
        (0, 2, None, 2),
        (0, 2, OTHER, NoSuchReplica),
        (0, 0, None, None),
        (0, 7, SPARE, None),
        (1, 0, None, NoSuchShard),
        (9, 0, None, Unavailable),
    ],
    ids=["founder", "of the file", "spare", "spare of old", "another's number", "removed", "learner", "gone", "later"],
)
def test_which_replica_of_the_view_it_is(
    driver: Driver, shard: int, replica: int, enlisted_as: Address | None, found: int | type[IthacaError] | None
) -> None:
    decided = member(driver.state.shards, shard, replica, enlisted_as)
    if found is None:
        assert decided is None
    elif isinstance(found, int):
        assert isinstance(decided, Replica)
        assert decided.replica == found
    else:
        assert isinstance(decided, found)


def test_a_boot_that_is_too_far_ahead_would_leave_no_numbers() -> None:
    replica = Replica(0, SPARE, boot=5)
    most = boot_max(5, 1_000)
    assert boot_problem(replica, 5, 1_000) is None
    assert boot_problem(replica, most, 1_000) is None
    assert isinstance(boot_problem(replica, most + 1, 1_000), InvalidInput)


@pytest.mark.parametrize(
    ("reason", "error"),
    [
        ("the shard is finalized", None),
        ("no such shard", NoSuchShard),
        ("no such replica", NoSuchReplica),
        ("the lane is closed", WrongLane),
        ("too many incarnations", InvalidInput),
    ],
)
def test_what_a_replica_is_told_that_gets_no_lane(reason: Reason, error: type[IthacaError] | None) -> None:
    told = opened_lane([RefusedEntry(OpenLane(0, 1, 1), reason)])
    assert told is None if error is None else isinstance(told, error)


def test_the_lane_that_a_replica_gets() -> None:
    assert opened_lane([LaneOpened(LANE, 3)]) == LANE
    with pytest.raises(AssertionError, match="no outcome"):
        opened_lane([])
