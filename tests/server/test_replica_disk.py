"""The lanes of a replica on a disk without space: it is full for as long as somebody lacks some."""

import threading
from collections.abc import AsyncIterator

import pytest
from prometheus_client import CollectorRegistry
from tests.runtime.loops import until

from ithaca.engines.scalog.replica.events import DiskFull, Event
from ithaca.engines.scalog.server.replica import disk as replica_disk
from ithaca.engines.scalog.server.replica.disk import LaneDisk
from ithaca.engines.scalog.storage.lane_store import LaneStore
from ithaca.model.errors import IthacaError
from ithaca.model.positions import LaneId
from ithaca.runtime import lane_writer
from ithaca.runtime.metrics import ReplicaMetrics
from ithaca.sim.disk import SimDisk
from ithaca.wire.batch import lane_seed
from ithaca.wire.build import build

ONE, OTHER = LaneId(0, 0, 1), LaneId(0, 1, 1)


class Keeping:
    """A keeper of two lanes, and what it says about space."""

    def __init__(self) -> None:
        self.disk = SimDisk()
        self.disk.make_directory("lanes")
        store = LaneStore(self.disk, "lanes")
        for lane in (ONE, OTHER):
            store.create(lane)
        self.said: list[bool] = []
        self.failures: list[IthacaError] = []
        metrics = ReplicaMetrics(CollectorRegistry())
        self.keeper = LaneDisk(store, self._step, self.failures.append, metrics, self.failures.append)

    def _step(self, event: Event) -> None:
        if isinstance(event, DiskFull):
            self.said.append(event.is_full)

    def write(self, lane: LaneId) -> None:
        self.keeper.write(lane, build([bytes(3 << 20)], timestamp_us=1).placed(0, lane_seed(lane)))


@pytest.fixture
async def keeping(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Keeping]:
    for module in (lane_writer, replica_disk):
        monkeypatch.setattr(module, "STORAGE_FULL_RETRY_S", 0.005)
    keeping = Keeping()
    yield keeping
    await keeping.keeper.close()
    assert keeping.failures == []


async def test_a_lane_that_is_dropped_while_there_is_no_space_leaves_none_behind_that_lacks_it(
    keeping: Keeping,
) -> None:
    keeping.disk.capacity_bytes = 0
    keeping.write(ONE)
    await until(lambda: keeping.said == [True])
    keeping.keeper.drop(ONE)
    await until(lambda: not keeping.keeper._writers)
    keeping.disk.capacity_bytes = None
    await until(lambda: keeping.said == [True, False])


async def test_the_disk_is_full_until_the_last_has_space(keeping: Keeping) -> None:
    keeping.disk.capacity_bytes = 0
    keeping.write(ONE)
    keeping.write(OTHER)
    await until(lambda: len(keeping.keeper._short) == 2)
    keeping.keeper.drop(ONE)
    await until(lambda: ONE not in keeping.keeper._short)
    assert keeping.said == [True]
    keeping.disk.capacity_bytes = None
    await until(lambda: keeping.said == [True, False])


async def test_a_disk_that_fails_at_the_end_leaves_no_thread_behind() -> None:
    keeping = Keeping()
    before = threading.active_count()
    for lane in (ONE, OTHER):
        keeping.write(lane)
    writers = list(keeping.keeper._writers.values())
    await until(lambda: all(writer.queued_bytes == 0 for writer in writers))
    assert threading.active_count() == before + 2
    keeping.disk.power_fails_after(0)
    keeping.disk.capacity_bytes = 0
    with pytest.raises(IthacaError):
        await keeping.keeper.close()
    assert threading.active_count() == before
