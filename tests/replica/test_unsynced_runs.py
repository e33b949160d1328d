"""What a replica does while its disk takes no positions (invariant 9): nothing is refused half-way, all comes later."""

import pytest
from tests.replica.driving import Driven, one, only

from ithaca.engines.scalog.ordering.entries import CloseLane
from ithaca.engines.scalog.replica import lanes, positions
from ithaca.engines.scalog.replica.events import (
    Acknowledge,
    Advanced,
    Effect,
    FetchRuns,
    NoteRuns,
    OrderLost,
    Rejoin,
    RunsFetched,
    RunsSynced,
    Synced,
    SyncRuns,
    Tick,
)
from ithaca.model.cut import LaneRun

ROOM = 3


@pytest.fixture(autouse=True)
def little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (lanes, positions):
        monkeypatch.setattr(module, "RUNS_UNSYNCED_MAX", ROOM)


def filled(runs: int = ROOM, *, masking: bool = False) -> Driven:
    """Its own lane is ordered, cut by cut, as far as there is room unless told otherwise."""
    driven = Driven(masking=masking)
    driven.joined()
    for length in range(1, runs + 1):
        driven.written()
        assert one(Acknowledge, driven.cut({driven.own: length})).position == length
    return driven


def syncing(driven: Driven) -> SyncRuns:
    """Let the time come for a sync of the runs, which goes on."""
    return one(SyncRuns, driven.step(Tick(10**9)) + driven.step(Tick(2 * 10**9)))


def synced(driven: Driven) -> list[Effect]:
    """Let the time come for a sync of the runs, and have it done."""
    return driven.step(RunsSynced(syncing(driven).cut))


def test_runs_for_which_there_is_no_room_are_not_known_and_stop_readers_and_answers() -> None:
    driven = filled()
    driven.written()
    effects = driven.cut({driven.own: ROOM + 1})
    assert not only(NoteRuns, effects)
    assert not only(Acknowledge, effects)
    assert one(Advanced, effects) == Advanced(tail=ROOM + 2, readable=ROOM + 1, first=1, view=driven.core.view_version)
    assert driven.core.state == "full"
    assert not driven.core.is_complete
    assert driven.core.runs_unsynced == ROOM
    driven.written()
    assert not only(NoteRuns, driven.cut({driven.own: ROOM + 2})), "nor any that follow"


def test_once_there_is_room_the_order_is_joined_again_and_everybody_gets_the_answer() -> None:
    driven = filled()
    for more in (1, 2):
        driven.written()
        driven.cut({driven.own: ROOM + more})
    assert one(Rejoin, synced(driven)).reason.startswith("positions that came")
    driven.step(OrderLost())
    effects = driven.joined()
    assert [each.position for each in only(Acknowledge, effects)] == [ROOM + 1, ROOM + 2]
    assert driven.core.state == "serving"
    assert driven.core.readable == ROOM + 3


def test_what_the_order_keeps_no_more_comes_from_peers() -> None:
    driven = filled(masking=True)
    for more in (1, 2):
        driven.written()
        driven.cut({driven.own: ROOM + more})
    assert one(Rejoin, synced(driven))
    driven.step(OrderLost())
    driven.order.state.kept.clear()
    wanted = one(FetchRuns, driven.joined())
    assert (wanted.lane, wanted.start, wanted.stop) == (driven.own, ROOM, ROOM + 2)
    runs = (LaneRun(driven.own, ROOM, ROOM + 1, 2),)
    answered = only(Acknowledge, driven.step(RunsFetched(driven.own, runs, 0)))
    assert [each.position for each in answered] == [ROOM + 1, ROOM + 2]
    assert driven.core.state == "serving"


def test_no_more_runs_are_taken_from_peers_than_there_is_room_for() -> None:
    driven = Driven(masking=True)
    lengths = 0
    while lengths < 2 * ROOM:
        lengths += 1
        driven.order.cut({driven.peer: lengths})
    driven.order.state.kept.clear()
    wanted = one(FetchRuns, driven.joined())
    runs = [LaneRun(driven.peer, lsn, lsn + 1, 1) for lsn in range(2 * ROOM)]
    effects = [each for run in runs for each in driven.step(RunsFetched(wanted.lane, (run,), 0))]
    assert len(only(NoteRuns, effects)) == ROOM
    assert one(Rejoin, synced(driven))
    driven.step(OrderLost())
    assert one(FetchRuns, driven.joined()).start == ROOM


def test_runs_count_until_their_sync_has_ended() -> None:
    driven = filled()
    sync = syncing(driven)
    assert driven.core.runs_unsynced == ROOM, "none is durable before the sync has ended"
    driven.written()
    assert not only(NoteRuns, driven.cut({driven.own: ROOM + 1}))
    driven.step(RunsSynced(sync.cut))
    assert driven.core.runs_unsynced == 0


def test_runs_that_are_noted_during_a_sync_count_until_the_next_one() -> None:
    driven = filled(ROOM - 1)
    sync = syncing(driven)
    driven.written()
    assert only(NoteRuns, driven.cut({driven.own: ROOM})), "there is room for one"
    driven.step(RunsSynced(sync.cut))
    assert driven.core.runs_unsynced == 1
    for length in range(ROOM + 1, 2 * ROOM):
        driven.written()
        assert only(NoteRuns, driven.cut({driven.own: length}))
    driven.written()
    assert not only(NoteRuns, driven.cut({driven.own: 2 * ROOM})), "they are as many as may wait for a sync"


def test_a_lane_that_is_closed_meanwhile_is_not_settled_before_its_positions_are_known() -> None:
    driven = filled()
    driven.written()
    driven.cut({driven.own: ROOM + 1})
    driven.apply(CloseLane(driven.own))
    driven.step(Synced(driven.own, ROOM + 1))
    assert not driven.core.is_settled(driven.own)
    assert not only(Rejoin, synced(driven)), "it has left already, because its lane was closed"
    driven.step(OrderLost())
    assert one(Acknowledge, driven.joined()).position == ROOM + 1
    assert driven.core.is_settled(driven.own)
