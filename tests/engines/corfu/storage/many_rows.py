"""A unit with very many rows: what they take in memory, and how long a start is, with the index and without.

    python -m tests.engines.corfu.storage.many_rows 10000000

prints what was measured, as JSON. Rows come in groups, as they do under load, each with one record.
"""

import json
import resource
import sys
import tempfile
import time
from pathlib import Path
from uuid import UUID

from ithaca.engines.corfu.sequencing.entries import entry_of
from ithaca.engines.corfu.sequencing.unit import RowChange
from ithaca.engines.corfu.storage.row_index import NAME as ROWS
from ithaca.engines.corfu.storage.unit_store import SESSIONS, UnitStore, create
from ithaca.storage.disk import OsDisk
from ithaca.wire.build import build

_GROUP_ROWS = 2048
_LOOK_AT = 300
"""Rows that are read after each start, from end to end, and the last ones in order."""


def measured(directory: Path, count: int) -> dict[str, float]:
    """Write so many rows, start again with the index and without, and read some each time."""
    disk, path = OsDisk(), str(directory / "unit")
    create(disk, path, UUID(int=1))
    found: dict[str, float] = {"rows": count, "memory_before_mib": _memory_mib()}
    begun_s = time.perf_counter()
    store = UnitStore(disk, path)
    _fill(store, count)
    found["written_s"] = time.perf_counter() - begun_s
    found["memory_written_mib"] = _memory_mib()
    _looked_at(store, count)
    store.close()
    for what, lacking in (("start", ()), ("rebuild", (ROWS, SESSIONS))):
        for name in filter(lambda name: disk.exists(f"{path}/{name}"), lacking):
            disk.remove(f"{path}/{name}")
        begun_s = time.perf_counter()
        store = UnitStore(disk, path)
        found[f"{what}_s"] = time.perf_counter() - begun_s
        found[f"memory_{what}_mib"] = _memory_mib()
        _looked_at(store, count)
        store.close()
    return found


def _fill(store: UnitStore, count: int) -> None:
    entry = entry_of(build([b"a record of some bytes"], None, timestamp_us=1), 1)
    for start in range(0, count, _GROUP_ROWS):
        changes = [RowChange(row, entry) for row in range(start, min(count, start + _GROUP_ROWS))]
        lsns = store.commit(changes)
        store.noted(changes, lsns)
        for change in changes:
            store.state.apply(change)
        if (due := store.due_checkpoint()) is not None:
            store.checkpoint(due)
            store.checkpointed(due)


def _looked_at(store: UnitStore, count: int) -> None:
    """Rows are found from end to end, and no other."""
    assert len(store.rows) == count
    assert store.state.highest == count - 1
    assert count not in store.rows
    for row in (*range(0, count, max(1, count // _LOOK_AT)), *range(count - min(count, _LOOK_AT), count)):
        found = store.read(row)
        assert found.batch is not None
        assert found.batch.records(1, 0)[0].value == b"a record of some bytes"


def _memory_mib() -> float:
    """The most that this process ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main(count: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        print(json.dumps({name: round(value, 2) for name, value in measured(Path(directory), count).items()}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
