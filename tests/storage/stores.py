"""Stores of lanes to begin with."""

from ithaca.engines.scalog.storage.lane_store import LaneStore
from ithaca.model.cut import LaneRun
from ithaca.model.positions import LaneId
from ithaca.sim.disk import SimDisk
from ithaca.storage.disk import Disk

OWN, PEER, OLD = LaneId(3, 1, 4), LaneId(3, 2, 10), LaneId(3, 1, 3)


def opened(disk: Disk, directory: str = "/store") -> LaneStore:
    return LaneStore(disk, directory, segment_bytes=2500)


def new_store() -> tuple[SimDisk, LaneStore]:
    disk = SimDisk()
    disk.make_directory("/store")
    disk.sync_directory("/")
    return disk, opened(disk)


def note(store: LaneStore, lane: LaneId, position: int, count: int, time_us: int = 1) -> None:
    store.note((LaneRun(lane, store.lanes[lane].runs.end_lsn, position, count),), time_us)
