"""The second half of `ithaca bench backup --restore`: the backup into a new log, and a comparison record by record.

`ithaca restore` runs in a process of its own, as `ithaca backup` did. Then both logs are read in order, side by side.
"""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Any

import ithaca
from ithaca.archive.folder import chunks
from ithaca.archive.places import place_of
from ithaca.bench.cluster.target import measured_cluster
from ithaca.bench.measure import Progress
from ithaca.cluster.temporary import Shape
from ithaca.model.engine import FEATURES, Feature
from ithaca.model.errors import Corrupt, Unavailable
from ithaca.model.interface import Log
from ithaca.model.records import Record

TIMEOUT_S = 3600.0


def run_restore(directory: Path, source: Log, shape: Shape | None, progress: Progress) -> dict[str, Any]:
    """Restore `directory/backup` into a new log, of this shape if it is a cluster's; raises if it is not the same."""
    backup = directory / "backup"
    kept = chunks(place_of(backup))
    same_positions = shape is None or Feature.DENSE in FEATURES[shape.engine]
    with _empty_log(directory, shape, progress) as (target, restored):
        progress("restoring the backup")
        began_s = time.monotonic()
        _restore(target, backup, renumber=not same_positions)
        seconds = time.monotonic() - began_s
        progress("comparing record by record")
        with source.read_range(kept[0].start, kept[-1].stop) as expected, restored.read_range("earliest") as found:
            records = compared(expected, found, str(backup), same_positions=same_positions)
    size = sum(place_of(backup).size(each.name) for each in kept)
    return {
        "bytes": size,
        "seconds": round(seconds, 3),
        "bytes_per_s": round(size / seconds, 1),
        "records": records,
        "same_positions": same_positions,
    }


def compared(expected: Iterator[Record], found: Iterator[Record], backup: str, *, same_positions: bool) -> int:
    """How many records both have; `Corrupt` says where the first one differs, `backup` from which it came."""
    count = 0
    for one, other in zip_longest(expected, found):
        if one is None or other is None:
            at = (one or other).position
            raise Corrupt(f"position {at} holds a record before or after the restore, and not both times", file=backup)
        is_same = (one.value, one.key) == (other.value, other.key)
        if not is_same or (same_positions and one.position != other.position):
            raise Corrupt(f"position {one.position} came back as another record, at {other.position}", file=backup)
        count += 1
    return count


@contextmanager
def _empty_log(directory: Path, shape: Shape | None, progress: Progress) -> Iterator[tuple[tuple[str, str], Log]]:
    """How the command line names it, and a handle to read it once it is filled."""
    if shape is None:
        path = directory / "restored"
        ithaca.open(path).close()
        with ithaca.open(path, mode="r") as log:
            yield ("-p", str(path)), log
        return
    with (
        measured_cluster(directory / "restored", shape, progress) as run,
        ithaca.connect(run.bootstrap, tls=run.tls, token=run.token) as log,
    ):
        yield ("-b", run.bootstrap), log


def _restore(target: tuple[str, str], backup: Path, *, renumber: bool) -> None:
    command = [sys.executable, "-m", "ithaca", "restore", "--from", str(backup), *target]
    command += ["--renumber"] if renumber else []
    done = subprocess.run(command, stdout=subprocess.DEVNULL, timeout=TIMEOUT_S)
    if done.returncode:
        raise Unavailable(f"ithaca restore ended with status {done.returncode}")
