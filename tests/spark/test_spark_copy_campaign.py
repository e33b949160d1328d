"""A streaming copy from log to log whose driver and workers are killed: the same records, in order, once."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random

import pytest

import ithaca
from ithaca.testing import Cluster
from tests.spark.copying import start_copy

RECORDS = 500_000
BATCH = 1000
DRIVERS_KILLED = 6
WORKERS_KILLED = 12


@contextmanager
def copying(source: str, target: str, checkpoint: Path, said: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A driver that copies what is left, in a session of its own, of which nothing is left afterwards."""
    driver = start_copy(source, target, checkpoint, said, master="local[2, 4]", offsets=10_000, trigger="available")
    try:
        yield driver
    finally:
        for process in session_of(driver.pid):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        driver.wait()


def session_of(leader: int) -> list[int]:
    """The processes of a session: the driver, its Java machine, its Python workers."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(ProcessLookupError, PermissionError):
                if os.getsid(int(entry.name)) == leader:
                    found.append(int(entry.name))
    return found


def workers_of(leader: int) -> list[int]:
    """The Python processes that Spark has started for tasks, commits and plans."""
    found = []
    for process in session_of(leader):
        with suppress(OSError):
            if b"\0-m\0pyspark." in Path(f"/proc/{process}/cmdline").read_bytes():
                found.append(process)
    return found


def wait_for(log: ithaca.Log, tail: int, driver: "subprocess.Popen[bytes]") -> bool:
    """Whether the log has grown so far before the driver ended."""
    while log.tail() < tail:
        if driver.poll() is not None:
            return False
        time.sleep(0.02)
    return True


@pytest.mark.campaign
@pytest.mark.timeout(1800)
def test_a_copy_survives_the_deaths_of_its_driver_and_workers(tmp_path: Path) -> None:
    random = Random(20)
    with (
        Cluster(shards=2) as source,
        Cluster(shards=2) as target,
        ithaca.connect(source.bootstrap, shard_policy="round_robin") as log,
        ithaca.connect(target.bootstrap) as copy,
    ):
        for first in range(0, RECORDS, BATCH):
            numbers = range(first, first + BATCH)
            log.append_many([b"%d" % n for n in numbers], keys=[b"key-%d" % (n % 97) for n in numbers])
        killed = {"driver": 0, "worker": 0}
        said = tmp_path / "driver.txt"
        runs = 0
        while copy.tail() <= RECORDS:
            runs += 1
            assert runs <= 4 * (DRIVERS_KILLED + WORKERS_KILLED), said.read_text()[-4000:]
            with copying(source.bootstrap, target.bootstrap, tmp_path / "checkpoint", said) as driver:
                while wait_for(copy, min(copy.tail() + random.randrange(1, 25_000), RECORDS + 1), driver):
                    if copy.tail() > RECORDS:
                        break
                    time.sleep(random.random())
                    if killed["driver"] < DRIVERS_KILLED and random.random() < 0.3:
                        killed["driver"] += 1
                        break  # with everything that it started
                    if killed["worker"] < WORKERS_KILLED:
                        found = workers_of(driver.pid)
                        for worker in random.sample(found, min(2, len(found))):
                            with suppress(ProcessLookupError):
                                os.kill(worker, signal.SIGKILL)
                            killed["worker"] += 1
        assert killed["driver"] == DRIVERS_KILLED, "the copy ended before all was done to it"
        assert killed["worker"] >= WORKERS_KILLED
        assert copy.tail() == log.tail() == RECORDS + 1
        with log.read_range(1) as ours, copy.read_range(1) as theirs:
            for ordered, copied in zip(ours, theirs, strict=True):
                assert (ordered.position, ordered.key, ordered.value) == (copied.position, copied.key, copied.value)
