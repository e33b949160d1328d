"""What the directory of a stopped replica holds, as the `final` event of a history.

Nothing on the disk is changed, whatever state a crash left it in: lanes are walked as a recovery would, without the
repairs, and runs are opened in a copy. Left out are records that no run gives a position, runs whose records are not on
this disk, and what was trimmed. Damage is raised, and never left out.

Runs are synced some time after the records that they order, because the ordering layer has them until then: only a
replica that was stopped cleanly holds the positions of everything that was acknowledged.
"""

from collections.abc import Container, Iterator

from ithaca.engines.scalog.storage import quarantine, replica_meta, runs_file
from ithaca.engines.scalog.storage.lane_store import DROPPED
from ithaca.engines.scalog.storage.packs import packed_places
from ithaca.engines.scalog.storage.runs import Runs
from ithaca.model.errors import Corrupt, NoSuchLog
from ithaca.model.positions import LaneId
from ithaca.proof import payload
from ithaca.proof.history import Final, Id
from ithaca.proof.private_copy import PrivateCopy
from ithaca.storage.disk import Disk
from ithaca.storage.reader import Cursor, LaneReader
from ithaca.storage.recovery import NEW_SUFFIX, inspect
from ithaca.storage.synced import ProgressFile
from ithaca.wire.batch import DATA, Batch

_LANES = "lanes"
"""Where a replica's directory has them."""


class NoPayload(Corrupt):
    """The log takes a value for sound, and it is none that a client has appended."""


def dump_replica(disk: Disk, directory: str, node: str) -> Final:
    """The records of all lanes with their positions; `Corrupt` for damage, `NoPayload` for a value that is none."""
    if not disk.exists(f"{directory}/{replica_meta.NAME}"):
        raise NoSuchLog(f"{directory} is not the directory of a replica: it has no {replica_meta.NAME}")
    found: list[tuple[int, list[Id]]] = []
    packed = packed_places(disk, f"{directory}/{_LANES}")
    for place in packed.values():
        lane = place.open(disk)
        found += _placed(lane, lane.runs, place.path)
    for path, lane_id in _whole_lanes(disk, directory, packed):
        found += _lane_runs(disk, path, lane_id)
    return Final(node=node, runs=tuple((position, tuple(ids)) for position, ids in _joined(sorted(found))))


def held_ids(disk: Disk, directory: str) -> set[Id]:
    """The ids of all records on the disk, those included that have no position there (yet)."""
    ids: set[Id] = set()
    packed = packed_places(disk, f"{directory}/{_LANES}")
    readers: list[LaneReader] = [place.open(disk) for place in packed.values()]
    readers += (_reader(disk, path, lane) for path, lane in _whole_lanes(disk, directory, packed))
    for reader in readers:
        for batch in _batches(reader, reader.trim_lsn, reader.length):
            ids.update(_ids(batch, 1, 0, batch.count, reader.directory))
    return ids


def _whole_lanes(disk: Disk, directory: str, packed: Container[LaneId]) -> Iterator[tuple[str, LaneId]]:
    """The lanes that are in no pack, with their paths."""
    for lane in sorted(filter(None, map(quarantine.lane_of, disk.list(f"{directory}/{_LANES}")))):
        path = f"{directory}/{_LANES}/{lane}"
        if lane not in packed and _is_complete(disk.list(path)):
            yield path, lane


def _is_complete(names: list[str]) -> bool:
    """Whether a lane was neither being made nor being dropped (`engines.scalog.storage.lane_store`)."""
    return DROPPED not in names and any(not name.endswith(NEW_SUFFIX) for name in names)


def _lane_runs(disk: Disk, path: str, lane: LaneId) -> Iterator[tuple[int, list[Id]]]:
    """The ids from some position on, batch by batch."""
    quarantine.check_unmarked(disk, path)
    reader = _reader(disk, path, lane)
    copied = (f"{path}/{name}" for name in disk.list(path) if runs_file.is_runs_file(name))
    yield from _placed(reader, Runs(PrivateCopy(disk, copied), path), path)


def _placed(reader: LaneReader, runs: Runs, path: str) -> Iterator[tuple[int, list[Id]]]:
    start, stop = max(reader.trim_lsn, runs.first_lsn), min(reader.length, runs.end_lsn)
    for batch in _batches(reader, start, stop):
        for run in runs.runs(max(start, batch.base_lsn), min(stop, batch.end_lsn)):
            low = run.lsn - batch.base_lsn
            yield run.position, _ids(batch, run.position, low, low + run.count, path)


def _reader(disk: Disk, path: str, lane: LaneId) -> LaneReader:
    progress = ProgressFile(disk, path, writable=False).load()
    found = inspect(disk, path, lane, progress, writable=False)
    reader = LaneReader(disk, path, lane)
    reader.first_lsns, reader.length, reader.trim_lsn = found.first_lsns, found.state.length, found.state.trim_lsn
    return reader


def _batches(reader: LaneReader, start: int, stop: int) -> Iterator[Batch]:
    """The batches that hold the LSNs `[start, stop)`, but for no-ops: those stand for what was trimmed."""
    cursor = Cursor(reader, start)
    while cursor.lsn < stop:
        yield from (batch for batch in cursor.read(stop) if batch.kind == DATA)


def _ids(batch: Batch, position: int, low: int, high: int, path: str) -> list[Id]:
    ids: list[Id] = []
    for record in batch.records(position - low, 0, slice(low, high)):
        try:
            ids.append(payload.decode(record.value))
        except ValueError as error:
            raise NoPayload(f"the record at position {record.position}: {error}", file=path) from error
    return ids


def _joined(runs: list[tuple[int, list[Id]]]) -> Iterator[tuple[int, list[Id]]]:
    """The same with those put together that follow each other."""
    current: tuple[int, list[Id]] | None = None
    for position, ids in runs:
        if current is not None and current[0] + len(current[1]) == position:
            current[1].extend(ids)
            continue
        if current is not None:
            yield current
        current = position, list(ids)
    if current is not None:
        yield current
