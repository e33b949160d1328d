"""Which sessions expire because nobody uses them."""

from ithaca.engines.raft.replog.entries import ExpireSessions, RangeBatch
from ithaca.engines.raft.replog.idle import IdleSessions
from ithaca.engines.raft.replog.sessions import Sessions
from ithaca.model.limits import SESSION_ANONYMOUS_IDLE_S
from ithaca.users.names import ANONYMOUS


def test_a_session_that_is_neither_opened_nor_appended_to_expires() -> None:
    sessions, idle = Sessions(), IdleSessions(10)
    used, opened, idling = (sessions.open(name) for name in ("used", "opened", "idling"))
    assert used is not None
    assert opened is not None
    assert idling is not None
    assert idle.look(sessions, 100) is None
    assert idle.look(sessions, 109) is None
    sessions.went_on(RangeBatch(1, used.producer_id, used.epoch, 1), 0)
    sessions.open("opened")
    assert idle.look(sessions, 111) == ExpireSessions(((idling.producer_id, idling.epoch),))
    assert idle.look(sessions, 120) == ExpireSessions(((idling.producer_id, idling.epoch),)), "until that is agreed on"
    sessions.expire(idling.producer_id, idling.epoch)
    found = idle.look(sessions, 121)
    assert found == ExpireSessions(((used.producer_id, 1), (opened.producer_id, 2)))


def test_those_with_a_name_stay_where_nothing_is_said_and_others_go_after_a_day() -> None:
    sessions, idle = Sessions(), IdleSessions(None)
    sessions.open("named")
    plain = sessions.open(f"{ANONYMOUS}1")
    assert plain is not None
    assert idle.look(sessions, 0) is None
    assert idle.look(sessions, SESSION_ANONYMOUS_IDLE_S) == ExpireSessions(((plain.producer_id, 1),))


def test_a_new_leader_counts_from_the_beginning() -> None:
    sessions = Sessions()
    sessions.open("named")
    assert IdleSessions(10).look(sessions, 1000) is None
