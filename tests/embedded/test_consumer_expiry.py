"""Consumers of a directory that nobody uses go, whatever clocks show in between."""

from pathlib import Path

import pytest
from tests.embedded.clock import Clock

import ithaca

DAY_S = 86_400.0


def names(log: ithaca.Log) -> list[str]:
    return [each.name for each in log.consumers()]


def used(log: ithaca.Log, name: str) -> None:
    with log.consumer(name) as consumer:
        consumer.commit()


def appended(log: ithaca.Log) -> None:
    """A commit in which it is looked, and another one behind what came of that."""
    for _ in range(2):
        log.append(b"a")


def test_who_is_idle_goes_while_the_process_runs(tmp_path: Path, clock: Clock) -> None:
    with ithaca.open(tmp_path / "log", consumer_idle_s="1d") as log:
        used(log, "billing")
        used(log, "audit")
        clock.passed_s += 60
        appended(log)
        clock.passed_s += DAY_S / 2
        used(log, "audit")
        appended(log)
        assert names(log) == ["audit", "billing"]
        clock.passed_s += DAY_S / 2 + 60
        appended(log)
        assert names(log) == ["audit"]
        assert log.consumer("billing").position == 1, "a new one begins where its program says"


def test_who_was_idle_when_the_last_process_wrote_goes_at_the_opening(tmp_path: Path, clock: Clock) -> None:
    with ithaca.open(tmp_path / "log") as log:
        used(log, "billing")
        clock.passed_s += 2 * DAY_S
        used(log, "audit")
        log.append(b"a")
    with ithaca.open(tmp_path / "log") as log:
        assert names(log) == ["audit", "billing"], "nobody has asked for it"
    with ithaca.open(tmp_path / "log", consumer_idle_s="1d") as log:
        assert names(log) == ["audit"]
    with ithaca.open(tmp_path / "log", mode="r") as log:
        assert names(log) == ["audit"]


def test_a_clock_that_is_ahead_has_nobody_go(tmp_path: Path, clock: Clock) -> None:
    with ithaca.open(tmp_path / "log") as log:
        used(log, "billing")
    clock.ahead_s = 365 * DAY_S
    with ithaca.open(tmp_path / "log", consumer_idle_s="1d") as log:
        assert names(log) == ["billing"]
        clock.passed_s += 60
        appended(log)
        assert names(log) == ["billing"]


@pytest.mark.parametrize("idle", [0, -1, "soon", float("nan")])
def test_a_senseless_time_is_refused(tmp_path: Path, idle: float | str) -> None:
    with pytest.raises(ithaca.InvalidInput, match="consumer_idle_s"):
        ithaca.open(tmp_path / "log", consumer_idle_s=idle)
