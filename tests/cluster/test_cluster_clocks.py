"""Clocks that are wrong: nothing is trimmed by them, and expiry and graces end all the same."""

import dataclasses
import time
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest

import ithaca
from ithaca.engines.scalog.server.orderer import leading
from ithaca.model import trim_pace
from ithaca.model.errors import PartGone
from ithaca.model.limits import PART_INCARNATION_MIN
from ithaca.model.records import Retention
from ithaca.runtime import machine
from ithaca.testing import Cluster

LOOK_S = 0.05
HOUR_S = 3600.0
YEAR_S = 365 * 24 * HOUR_S


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leading, "RETENTION_CHECK_S", LOOK_S)


class Clock(machine.Machine):
    """A machine whose clock can be set. All servers and clients of the test run on it."""

    ahead_s = 0.0

    def wall_us(self) -> int:
        return super().wall_us() + int(self.ahead_s * 1e6)


@pytest.fixture
def clock() -> Iterator[Clock]:
    made = Clock()
    before = machine.use(made)
    yield made
    machine.use(before)


def cluster_that_keeps_a_day() -> Cluster:
    cluster = Cluster(shards=2)
    cluster.file = dataclasses.replace(cluster.file, retention=Retention(age=timedelta(days=1)))
    return cluster


def restart_orderer(cluster: Cluster) -> None:
    cluster.stop_server("orderer-1")
    cluster.start_server("orderer-1")


def until(done: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 60
    while not done():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


@pytest.mark.parametrize("ahead_s", [25 * HOUR_S, YEAR_S])
def test_clocks_that_are_ahead_for_a_moment_trim_nothing(clock: Clock, ahead_s: float) -> None:
    with cluster_that_keeps_a_day() as cluster, ithaca.connect(cluster.bootstrap) as log:
        for number in range(10):
            log.append_to_shard(number % 2, b"%d" % number)
        clock.ahead_s = ahead_s
        assert log.append(b"while they were wrong").position == 11
        time.sleep(0.6)
        clock.ahead_s = 0.0
        assert log.append(b"after that").position == 12
        time.sleep(10 * LOOK_S)
        assert log.first() == 1


def test_an_orderer_that_starts_with_a_clock_that_is_ahead_says_what_it_would_trim(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with cluster_that_keeps_a_day() as cluster, ithaca.connect(cluster.bootstrap) as log:
        for number in range(10):
            log.append_to_shard(number % 2, b"%d" % number)
        clock.ahead_s = 25 * HOUR_S
        restart_orderer(cluster)
        until(lambda: any("before position 11" in said for said in cluster.status().health.warnings), "it is announced")
        assert log.first() == 1
        monkeypatch.setattr(trim_pace, "RETENTION_WAIT_S", 0.1)
        until(lambda: log.first() == 11, "nobody has set the clock right")
        until(lambda: not any("retention" in said for said in cluster.status().health.warnings), "it is done")


def test_an_announcement_ends_when_the_clock_is_set_right(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    with cluster_that_keeps_a_day() as cluster, ithaca.connect(cluster.bootstrap) as log:
        assert log.append(b"a").position == 1
        clock.ahead_s = 25 * HOUR_S
        restart_orderer(cluster)
        until(
            lambda: any("retention trims what" in said for said in cluster.status().health.warnings), "it is announced"
        )
        clock.ahead_s = 0.0
        until(lambda: not any("retention" in said for said in cluster.status().health.warnings), "it is taken back")
        monkeypatch.setattr(trim_pace, "RETENTION_WAIT_S", 0.1)
        time.sleep(10 * LOOK_S)
        assert log.first() == 1
        assert any("the order's time is 90000 s ahead" in said for said in cluster.status().health.warnings)


def test_a_grace_and_a_part_end_although_the_order_was_a_year_ahead(clock: Clock) -> None:
    clock.ahead_s = YEAR_S
    with Cluster(shards=2) as cluster, ithaca.connect(cluster.bootstrap) as log:
        assert log.append(b"a year ahead").position == 1
        clock.ahead_s = 0.0
        restart_orderer(cluster)
        log.admin.finalize_shard(1, grace=1.0)
        part = log.prepare([b"never published"], ttl=1.0)

        def is_held() -> bool:
            lanes = [lane["lane"] for server in log.status().servers for lane in server.get("lanes", ())]
            return any(int(lane.rpartition("-")[2]) >= PART_INCARNATION_MIN for lane in lanes)

        assert is_held()
        until(lambda: not is_held(), "a part of a second expires")
        with pytest.raises(PartGone):
            log.publish(1, [part], writer="too late")
        until(
            lambda: [shard.phase for shard in log.admin.shards()] == ["live", "finalized"], "a grace of a second ends"
        )
