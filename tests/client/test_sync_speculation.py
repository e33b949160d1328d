"""Speculation in the caller's thread: what the twin tells, in its order, each event once."""

from tests.speculation.scripted import AwaitedScripted, Confirmed, Failed, delivered

from ithaca.client.portal import portal
from ithaca.client.sync.speculation import SyncSpeculation
from ithaca.model.speculation import SpeculativeEvent

GROUPS: list[list[SpeculativeEvent]] = [[*delivered(4, 5), Confirmed(5)], [Failed(5)], delivered(6, attempt=1)]


def test_events_come_one_by_one_or_as_they_were_told() -> None:
    twin = AwaitedScripted(GROUPS, position=4)
    speculation = SyncSpeculation(portal(), lambda: twin)
    assert speculation.position == 4
    assert next(speculation) == GROUPS[0][0]
    assert speculation.take(0) == GROUPS[0][1:], "what is left of what was fetched"
    assert speculation.take(0) == GROUPS[1]
    twin.twin._position = 7
    assert list(speculation) == GROUPS[2]
    assert speculation.position == 7
    assert speculation.take(0) == []


def test_nothing_comes_from_one_that_is_closed() -> None:
    twin = AwaitedScripted(GROUPS)
    with SyncSpeculation(portal(), lambda: twin) as speculation:
        assert next(speculation) == GROUPS[0][0]
    assert twin.twin.closed == 1
    assert (list(speculation), speculation.take(0)) == ([], [])
