"""Names of a cluster: sessions that are listed and expire, writers that are listed and forgotten, full tables."""

import dataclasses
import time
from collections.abc import Callable

import pytest

import ithaca
from ithaca.engines.scalog.ordering import sessions
from ithaca.engines.scalog.ordering.decisions import names as orderer_names
from ithaca.engines.scalog.ordering.outcomes import ExpiredSession, Session
from ithaca.engines.scalog.ordering.prepared import writers
from ithaca.engines.scalog.server.orderer import leading
from ithaca.model import limits
from ithaca.storage import sessions as lane_sessions
from ithaca.testing import Cluster


def until(done: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 60
    while not done():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def names(log: ithaca.ClusterLog) -> list[str]:
    return [each.name for each in log.admin.sessions()]


def test_an_idle_session_moves_although_many_handles_came_and_went(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane_sessions, "LANE_SESSIONS_MAX", 4)
    with Cluster(replicas=2) as cluster, ithaca.connect(cluster.bootstrap) as log:
        session = log.session("nightly")
        first = session.append(b"one", seq=1)
        for number in range(20):
            with ithaca.connect(cluster.bootstrap) as short:
                short.append_many([b"%d" % number])
        home = next(each.lane for each in log.admin.sessions() if each.name == "nightly")
        replica = home.split("-")[1]
        cluster.kill_server(f"shard-0-replica-{replica}")
        cluster.start_server(f"shard-0-replica-{replica}")
        assert session.append(b"one", seq=1) == first
        assert session.append(b"two", seq=2).position > first.position
        assert next(each.lane for each in log.admin.sessions()) != home


def test_sessions_are_listed_and_expired_by_name() -> None:
    with Cluster(replicas=1) as cluster, ithaca.connect(cluster.bootstrap) as log:
        for name in ("b", "a", "b"):
            session = log.session(name)
        session.append(b"x", seq=1)
        log.append(b"anonymous")
        listed = log.admin.sessions()
        assert [(each.name, each.epoch) for each in listed] == [("b", 2), ("a", 1)]
        assert all(each.idle_s is not None and each.idle_s < 60 for each in listed)
        log.admin.expire_session("b")
        assert names(log) == ["a"]
        with pytest.raises(ithaca.SessionExpired):
            session.append(b"y", seq=2)
        with pytest.raises(ithaca.NoSuchSession, match="there is no session 'b'"):
            log.admin.expire_session("b")
        assert log.session("b").next_seq == 1
        with pytest.raises(ithaca.InvalidInput, match="begins with '~'"):
            log.session("~mine")


def test_a_list_goes_on_over_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    from ithaca.engines.scalog.server.orderer import requests

    monkeypatch.setattr(requests, "NAMES_ANSWERED_MAX", 2)
    with Cluster(replicas=1) as cluster, ithaca.connect(cluster.bootstrap) as log:
        for number in range(5):
            log.session(f"s{number}")
            log.publish(number, [], writer=f"w{number}")
        assert names(log) == [f"s{number}" for number in range(5)]
        assert [each.writer for each in log.admin.writers()] == [f"w{number}" for number in range(5)]


def test_full_of_names_refuses_only_new_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "ORDERING_SESSIONS_MAX", 4)
    monkeypatch.setattr(sessions, "ORDERING_NAMED_SESSIONS_MAX", 2)
    with Cluster(replicas=1) as cluster, ithaca.connect(cluster.bootstrap, timeout=10) as log:
        log.session("a")
        log.session("b")
        with pytest.raises(ithaca.NamesFull, match="ithaca session expire NAME"):
            log.session("c")
        log.session("a").append(b"x")
        log.append(b"plain")
        handles = [ithaca.connect(cluster.bootstrap, timeout=10) for _ in range(6)]
        for handle in handles:
            handle.append(b"y")
        for handle in [log, *handles]:
            handle.append(b"the session of this handle made room, and another one is opened")
            handle.close()
        with ithaca.connect(cluster.bootstrap) as other:
            other.admin.expire_session("b")
            other.session("c")
            assert other.tail() == 1 + 1 + 1 + 6 + 7


def test_idle_sessions_and_writers_go_by_age_and_active_ones_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leading, "SESSIONS_CHECK_S", 0.05)
    cluster = Cluster(replicas=2)
    cluster.file = dataclasses.replace(cluster.file, session_idle_s=1, writer_idle_s=1)
    with cluster, ithaca.connect(cluster.bootstrap) as log:
        active, gone = log.session("active"), log.session("idle")
        gone.append(b"x")
        log.publish(1, [], writer="idle")

        def wait() -> bool:
            active.append(b"still here")
            log.publish(log.tail(), [], writer="active")
            return names(log) == ["active"] and [each.writer for each in log.admin.writers()] == ["active"]

        until(wait, "what is idle goes")
        with pytest.raises(ithaca.SessionExpired):
            gone.append(b"y")
        assert log.session("idle").next_seq == 1


def test_an_anonymous_session_that_is_idle_for_long_goes_and_its_handle_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(leading, "SESSIONS_CHECK_S", 0.05)
    monkeypatch.setattr(orderer_names, "SESSION_ANONYMOUS_IDLE_S", 0.5)
    expired: list[str] = []
    expire = sessions.SessionRegistry._expired

    def noted(table: sessions.SessionRegistry, session: Session) -> ExpiredSession:
        expired.append(session.name)
        return expire(table, session)

    monkeypatch.setattr(sessions.SessionRegistry, "_expired", noted)
    with Cluster(replicas=1) as cluster, ithaca.connect(cluster.bootstrap) as log:
        first = log.append(b"x")
        named = log.session("clock")
        until(lambda: named.append(b"time goes on").count == 1 and bool(expired), "the handle's session goes")
        assert log.append(b"y").position > first.position


def test_a_new_writer_is_refused_when_all_places_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writers, "WRITERS_MAX", 2)
    with Cluster(replicas=1) as cluster, ithaca.connect(cluster.bootstrap) as log:
        published = log.publish(1, [log.prepare([b"a"])], writer="a")
        log.publish(1, [], writer="b")
        part = log.prepare([b"c"])
        with pytest.raises(ithaca.NamesFull, match="ithaca writer forget NAME"):
            log.publish(1, [part], writer="c")
        assert log.publish(1, [], writer="a") == published, "nobody made room"
        assert log.publish_once([part]).count == 1
        log.admin.forget_writer("b")
        with pytest.raises(ithaca.NoSuchWriter, match="no writer 'b' is remembered"):
            log.admin.forget_writer("b")
        log.publish(1, [], writer="c")
        assert [(each.writer, each.key, each.count) for each in log.admin.writers()] == [("a", 1, 1), ("c", 1, 0)]


def test_a_lane_has_room_for_all_sessions_that_there_can_be() -> None:
    assert limits.LANE_SESSIONS_MAX >= 2 * limits.ORDERING_SESSIONS_MAX
