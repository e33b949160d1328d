"""What many small settled lanes cost a store: its start, its descriptors, its memory, a read, a step of a stream.

    python tools/measure_lanes.py 100 10000 100000 --directory /dev/shm/lanes

For each number a store is made with so many lanes of three records each, then opened by a process of its own, which
prints one line of JSON. Times are of the processor, so that other work beside it does not count. The directory is
removed before and after.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from argparse import ArgumentParser
from pathlib import Path
from random import Random
from statistics import median

from ithaca.engines.scalog.storage.lane_store import LaneStore
from ithaca.engines.scalog.storage.shard_reader import LaneRange, ShardCursor, find
from ithaca.model.cut import LaneRun
from ithaca.model.limits import PART_INCARNATION_MIN
from ithaca.model.positions import LaneId
from ithaca.storage import segment
from ithaca.storage.disk import OsDisk
from ithaca.wire.build import build

_RECORDS = 3
_READS = 500
_AT_ONCE = 1000


def make(directory: str, lanes: int) -> None:
    """A store with so many published parts."""
    segment.ALLOCATE_AHEAD_BYTES = segment.ZERO_AHEAD_BYTES = 4096  # type: ignore[attr-defined]  # it is packed anyway
    OsDisk().make_directory(directory)
    store = LaneStore(OsDisk(), directory)
    for number in range(lanes):
        lane = LaneId(0, 0, PART_INCARNATION_MIN + number)
        held = store.create(lane)
        held.lane.commit(held.lane.prepare([build([bytes(100)] * _RECORDS, timestamp_us=number)]))
        store.note((LaneRun(lane, 0, 1 + number * _RECORDS, _RECORDS),), number)
        held.is_written, held.is_settled = False, True
        if (number + 1) % _AT_ONCE == 0 or number + 1 == lanes:
            store.pack()
            store.tidy()
    store.close()


def measure(directory: str, lanes: int) -> dict[str, float]:
    """What a process that opens the store sees."""
    began_kib, began = _resident_kib(), time.process_time()
    store = LaneStore(OsDisk(), directory)
    held = len(store.held()) + len(list(store.settled.lengths()))
    start_s = time.process_time() - began
    assert held == lanes
    opened_kib = _resident_kib()
    random, took, plans, reads = Random(1), list[float](), list[float](), list[float]()
    for _ in range(_READS):
        position = random.randrange(1, 1 + lanes * _RECORDS)
        began = time.process_time()
        found = find(store, position)
        assert found is not None
        ShardCursor(store, position).read([LaneRange(*found, position, 1)])
        took.append(time.process_time() - began)
    cursor = ShardCursor(store, 1)
    while cursor.position < 1 + lanes * _RECORDS:
        began = time.process_time()
        planned = cursor.plan(1 + lanes * _RECORDS)
        plans.append(time.process_time() - began)
        cursor.read(planned)
        reads.append(time.process_time() - began - plans[-1])
    return {
        "lanes": lanes,
        "start_ms": round(1000 * start_s, 1),
        "descriptors": len(os.listdir("/proc/self/fd")),
        "store_mib": round((opened_kib - began_kib) / 1024, 1),
        "read_us": round(1e6 * median(took), 1),
        "plan_us": round(1e6 * median(plans), 1),
        "stream_lanes_per_s": round(lanes / (sum(plans) + sum(reads))),
        "resident_mib": round(_resident_kib() / 1024, 1),
    }


def _resident_kib() -> int:
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1])


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("lanes", type=int, nargs="+")
    parser.add_argument("--directory", required=True)
    parser.add_argument("--measure", action="store_true", help="only open the store that is there")
    options = parser.parse_args()
    for lanes in options.lanes:
        if options.measure:
            print(json.dumps(measure(options.directory, lanes)))
            continue
        shutil.rmtree(options.directory, ignore_errors=True)
        make(options.directory, lanes)
        command = [sys.executable, __file__, str(lanes), "--directory", options.directory, "--measure"]
        subprocess.run(command, check=True)
        shutil.rmtree(options.directory)


if __name__ == "__main__":
    main()
