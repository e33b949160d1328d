"""Waiting in an embedded log: nobody looks again and again for what does not come."""

from pathlib import Path

import pytest

import ithaca
from ithaca.embedded.log import EmbeddedLog
from ithaca.embedded.records import EmbeddedSubscription
from ithaca.model.errors import LogClosed, NotWritten
from ithaca.model.limits import FOLLOW_POLL_MS_MAX, FOLLOW_POLL_MS_MIN


def test_a_read_that_waits_looks_once_more_when_the_time_is_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ithaca.open(tmp_path / "log") as log:
        assert isinstance(log, EmbeddedLog)
        read, looks = log._engine.read, list[int]()

        def counted(position: int) -> ithaca.Record:
            looks.append(position)
            return read(position)

        monkeypatch.setattr(log._engine, "read", counted)
        with pytest.raises(NotWritten):
            log.read(1, wait=0.2)
        assert looks == [1, 1]


def test_a_follower_looks_less_often_while_nothing_comes_and_often_enough(tmp_path: Path) -> None:
    with ithaca.open(tmp_path / "log"), ithaca.open(tmp_path / "log", mode="r") as reader:
        subscription = reader.subscribe("earliest")
        assert isinstance(subscription, EmbeddedSubscription)
        waits: list[float] = []

        class Wake:
            """Notes how long is waited, and ends the subscription at last."""

            def give(self) -> None: ...

            def clear(self) -> None: ...

            def wait(self, seconds: float) -> None:
                waits.append(seconds)
                if len(waits) == 60:
                    subscription.close()

        subscription._wake = Wake()  # type: ignore[assignment]
        assert list(subscription) == []
        assert waits[0] == FOLLOW_POLL_MS_MIN / 1000
        assert waits == sorted(waits)
        assert waits[-1] == FOLLOW_POLL_MS_MAX / 1000


def test_a_subscription_of_a_log_that_is_closed_says_so(tmp_path: Path) -> None:
    log = ithaca.open(tmp_path / "log")
    subscription = log.subscribe("earliest")
    log.close()
    with pytest.raises(LogClosed):
        subscription.poll(timeout=1)


def test_closing_raises_what_failed_since_the_last_flush(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = ithaca.open(tmp_path / "log")
    assert isinstance(log, EmbeddedLog)
    log._failure.note(ithaca.StorageFull("no room"))
    with pytest.raises(ithaca.StorageFull):
        log.close()
    log.close()
