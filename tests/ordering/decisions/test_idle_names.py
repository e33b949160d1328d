"""Idle names, by facts: who is asked for, who was active, who goes, and who is never touched."""

import pytest
from tests.ordering.building import Driver

from ithaca.engines.scalog.ordering.decisions import names as decisions
from ithaca.engines.scalog.ordering.decisions.names import Found, IdleLook, IdleNames
from ithaca.engines.scalog.ordering.entries import CloseLane, ExpireIdle, NoteSessions, OpenSession
from ithaca.engines.scalog.ordering.outcomes import Session, SessionOpened
from ithaca.engines.scalog.ordering.prepared.entries import ForgetWriters, Publish
from ithaca.model.limits import SESSION_ANONYMOUS_IDLE_S
from ithaca.model.positions import LaneId

S = 1_000_000
DAY_US = int(SESSION_ANONYMOUS_IDLE_S * 1e6)


class Term:
    """Sessions of one shard."""

    def __init__(self, *, session_idle_s: float | None = 10.0, writer_idle_s: float | None = None) -> None:
        self.driver = Driver()
        self.lanes = self.driver.shard(0)
        self.names = IdleNames(self.driver.state, session_idle_s=session_idle_s, writer_idle_s=writer_idle_s)

    def open(self, name: str, *, at_s: int = 1, lane: LaneId | None = None) -> Session:
        outcomes = self.driver.apply(OpenSession(name, lane or self.lanes[0], time_us=at_s * S))
        opened = outcomes[-1]
        assert isinstance(opened, SessionOpened)
        return opened.session

    def now(self, producer_id: int) -> Session:
        return self.driver.state.sessions.by_id[producer_id]


def asked(look: IdleLook | None) -> list[int]:
    assert look is not None
    return [session.producer_id for home in look.homes for session in look.to_ask(home)]


def test_nothing_goes_where_the_file_says_nothing_of_it() -> None:
    term = Term(session_idle_s=None)
    term.open("name")
    assert term.names.named(1000 * S) is None
    assert term.names.writers(1000 * S) is None


def test_only_those_are_asked_for_that_seem_idle() -> None:
    term = Term()
    old, _, nameless = term.open("old"), term.open("new", at_s=5), term.open("~nameless")
    assert asked(term.names.named(12 * S)) == [old.producer_id]
    assert asked(term.names.anonymous(DAY_US + 12 * S)) == [nameless.producer_id]


@pytest.mark.parametrize("time_s", [0, 9])
def test_before_so_much_time_has_passed_at_all_nobody_is_idle(time_s: int) -> None:
    term = Term()
    assert term.names.named(time_s * S) is None


def test_the_home_says_who_was_active_and_who_goes() -> None:
    term = Term()
    idle, active, silent = (term.open(name) for name in ("idle", "active", "silent"))
    look = term.names.named(20 * S)
    assert asked(look) == [idle.producer_id, active.producer_id, silent.producer_id]
    assert look is not None
    look.answered(idle, 0)
    look.answered(active, 7)
    assert look.found() == Found(
        NoteSessions(((active.producer_id, 7),), 20 * S), ExpireIdle(((idle.producer_id, 1),), 10 * S, 20 * S)
    ), "who was not answered for stays as it is"


def test_a_session_that_was_active_is_idle_only_if_its_number_stays_the_same_from_then_on() -> None:
    term = Term()
    session = term.open("name")
    term.driver.apply(NoteSessions(((session.producer_id, 7),), 20 * S))
    assert asked(term.names.named(29 * S)) == []
    look = term.names.named(30 * S)
    assert look is not None
    asked(look)
    look.answered(term.now(session.producer_id), 7)
    assert look.found().idle == ExpireIdle(((session.producer_id, 1),), 20 * S, 30 * S)
    assert look.found().active is None


def test_sessions_of_a_closed_lane_are_idle_unasked() -> None:
    term = Term()
    session = term.open("name", lane=term.lanes[1])
    term.driver.apply(CloseLane(term.lanes[1]))
    look = term.names.named(100 * S)
    assert look is not None
    assert asked(look) == []
    assert look.found() == Found(None, ExpireIdle(((session.producer_id, 1),), 90 * S, 100 * S))


def test_a_lane_that_closes_while_others_are_asked_is_seen_to_be_closed() -> None:
    term = Term()
    for number, lane in enumerate(term.lanes):
        term.open(f"name {number}", lane=lane)
    look = term.names.named(100 * S)
    assert look is not None
    first, second = look.homes
    assert look.to_ask(first)
    term.driver.apply(CloseLane(second))
    assert look.to_ask(second) == []


def test_a_look_goes_on_behind_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decisions, "SESSIONS_TOGETHER_MAX", 2)
    term = Term()
    first, second, third = (term.open(name).producer_id for name in "abc")
    looks = [sorted(asked(term.names.named(20 * S))) for _ in range(3)]
    assert looks == [[first, second], [first, third], [second, third]], "everybody's turn comes"


def test_a_look_that_finds_nobody_begins_anywhere() -> None:
    term = Term()
    look = term.names.named(20 * S)
    assert look is not None
    assert look.homes == []
    assert look.found() == Found(None, None)


def test_in_a_crowd_activity_is_noted_and_nobody_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decisions, "ORDERING_SESSIONS_MAX", 4)
    monkeypatch.setattr(decisions, "ORDERING_NAMED_SESSIONS_MAX", 2)
    monkeypatch.setattr(decisions, "SESSION_CROWD_IDLE_S", 5.0)
    term = Term()
    first = term.open("~1")
    assert term.names.crowd(20 * S) is None, "half of the room is free"
    second = term.open("~2")
    look = term.names.crowd(20 * S)
    assert asked(look) == [first.producer_id, second.producer_id]
    assert look is not None
    look.answered(first, 0)
    look.answered(second, 3)
    assert look.found() == Found(NoteSessions(((second.producer_id, 3),), 20 * S), None)


def test_idle_writers_are_forgotten_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decisions, "WRITERS_TOGETHER_MAX", 1)
    term = Term(writer_idle_s=10.0)
    for key, writer in enumerate(("a", "b", "late"), 1):
        term.driver.apply(Publish(writer, key, "", (), time_us=(15 if writer == "late" else 1) * S))
    assert term.names.writers(9 * S) is None
    forgotten = term.names.writers(20 * S)
    assert isinstance(forgotten, ForgetWriters)
    assert (forgotten.writers, forgotten.since_us, forgotten.time_us) == ((("a", 1),), 10 * S, 20 * S)
