"""Where a lane's copy limits what can be read, by what it lacks, what was trimmed and what is lost."""

from ithaca.engines.scalog.replica.events import Held
from ithaca.engines.scalog.replica.lanes import UNLIMITED, LaneCopy
from ithaca.model.cut import LaneRun
from ithaca.model.positions import LaneId

LANE = LaneId(0, 1, 1)


def lacking(durable: int = 12) -> LaneCopy:
    """Records 10 to 19 are at 100 to 109, of which only the first are here."""
    copy = LaneCopy(LANE, Held(durable, 20, (LaneRun(LANE, 10, 100, 10),), 110))
    copy.ordered = 20
    return copy


def test_what_is_missing_limits_reading() -> None:
    assert lacking().limit(1) == 102
    assert lacking(durable=10).limit(1) == 100
    assert lacking(durable=20).limit(1) == UNLIMITED


def test_what_was_trimmed_is_not_missing() -> None:
    assert lacking().limit(101) == 102
    assert lacking().limit(105) == 105
    assert lacking().limit(110) == UNLIMITED


def test_what_is_lost_is_not_missing() -> None:
    copy = lacking()
    copy.lost = ((12, 15),)
    assert copy.limit(1) == 105
    copy.lost = ((13, 15),)
    assert copy.limit(1) == 102
    copy.lost = ((12, 20),)
    assert copy.limit(1) == UNLIMITED
