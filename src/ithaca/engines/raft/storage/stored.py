"""What the directory of a stopped server holds; nothing there is changed.

What is agreed on is known up to the compaction point, and further of a server that was stopped cleanly (`cursor`).
"""

from collections.abc import Iterator

from ithaca.engines.engine import HeldBatch, StoredRun
from ithaca.engines.raft.name import LANE
from ithaca.engines.raft.replog.state import length_in
from ithaca.engines.raft.storage.names import end_of, with_named
from ithaca.engines.raft.storage.shared_log import LANE_DIRECTORY, kept_cursor
from ithaca.model.errors import Corrupt, NoSuchLog
from ithaca.model.positions import position_of
from ithaca.storage.disk import Disk
from ithaca.storage.offline import data_batches, opened
from ithaca.storage.raftlog import FILE_NAME, verify


def stored_runs(disk: Disk, directory: str) -> Iterator[StoredRun]:
    """The records that this server knew to be agreed on, with their positions."""
    if not disk.exists(f"{directory}/{FILE_NAME}"):
        raise NoSuchLog(f"{directory} is not the directory of a server of this engine: it has no {FILE_NAME}")
    found = verify(disk, directory)
    path = f"{directory}/{LANE_DIRECTORY}"
    reader = opened(disk, path, LANE)
    state = with_named(reader, found)
    if reader.length < end_of(state):
        raise Corrupt(f"the lane ends at LSN {reader.length}, before the ranges of it", file=path)
    stop = max(length_in(state.snapshot.data), min(kept_cursor(disk, directory), end_of(state)))
    start = max(reader.trim_lsn, reader.first_lsns[0])
    for batch in data_batches(reader, start, stop) if start < stop else ():
        low, high = max(0, start - batch.base_lsn), min(batch.count, stop - batch.base_lsn)
        yield StoredRun(path, batch, low, high, position_of(batch.base_lsn + low))


def held_batches(disk: Disk, directory: str) -> Iterator[HeldBatch]:
    """The batches of all ranges there, agreed on or not; what lies behind the last one belongs to nobody."""
    path = f"{directory}/{LANE_DIRECTORY}"
    if not disk.exists(f"{directory}/{FILE_NAME}"):
        return
    reader = opened(disk, path, LANE)
    stop = end_of(with_named(reader, verify(disk, directory)))
    start = max(reader.trim_lsn, reader.first_lsns[0])
    for batch in data_batches(reader, start, stop) if start < stop else ():
        yield HeldBatch(path, batch)
