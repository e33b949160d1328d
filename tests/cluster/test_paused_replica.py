"""One replica of two is paused, and another shard is well: appends go on there, by themselves, and none is lost or
doubled. When the replica is back its shard takes appends again."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.cluster.supervising import eventually
from tests.cluster.test_failure_answers import paused

import ithaca
from ithaca.cluster.temporary import Shape, temporary_cluster
from ithaca.model.config.failures import NO_ACTION, FailurePolicy

APPENDERS = 6
"""Enough that some are at home in each lane of the shard."""


class Appenders:
    """Some that append one record after the other, each with its own handle, every second by a named session; and one
    that opens a handle for each record."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._stop = threading.Event()
        self.acknowledged: dict[int, bytes] = {}
        self.longest_s = 0.0
        self.counts = [0] * (APPENDERS + 1)
        self.failures: list[BaseException] = []
        threads = [threading.Thread(target=self._guarded, args=(number,)) for number in range(APPENDERS + 1)]
        for thread in threads:
            thread.start()
        self._threads = threads

    def grown(self) -> None:
        """Wait until everybody has appended more."""
        before = list(self.counts)
        eventually(
            lambda: bool(self.failures) or all(now > old for now, old in zip(self.counts, before, strict=True)),
            "all append",
        )
        assert not self.failures, self.failures

    def end(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def check(self) -> None:
        assert not self.failures, self.failures
        with ithaca.connect(self._bootstrap) as log:
            there = [(record.position, record.value) for record in log.read_range(1)]
        assert len({value for _, value in there}) == len(there), "a record is there twice"
        assert dict(there) == self.acknowledged, "what was acknowledged is there, and nothing else"

    def _guarded(self, number: int) -> None:
        try:
            if number == APPENDERS:
                self._append_by_new_handles(number)
            else:
                self._append(number)
        except BaseException as error:
            self.failures.append(error)

    def _append(self, number: int) -> None:
        with ithaca.connect(self._bootstrap) as log:
            session = log.session(f"appender {number}") if number % 2 else log
            while not self._stop.is_set():
                self._timed(session, number)
                time.sleep(0.005)

    def _append_by_new_handles(self, number: int) -> None:
        while not self._stop.is_set():
            with ithaca.connect(self._bootstrap) as log:
                self._timed(log, number)
            time.sleep(0.2)

    def _timed(self, log: ithaca.Log | ithaca.Session, number: int) -> None:
        value = b"%d %d" % (number, self.counts[number])
        began_s = time.monotonic()
        position = log.append(value).position
        self.longest_s = max(self.longest_s, time.monotonic() - began_s)
        self.acknowledged[position] = value
        self.counts[number] += 1


@contextmanager
def appending(bootstrap: str) -> Iterator[Appenders]:
    appenders = Appenders(bootstrap)
    try:
        yield appenders
    finally:
        appenders.end()


def pause_one(tmp_path: Path, failures: FailurePolicy, pause_s: float) -> float:
    """How long the longest append took, while one replica of two was paused for so long."""
    shape = Shape(2, 2, 1, failures=failures)
    with temporary_cluster(tmp_path / "data", shape, lambda text: None) as cluster:
        with appending(cluster.bootstrap) as appenders, ithaca.connect(cluster.bootstrap) as log:
            appenders.grown()
            with paused(cluster, "shard-0-replica-1"):
                began_s = time.monotonic()
                eventually(lambda: not any(each.is_open for each in log.admin.shards()[0].replicas), "it is left")
                appenders.grown()
                (problem,) = (each for each in log.status().problems if each.startswith("shard 0"))
                assert problem == (
                    "shard 0 orders nothing: replica 0/1 is silent, and 2 must have synced what is ordered; "
                    "appends go to shard 1"
                )
                while time.monotonic() < began_s + pause_s:
                    appenders.grown()
            eventually(lambda: all(each.is_open for each in log.admin.shards()[0].replicas), "it takes appends again")
            eventually(lambda: log.status().healthy, "all is well")
            appenders.acknowledged[log.append_to_shard(0, b"last").position] = b"last"
            appenders.grown()
        appenders.check()
    return appenders.longest_s


def test_appends_go_on_elsewhere_while_one_replica_of_two_is_paused(tmp_path: Path) -> None:
    assert pause_one(tmp_path, FailurePolicy("none", detection_ms=700), 0) < 20


@pytest.mark.campaign
def test_no_append_takes_long_while_one_replica_of_two_is_paused_for_a_minute(tmp_path: Path) -> None:
    longest_s = pause_one(tmp_path, NO_ACTION, 60)
    print(f"the longest append took {longest_s:.2f} s")
    assert longest_s <= 5
