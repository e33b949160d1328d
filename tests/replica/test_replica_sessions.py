"""The rules of a session's home."""

import pytest
from tests.replica.driving import Driven, one, only

from ithaca.engines.scalog.ordering.entries import ExpireSession, MoveSession, OpenLane
from ithaca.engines.scalog.ordering.outcomes import Session
from ithaca.engines.scalog.ordering.prepared.entries import OpenPart
from ithaca.engines.scalog.ordering.prepared.outcomes import PartOpened
from ithaca.engines.scalog.replica.events import Acknowledge, AcknowledgeAt, DiskFull, ListSessions, Refuse, Write
from ithaca.engines.scalog.replica.sessions import HomeSessions
from ithaca.model.errors import (
    SequenceGap,
    SessionExpired,
    SessionFenced,
    StorageFull,
    Unavailable,
    WrongLane,
)
from ithaca.model.limits import SESSIONS_MAX
from ithaca.model.positions import LaneId
from ithaca.sessions.carried import encode_carried


def test_a_session_whose_past_cannot_be_read_is_refused_and_nobody_else() -> None:
    """What is carried comes from a client: it must not stop a replica."""
    sessions = HomeSessions()
    sessions.arrived(Session(1, "bad", 1, LaneId(0, 0, 1), carried=b"\xc1"))
    sessions.arrived(Session(2, "good", 1, LaneId(0, 0, 1)))
    with pytest.raises(SessionExpired):
        sessions.next_seq(1, 1)
    assert sessions.next_seq(2, 1) == 1


def test_only_so_many_expired_sessions_are_remembered() -> None:
    sessions = HomeSessions()
    for number in range(1, SESSIONS_MAX + 2):
        sessions.expired(Session(number, f"s{number}", 1, LaneId(0, 0, 1)))
    with pytest.raises(WrongLane):  # the ordering layer will say that it has expired
        sessions.next_seq(1, 1)
    with pytest.raises(SessionExpired):
        sessions.next_seq(2, 1)


# At home (invariant 5).


def test_a_batch_that_continues_is_written_and_a_gap_is_not() -> None:
    driven = Driven()
    driven.joined()
    session = driven.session()
    assert one(Write, driven.append(session, 1, count=3)).batch.base_lsn == 0
    assert one(Write, driven.append(session, 4)).batch.base_lsn == 3
    assert isinstance(one(Refuse, driven.append(session, 6)).error, SequenceGap)
    assert isinstance(one(Refuse, driven.append(session, 2)).error, SequenceGap)
    assert isinstance(one(Refuse, driven.append(session, 1, count=2)).error, SequenceGap)


def test_a_repeat_has_its_answer_although_the_disk_is_full() -> None:
    driven = Driven()
    driven.joined()
    session = driven.session()
    assert only(Write, driven.append(session, 1))
    driven.step(DiskFull(True))
    assert driven.append(session, 1) == []  # it waits with the first
    assert isinstance(one(Refuse, driven.append(session, 2)).error, StorageFull)


def test_a_repeat_of_what_a_former_home_had_is_answered_from_what_was_carried() -> None:
    driven = Driven()
    driven.joined()
    session = driven.session(lane=driven.peer)
    driven.apply(OpenLane(0, 1, 2))
    carried = encode_carried([(1, 2, 0, 0), (3, 1, 17, 0)])
    outcomes = driven.order.apply(
        MoveSession(session.producer_id, session.epoch, driven.peer, driven.own, carried=carried)
    )
    driven.tell(outcomes)
    assert one(Acknowledge, driven.append(session, 3)).position == 17
    refused = one(Refuse, driven.append(session, 1, count=2))
    assert isinstance(refused.error, Unavailable), "it was trimmed, and nobody knows where it was"
    assert refused.error.outcome_unknown


def test_a_repeat_of_what_is_pending_gets_the_same_answer() -> None:
    driven = Driven()
    driven.joined()
    session = driven.session()
    driven.append(session, 1, count=2)
    assert driven.append(session, 1, count=2) == []
    acks = only(Acknowledge, driven.cut({driven.own: 2}))
    assert [(ack.request.correlation, ack.position) for ack in acks] == [(1, 1), (2, 1)]


def test_a_repeat_of_what_is_ordered_is_looked_up() -> None:
    driven = Driven()
    driven.joined()
    session = driven.session()
    driven.append(session, 1, count=2)
    driven.append(session, 3)
    driven.cut({driven.own: 3})
    assert one(AcknowledgeAt, driven.append(session, 3)).lsn == 2


def test_unknown_fenced_and_expired_sessions_are_told_apart() -> None:
    driven = Driven()
    driven.joined()
    session = driven.session()
    elsewhere = driven.session("other", lane=driven.peer)
    assert isinstance(one(Refuse, driven.append(elsewhere)).error, WrongLane)
    again = driven.session()
    assert again.epoch == session.epoch + 1
    assert isinstance(one(Refuse, driven.append(session)).error, SessionFenced)
    driven.apply(ExpireSession(again.producer_id, again.epoch))
    assert isinstance(one(Refuse, driven.append(again)).error, SessionExpired)


def test_an_epoch_that_is_not_known_here_yet_waits_for_the_news() -> None:
    driven = Driven()
    driven.joined()
    session = driven.session()
    newer = Session(session.producer_id, session.name, session.epoch + 1, session.home)
    assert isinstance(one(Refuse, driven.append(newer)).error, WrongLane)


def test_a_session_that_moves_in_goes_on_where_it_was() -> None:
    driven = Driven()
    driven.joined()
    session = driven.session("s", lane=driven.peer)
    driven.apply(OpenLane(0, 1, 2))
    carried = encode_carried([(1, 2, 17, 0), (3, 1, 40, 0)])
    driven.apply(MoveSession(session.producer_id, session.epoch, driven.peer, driven.own, None, carried))
    assert one(Acknowledge, driven.append(session, 1, count=2)).position == 17
    assert one(Write, driven.append(session, 4)).batch.first_seq == 4
    assert isinstance(one(Refuse, driven.append(session, 6)).error, SequenceGap)


def test_the_next_number_is_not_told_while_batches_are_pending() -> None:
    """If the lane were closed they would be gone, and nothing could follow the number."""
    driven = Driven()
    driven.joined()
    session = driven.session()
    assert driven.core.next_seq(driven.own, session.producer_id, session.epoch) == 1
    driven.append(session, 1, count=4)
    with pytest.raises(Unavailable):
        driven.core.next_seq(driven.own, session.producer_id, session.epoch)
    driven.cut({driven.own: 4})
    assert driven.core.next_seq(driven.own, session.producer_id, session.epoch) == 5
    with pytest.raises(WrongLane):
        driven.core.next_seq(driven.peer, session.producer_id, session.epoch)


def test_a_rejoin_removes_the_sessions_that_are_gone_and_keeps_the_others() -> None:
    driven = Driven()
    driven.joined()
    stays, goes = driven.session("stays"), driven.session("goes")
    driven.append(stays, 1)
    driven.order.apply(ExpireSession(goes.producer_id, goes.epoch))
    driven.joined()
    assert isinstance(one(Refuse, driven.append(goes)).error, WrongLane)
    assert one(Write, driven.append(stays, 2)).batch.base_lsn == 1


def test_the_name_of_a_session_is_known_where_it_lives() -> None:
    """So that whoever appends to another user's is told so."""
    driven = Driven()
    driven.joined()
    session, elsewhere = driven.session("mine"), driven.session("other", lane=driven.peer)
    assert driven.core.session_name(session.producer_id) == "mine"
    assert driven.core.session_name(elsewhere.producer_id) is None
    driven.apply(ExpireSession(session.producer_id, session.epoch))
    assert driven.core.session_name(session.producer_id) is None


def test_who_joins_is_told_the_sessions_of_lanes_that_it_has_still_to_write() -> None:
    """Of a lane that is empty, and of a prepared part, which has none, there is nothing to tell."""
    driven = Driven()
    driven.joined()
    at_home = [driven.session(name, lane=driven.peer).producer_id for name in ("a", "b")]
    driven.session("c")
    part = driven.order.apply(OpenPart(driven.own, bytes(16), 10_000_000))[0]
    assert isinstance(part, PartOpened)
    driven.order.cut({driven.peer: 3})
    driven.start({})
    effects = driven.joined()
    assert only(ListSessions, effects) == [ListSessions(driven.peer, frozenset(at_home), 3)]
