"""A file without a log around it: `pwritev` and `fdatasync` of whole batches, nothing else.

Two kinds of file, because a sync costs two to four times more on one than on the other:

- *prewritten*: zeros were written and synced beforehand, as in a recycled segment, so a sync changes no
  metadata; at its end the writer starts over;
- *append*: the file grows with every batch; at the same size another is begun.
"""

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ithaca.bench.measure import Budget, Sample, in_threads, repeat
from ithaca.bench.place import payload
from ithaca.model.limits import MIB
from ithaca.model.records import Durability

POOL_BYTES = 16 * MIB
"""Batches are slices of so much payload, so that consecutive ones differ."""
KINDS = ("prewritten", "append")


@dataclass(frozen=True, slots=True)
class CeilingSettings:
    """`file_bytes` is where a file is written over, or another begun."""

    record_bytes: int = 4096
    batch: int = 64
    seconds: float | None = 2.0
    bytes: int | None = None
    rounds: int = 3
    replicas: int = 1
    window: int = 4
    file_bytes: int = 64 * MIB
    durability: Durability = "fsync"

    @property
    def batch_bytes(self) -> int:
        return self.record_bytes * self.batch

    @property
    def budget(self) -> Budget:
        return Budget(self.seconds, self.bytes)


class BareFile:
    """Writes batches one behind the other, each followed by a sync where durability asks for it."""

    def __init__(self, path: Path, kind: str, settings: CeilingSettings) -> None:
        assert kind in KINDS, kind
        self._path = path
        self._grows = kind == "append"
        self._syncs = settings.durability == "fsync"
        self._limit = max(1, settings.file_bytes // settings.batch_bytes) * settings.batch_bytes
        self._offset = 0
        self._filled = 0
        self._lock = threading.Lock()
        self._fd = self._create()
        self._full: list[int] = []
        """Files that others may still be writing to: closed with the last one."""
        if not self._grows:
            zeros = bytes(min(MIB, self._limit))
            for offset in range(0, self._limit, len(zeros)):
                os.pwrite(self._fd, zeros, offset)
            os.fsync(self._fd)

    def write(self, batch: memoryview) -> None:
        """Several threads may write at once."""
        with self._lock:
            if self._offset >= self._limit:
                self._offset = 0
                if self._grows:  # a new file; what is full stays, as it does under a log without retention
                    self._full.append(self._fd)
                    self._filled += 1
                    self._fd = self._create()
            fd, offset = self._fd, self._offset
            self._offset += len(batch)
        done = os.pwritev(fd, [batch], offset)
        while done < len(batch):
            done += os.pwritev(fd, [batch[done:]], offset + done)
        if self._syncs:
            os.fdatasync(fd)

    def reset(self) -> None:
        """Make room: a growing file starts from nothing. Not to be measured."""
        if self._grows:
            self.close()
            self._offset = self._filled = 0
            self._fd = self._create()

    def close(self) -> None:
        for fd in (self._fd, *self._full):
            os.close(fd)
        self._full = []
        for number in range(self._filled + 1):
            os.unlink(self._numbered(number))

    def _numbered(self, number: int) -> str:
        return f"{self._path}.{number}"

    def _create(self) -> int:
        return os.open(self._numbered(self._filled), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def batches_of(batch_bytes: int) -> list[memoryview]:
    """Slices of the pool, to be written in turn."""
    count = max(1, POOL_BYTES // batch_bytes)
    pool = memoryview(payload(count * batch_bytes))
    return [pool[index * batch_bytes : (index + 1) * batch_bytes] for index in range(count)]


def values_of(record_bytes: int, batch: int) -> list[list[bytes]]:
    """Batches of values, as a program would hold them, to be appended in turn."""
    return [
        [bytes(whole[offset : offset + record_bytes]) for offset in range(0, len(whole), record_bytes)]
        for whole in batches_of(batch * record_bytes)
    ]


def bare_contender(
    file: BareFile, batches: list[memoryview], settings: CeilingSettings, threads: int = 1
) -> Callable[[], Sample]:
    """Measures one file for the settings' budget, each time it is called."""

    def measure() -> Sample:
        file.reset()
        return in_threads(
            threads,
            lambda: repeat(
                lambda turn: file.write(batches[turn % len(batches)]),
                settings.batch,
                settings.record_bytes,
                settings.budget,
            ),
        )

    return measure
