"""What the directory of a stopped unit holds; nothing there is changed.

A unit does not know whether a row is complete, which is a matter of its whole chain: every row that it has is listed.
"""

from collections.abc import Iterator

from ithaca.engines.corfu.sequencing.rows import first_position
from ithaca.engines.corfu.sequencing.trims import Trims
from ithaca.engines.corfu.storage.unit_store import LANE, LANE_ID, META, Meta, walk
from ithaca.engines.engine import HeldBatch, StoredRun
from ithaca.model.errors import NoSuchLog
from ithaca.storage import checked_file
from ithaca.storage.disk import Disk
from ithaca.storage.offline import opened
from ithaca.wire.batch import NOOPS


def stored_runs(disk: Disk, directory: str) -> Iterator[StoredRun]:
    """The records that are left, with their positions."""
    if not disk.exists(f"{directory}/{META}"):
        raise NoSuchLog(f"{directory} is not the directory of a unit: it has no {META}")
    meta = checked_file.load_value(disk, f"{directory}/{META}", Meta)
    trims = Trims(meta.trimmed_below, meta.trimmed, meta.first)
    path = f"{directory}/{LANE}"
    reader = opened(disk, path, LANE_ID)
    for row, _, entry in walk(reader, reader.first_lsns[0]):
        position = first_position(row)
        low = max(0, trims.first - position)
        if entry.kind != NOOPS and row not in trims and low < entry.count:
            yield StoredRun(path, entry, low, entry.count, position + low)


def held_batches(disk: Disk, directory: str) -> Iterator[HeldBatch]:
    """The batches of all rows there, trimmed or not."""
    path = f"{directory}/{LANE}"
    if not disk.exists(f"{directory}/{META}"):
        return
    reader = opened(disk, path, LANE_ID)
    for _, _, entry in walk(reader, reader.first_lsns[0]):
        if entry.kind != NOOPS:
            yield HeldBatch(path, entry)
