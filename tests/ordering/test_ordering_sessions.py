"""Sessions as design §5 "Exactly once" has them, rule by rule (invariant 8)."""

from collections.abc import Callable

import pytest
from tests.ordering.building import Driver

from ithaca.engines.scalog.ordering import sessions
from ithaca.engines.scalog.ordering.entries import (
    CloseLane,
    ExpireIdle,
    ExpireSession,
    Finalize,
    MoveSession,
    NoteSessions,
    OpenLane,
    OpenSession,
    OrderingEntry,
    RemoveReplica,
)
from ithaca.engines.scalog.ordering.outcomes import ExpiredSession, Session, SessionMoved, SessionOpened
from ithaca.engines.scalog.ordering.state import OrderingState
from ithaca.model.positions import LaneId

A, B, C = LaneId(1, 0, 1), LaneId(1, 1, 1), LaneId(2, 0, 1)


def world() -> Driver:
    """Lanes A and B in one shard, C in another; session 1, epoch 1, at home in A, of which 5 are ordered."""
    driver = Driver()
    driver.shard(1)
    driver.shard(2)
    driver.apply(OpenSession("s", A))
    driver.cut({A: 5})
    return driver


def move(*, epoch: int = 1, source: LaneId = A, target: LaneId = B, unused: int | None = None) -> MoveSession:
    return MoveSession(1, epoch, source, target, unused, b"tail")


def after(*entries: OrderingEntry) -> Callable[[Driver], None]:
    def prepare(driver: Driver) -> None:
        for entry in entries:
            driver.apply(entry)

    return prepare


Rule = tuple[str, Callable[[Driver], None], OrderingEntry, str | None]
RULES: list[Rule] = [
    # "Opening a session is an ordered entry that raises its producer_epoch; lower epochs are fenced."
    ("opening again is always possible", after(), OpenSession("s", B), None),
    ("even when the home is closed", after(CloseLane(A)), OpenSession("s", B), None),
    ("a lower epoch cannot move", after(OpenSession("s", A), CloseLane(A)), move(), "the session was opened again"),
    ("the current one can", after(OpenSession("s", A), CloseLane(A)), move(epoch=2), None),
    ("an epoch from nowhere cannot", after(CloseLane(A)), move(epoch=2), "the session was opened again"),
    # "Its home is one (lane, incarnation)."
    ("a home is an open lane", after(OpenSession("t", B), CloseLane(B)), OpenSession("new", B), "the lane is closed"),
    ("one that closed empty is gone", after(CloseLane(B)), OpenSession("new", B), "no such lane"),
    ("a lane that exists", after(), OpenSession("new", LaneId(1, 0, 9)), "no such lane"),
    ("of a shard that is not leaving", after(Finalize(2, cuts=9)), OpenSession("new", C), "the shard is finalizing"),
    ("and so is the target of a move", after(CloseLane(A), OpenSession("t", B), CloseLane(B)), move(),
     "the lane is closed"),
    ("which is not gone either", after(CloseLane(A), CloseLane(B)), move(), "no such lane"),
    ("the target's shard stays, too", after(CloseLane(A), Finalize(2, cuts=9)), move(target=C),
     "the shard is finalizing"),
    ("a move starts at the home", after(), move(source=C), "the session lives elsewhere"),
    # Its home is closed first: what an open lane may still order of it nobody knows.
    ("an open lane keeps its sessions", after(), move(), "the source is not closed"),
    ("whatever an entry of an older version says", after(), move(unused=5), "the source is not closed"),
    ("a closed lane lets go", after(CloseLane(A)), move(), None),
    ("so does one that was replaced by a restart", after(OpenLane(1, 0, 2)), move(target=LaneId(1, 0, 2)), None),
    ("and one of a finalized shard", after(Finalize(1)), move(target=C), None),
    ("and one of a removed replica", after(RemoveReplica(1, 1, 0)), move(target=C), None),
    # "Expiry is an ordered entry; an expired session's retry is SessionExpired, never an append."
    ("a session expires", after(), ExpireSession(1, 1), None),
    ("unless it was opened again", after(OpenSession("s", A)), ExpireSession(1, 1), "the session was opened again"),
    ("once", after(ExpireSession(1, 1)), ExpireSession(1, 1), "no such session"),
    ("and never moves again", after(ExpireSession(1, 1)), move(), "no such session"),
]  # fmt: skip


@pytest.mark.parametrize(("what", "prepare", "entry", "reason"), RULES, ids=[rule[0] for rule in RULES])
def test_the_rules(what: str, prepare: Callable[[Driver], None], entry: OrderingEntry, reason: str | None) -> None:
    driver = world()
    prepare(driver)
    assert driver.reason(entry) == reason, what


def test_opening_raises_the_epoch_and_leaves_the_home() -> None:
    driver = world()
    assert driver.apply(OpenSession("s", C)) == [SessionOpened(Session(1, "s", 2, A))]
    assert driver.apply(OpenSession("t", C)) == [SessionOpened(Session(2, "t", 1, C))]


def test_a_move_hands_over_what_the_source_knew() -> None:
    driver = world()
    driver.apply(CloseLane(A))
    moved = Session(1, "s", 1, B, carried=b"tail")
    assert driver.apply(move()) == [SessionMoved(moved, A)]
    assert driver.apply(move()) == [SessionMoved(moved, A)], "a retry repeats the answer"


def test_an_expired_name_comes_back_as_another_session() -> None:
    driver = world()
    assert driver.apply(ExpireSession(1, 1)) == [ExpiredSession(Session(1, "s", 1, A))]
    assert driver.apply(OpenSession("s", B)) == [SessionOpened(Session(2, "s", 1, B))]


def test_names_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "ORDERING_NAMED_SESSIONS_MAX", 1)
    driver = world()
    assert driver.reason(OpenSession("more", B)) == "too many sessions"
    assert driver.reason(OpenSession("s", B)) is None
    driver.apply(ExpireSession(1, 2))
    assert driver.reason(OpenSession("more", B)) is None


def test_anonymous_sessions_go_on_when_all_names_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "ORDERING_SESSIONS_MAX", 4)
    monkeypatch.setattr(sessions, "ORDERING_NAMED_SESSIONS_MAX", 2)
    driver = world()
    driver.apply(OpenSession("t", A, 1))
    for number, name in enumerate(("~a", "~b"), 2):
        driver.apply(OpenSession(name, A, number))
    assert driver.reason(OpenSession("u", A, 3)) == "too many sessions"
    expired, opened = driver.apply(OpenSession("~c", A, 5))
    assert isinstance(expired, ExpiredSession)
    assert isinstance(opened, SessionOpened)
    assert expired.session.name == "~a"
    assert [each.name for each in driver.state.sessions.by_id.values()] == ["s", "t", "~b", "~c"]


def test_the_anonymous_session_that_was_idle_for_longest_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "ORDERING_SESSIONS_MAX", 4)
    monkeypatch.setattr(sessions, "ORDERING_NAMED_SESSIONS_MAX", 1)
    driver = world()
    for number, name in enumerate(("~a", "~b", "~c"), 1):
        driver.apply(OpenSession(name, A, number))
    driver.apply(NoteSessions(((2, 7),), 10))
    driver.state = OrderingState.restored(driver.state.snapshot())
    expired, _ = driver.apply(OpenSession("~d", A, 11))
    assert isinstance(expired, ExpiredSession)
    assert expired.session.name == "~b"


def test_a_name_beyond_the_bound_of_an_earlier_version_leaves_anonymous_ones_their_places(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver = world()
    for name in ("t", "u", "v"):
        driver.apply(OpenSession(name, A, 1))
    monkeypatch.setattr(sessions, "ORDERING_SESSIONS_MAX", 3)
    monkeypatch.setattr(sessions, "ORDERING_NAMED_SESSIONS_MAX", 2)
    assert len(driver.apply(OpenSession("~a", A, 2))) == 1
    expired, _ = driver.apply(OpenSession("~b", A, 3))
    assert isinstance(expired, ExpiredSession)
    assert expired.session.name == "~a"


def test_idle_sessions_expire_unless_they_were_seen_to_append_or_were_opened() -> None:
    driver = world()
    for number, name in enumerate(("idle", "active", "opened", "gone"), 1):
        driver.apply(OpenSession(name, A, number))
    driver.apply(ExpireSession(5, 1))
    driver.apply(NoteSessions(((3, 7), (9, 1)), 50))
    driver.apply(NoteSessions(((3, 7),), 60))
    assert driver.state.sessions.by_id[3].active_us == 50, "the same number again says nothing new"
    driver.apply(OpenSession("opened", A, 60))
    entry = ExpireIdle(tuple((each, 1) for each in range(2, 6)), 40, 70)
    assert [each.session.name for each in driver.apply(entry) if isinstance(each, ExpiredSession)] == ["idle"]
    assert driver.apply(entry) == []


def test_of_a_session_whose_lane_was_closed_nobody_knows_since_when_it_is_idle() -> None:
    driver = world()
    driver.apply(OpenSession("t", A, 5))
    driver.apply(OpenSession("u", B, 100))
    driver.apply(CloseLane(A))
    assert driver.apply(ExpireIdle(((2, 1),), 50, 100)) == []
    assert driver.apply(ExpireIdle(((2, 1),), 100, 200)) != []


def test_the_time_of_a_session_from_an_earlier_version_begins_when_it_is_asked_for() -> None:
    driver = world()
    assert driver.state.sessions.by_id[1].active_us == 0
    assert driver.apply(ExpireIdle(((1, 1),), 50, 100)) == []
    assert driver.state.sessions.by_id[1].active_us == 100
    assert driver.apply(ExpireIdle(((1, 1),), 99, 199)) == []
    assert driver.apply(ExpireIdle(((1, 1),), 100, 200)) == [
        ExpiredSession(Session(1, "s", 1, A, active_us=100)),
    ]


def test_counts_survive_a_snapshot() -> None:
    driver = world()
    driver.apply(OpenSession("~a", A, 5))
    driver.apply(OpenSession("t", C, 6))
    for state in (driver.state, OrderingState.restored(driver.state.snapshot())):
        assert (state.sessions.named, state.sessions.anonymous, state.sessions.homes()) == (2, 1, {A, C})
        assert [each.name for each in state.sessions.idle_since(5, anonymous=False)] == ["s"]
        assert [each.name for each in state.sessions.idle_since(5, anonymous=True)] == ["~a"]
