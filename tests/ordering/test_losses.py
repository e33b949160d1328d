"""What may be declared lost, by what the order and the replicas know, and what the state makes of it."""

import pytest
from tests.ordering.building import Driver

from ithaca.engines.scalog.messages.losing import DeclareLoss
from ithaca.engines.scalog.ordering.decisions.losses import HeldLength, check_ordered, declared, is_declared
from ithaca.engines.scalog.ordering.entries import CloseLane, DeclareLost, TrimTo
from ithaca.engines.scalog.ordering.lost import Unplaced
from ithaca.engines.scalog.ordering.outcomes import RangeLost
from ithaca.engines.scalog.ordering.state import OrderingState
from ithaca.engines.scalog.server.rights import SCALOG_RULES
from ithaca.model.errors import InvalidInput, NoSuchShard, NotAllowed
from ithaca.model.positions import LaneId
from ithaca.protocol.codec import Received, is_administrative
from ithaca.users.caller import Caller

Declared = tuple[int, int, int | None]


def closed() -> tuple[Driver, LaneId, LaneId]:
    """Nine records of a closed lane are ordered, the last one at position 10, and one of an open lane."""
    driver = Driver()
    lane, other = driver.shard(1)
    driver.cut({lane: 4, other: 1})
    driver.cut({lane: 9})
    driver.apply(CloseLane(lane))
    return driver, lane, other


@pytest.mark.parametrize(
    ("start", "stop", "entry"),
    [
        (4, 9, (4, 9, 6)),
        (4, 6, (4, 6, None)),
        (7, 9, (7, 9, 7)),
        (5, 8, "nobody knows the positions"),
        (3, 9, "holds lane 1-0-1 up to LSN 4"),
    ],
)
def test_only_what_no_replica_holds_is_declared(start: int, stop: int, entry: tuple[int, int, int] | str) -> None:
    held = {0: HeldLength(4, 3), 1: HeldLength(2, 6)}
    lane = LaneId(1, 0, 1)
    if isinstance(entry, str):
        with pytest.raises(InvalidInput, match=entry):
            declared(lane, start, stop, 9, held)
    else:
        assert declared(lane, start, stop, 9, held) == DeclareLost(lane, *entry)


def test_records_without_a_position_are_not_held() -> None:
    assert declared(LaneId(1, 0, 1), 2, 9, 9, {0: HeldLength(9, 2)}).placed == 2
    assert declared(LaneId(1, 0, 1), 0, 9, 9, {}).placed == 0
    with pytest.raises(InvalidInput, match="nothing of it is lost"):
        declared(LaneId(1, 0, 1), 0, 9, 9, {0: HeldLength(9, 9)})


def test_what_is_not_ordered_or_may_come_is_not_declared() -> None:
    driver, lane, other = closed()
    check_ordered(driver.state, lane, 0, 9)
    for wrong, why in (
        ((lane, 9, 9), "there is nothing"),
        ((lane, 0, 10), "only 9 records"),
        ((other, 0, 1), "is open"),
        ((lane._replace(incarnation=9), 0, 1), "nothing is ordered"),
    ):
        with pytest.raises(InvalidInput, match=why):
            check_ordered(driver.state, *wrong)
    with pytest.raises(NoSuchShard):
        check_ordered(driver.state, LaneId(7, 0, 1), 0, 1)
    driver.apply(DeclareLost(lane, 4, 9))
    assert is_declared(driver.state, lane, 5, 9)
    assert not is_declared(driver.state, lane, 3, 9)


def test_an_end_without_positions_is_kept_until_it_is_trimmed_and_told_to_whoever_joins() -> None:
    driver, lane, other = closed()
    assert driver.apply(DeclareLost(lane, 4, 9, 6)) == [RangeLost(lane, 4, 9, Unplaced(6, 11))]
    assert driver.apply(DeclareLost(lane, 2, 9, 5)) == [RangeLost(lane, 2, 9, Unplaced(5, 11))]
    assert driver.apply(DeclareLost(lane, 2, 9)) == [RangeLost(lane, 2, 9, Unplaced(5, 11))], "it is not taken back"
    summary = driver.state.summary(1)
    assert summary is not None
    assert summary.unplaced == [(lane, Unplaced(5, 11))]
    assert OrderingState.restored(driver.state.snapshot()) == driver.state
    for wrong in (DeclareLost(lane, 2, 8, 5), DeclareLost(other, 0, 1, 0)):
        assert driver.reason(wrong) == "the lane does not end there"
    driver.apply(TrimTo(11))
    assert (driver.state.lost, driver.state.unplaced) == ({}, {})


def test_a_declaration_takes_the_right_of_administrators_and_is_audited() -> None:
    message = DeclareLoss(LaneId(0, 1, 3), 40, 100)
    assert is_administrative(message)
    with pytest.raises(NotAllowed, match="admin"):
        SCALOG_RULES[DeclareLoss](Caller("somebody", lambda: None), Received(message, 1, False, b""))
