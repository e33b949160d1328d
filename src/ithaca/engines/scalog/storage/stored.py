"""What the directory of a stopped replica holds, for offline tools.

Nothing on the disk is changed, whatever state a crash left it in: lanes are walked as a recovery would, without the
repairs, and runs are opened in a copy. Damage is raised, and never left out.

Runs are synced some time after the records that they order, because the ordering layer has them until then: only a
replica that was stopped cleanly holds the positions of everything that was acknowledged.
"""

from collections.abc import Container, Iterator

from ithaca.engines.engine import HeldBatch, StoredRun
from ithaca.engines.scalog.storage import quarantine, replica_meta, runs_file
from ithaca.engines.scalog.storage.lane_store import DROPPED
from ithaca.engines.scalog.storage.packs import packed_places
from ithaca.engines.scalog.storage.runs import Runs
from ithaca.model.errors import NoSuchLog
from ithaca.model.positions import LaneId
from ithaca.storage.disk import Disk
from ithaca.storage.offline import data_batches, opened
from ithaca.storage.private_copy import PrivateCopy
from ithaca.storage.reader import LaneReader
from ithaca.storage.recovery import NEW_SUFFIX

_LANES = "lanes"
"""Where a replica's directory has them."""


def stored_runs(disk: Disk, directory: str) -> Iterator[StoredRun]:
    """The records of all lanes that have positions; left out are runs whose records are not on this disk."""
    if not disk.exists(f"{directory}/{replica_meta.NAME}"):
        raise NoSuchLog(f"{directory} is not the directory of a replica: it has no {replica_meta.NAME}")
    packed = packed_places(disk, f"{directory}/{_LANES}")
    for place in packed.values():
        lane = place.open(disk)
        yield from _placed(lane, lane.runs, place.path)
    for path, lane_id in _whole_lanes(disk, directory, packed):
        yield from _lane_runs(disk, path, lane_id)


def held_batches(disk: Disk, directory: str) -> Iterator[HeldBatch]:
    """The batches of all lanes, those included that have no position there (yet)."""
    packed = packed_places(disk, f"{directory}/{_LANES}")
    readers: list[LaneReader] = [place.open(disk) for place in packed.values()]
    readers += (opened(disk, path, lane) for path, lane in _whole_lanes(disk, directory, packed))
    for reader in readers:
        for batch in data_batches(reader, reader.trim_lsn, reader.length):
            yield HeldBatch(reader.directory, batch)


def _whole_lanes(disk: Disk, directory: str, packed: Container[LaneId]) -> Iterator[tuple[str, LaneId]]:
    """The lanes that are in no pack, with their paths."""
    for lane in sorted(filter(None, map(quarantine.lane_of, disk.list(f"{directory}/{_LANES}")))):
        path = f"{directory}/{_LANES}/{lane}"
        if lane not in packed and _is_complete(disk.list(path)):
            yield path, lane


def _is_complete(names: list[str]) -> bool:
    """Whether a lane was neither being made nor being dropped (`lane_store`)."""
    return DROPPED not in names and any(not name.endswith(NEW_SUFFIX) for name in names)


def _lane_runs(disk: Disk, path: str, lane: LaneId) -> Iterator[StoredRun]:
    quarantine.check_unmarked(disk, path)
    reader = opened(disk, path, lane)
    copied = (f"{path}/{name}" for name in disk.list(path) if runs_file.is_runs_file(name))
    yield from _placed(reader, Runs(PrivateCopy(disk, copied), path), path)


def _placed(reader: LaneReader, runs: Runs, path: str) -> Iterator[StoredRun]:
    start, stop = max(reader.trim_lsn, runs.first_lsn), min(reader.length, runs.end_lsn)
    for batch in data_batches(reader, start, stop):
        for run in runs.runs(max(start, batch.base_lsn), min(stop, batch.end_lsn)):
            low = run.lsn - batch.base_lsn
            yield StoredRun(path, batch, low, low + run.count, run.position)
