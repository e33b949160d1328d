"""One file of a lane: batches one behind the other, each continuing the LSNs of the last.

`<first lsn, 20 digits>.seg` opens with a snapshot entry; behind each synced group stands a mark. The file
is *written* ahead of the data, not only allocated (recycled after trim, or zeroed a bounded distance
ahead), so that syncing a small group changes no metadata. Old bytes in a recycled file are harmless: a
batch counts only if its base LSN continues the lane and its head was sealed for this lane.
"""

import errno
from collections.abc import Iterator, Sequence
from contextlib import suppress

import numpy as np

from ithaca.model.errors import Corrupt
from ithaca.model.limits import (
    AHEAD_BYTES_MIN,
    ALLOCATE_AHEAD_BYTES,
    INDEX_STRIDE_BYTES,
    READ_CHUNK_BYTES,
    SEGMENT_BYTES_MAX,
    ZERO_AHEAD_BYTES,
    ZERO_GROUP_BYTES_MAX,
)
from ithaca.model.records import Buffer
from ithaca.storage import index as indexes
from ithaca.storage.disk import Disk, File, write_zeros
from ithaca.storage.index import Index
from ithaca.wire.batch import HEAD_BYTES, MAGIC, PLACE, Batch, glance, parse, stored_bytes

SUFFIX = ".seg"


def name_of(first_lsn: int) -> str:
    return f"{first_lsn:020d}{SUFFIX}"


def index_name_of(first_lsn: int) -> str:
    return f"{first_lsn:020d}.idx"


def first_lsns(names: Sequence[str]) -> list[int]:
    """The first LSN of every segment among the names of a lane's directory, ascending."""
    stems = (name.removesuffix(SUFFIX) for name in names if name.endswith(SUFFIX))
    return sorted(int(stem) for stem in stems if len(stem) == 20 and stem.isdecimal())


class Segment:
    """A segment open for reading, with its index."""

    start = 0
    """Where its first entry stands in the file; offsets count from there."""

    def __init__(self, disk: Disk, directory: str, first_lsn: int, seed: int, *, writable: bool = False) -> None:
        self.first_lsn = first_lsn
        self.path = f"{directory}/{name_of(first_lsn)}"
        self.index_path = f"{directory}/{index_name_of(first_lsn)}"
        self.file: File = disk.open(self.path, writable=writable)
        self.index = Index()
        self.seed = seed
        if disk.exists(self.index_path):
            stored = disk.open(self.index_path, writable=False)
            data = stored.read(0, min(stored.size(), SEGMENT_BYTES_MAX))
            self.index, _ = indexes.load(data, segment_bytes=self.file.size())

    def walk(self, offset: int, lsn: int, *, chunk_bytes: int = READ_CHUNK_BYTES) -> Iterator[tuple[int, Batch]]:
        """Entries from `offset` on, with their offsets; raises `Corrupt` at the first that does not continue."""
        chunk_bytes = max(chunk_bytes, HEAD_BYTES)
        data, at = self.file.read(self.start + offset, chunk_bytes), 0
        while True:
            size = stored_bytes(data, at)
            if at and (at + size > len(data) or len(data) - at < HEAD_BYTES):
                offset, at = offset + at, 0
                data = self.file.read(self.start + offset, max(chunk_bytes, size))
                size = stored_bytes(data, at)
            if size > len(data):
                data = self.file.read(self.start + offset, size)
            batch = self._entry(data, at, offset, lsn)
            yield offset + at, batch
            at += size
            lsn = batch.end_lsn

    def _entry(self, data: bytes, at: int, offset: int, lsn: int) -> Batch:
        try:
            batch = parse(data, at)
        except Corrupt as error:
            raise Corrupt(str(error), file=self.path, offset=self.start + offset + at) from None
        if batch.base_lsn != lsn or not batch.belongs_to(self.seed):
            message = f"the batch here does not continue the lane at LSN {lsn}"
            raise Corrupt(message, file=self.path, offset=self.start + offset + at)
        return batch

    def possible_entries(self, offset: int) -> Iterator[int]:
        """Offsets at or behind `offset` where an entry might start, for searching behind damage."""
        while data := self.file.read(offset, READ_CHUNK_BYTES):
            words = np.frombuffer(data, "<u4", len(data) // 8 * 2)[::2]  # entries start at multiples of eight
            yield from (np.flatnonzero(words == MAGIC) * 8 + offset).tolist()
            offset += len(data)

    def has_place_before(self, offset: int, lsn: int) -> bool:
        """Whether the entry at this offset stands behind an entry that says its place."""
        head = self.file.read(self.start + offset - HEAD_BYTES, HEAD_BYTES) if offset >= HEAD_BYTES else b""
        if not stored_bytes(head, 0):
            return False
        with suppress(Corrupt):
            entry = parse(head)
            return entry.kind == PLACE and entry.base_lsn == lsn and entry.belongs_to(self.seed)
        return False

    def offset_of(self, lsn: int) -> tuple[int, int]:
        """An entry at or before `lsn` to start walking from: its LSN and offset."""
        return self.index.floor(lsn) or (self.first_lsn, 0)

    def nearest_offset_of(self, lsn: int) -> tuple[int, int]:
        """The same, from head to head towards `lsn`: where batches are small, many lie behind an entry of the index.

        Nothing that is passed over is checked. Whoever reads on checks what it finds, and looks again from `offset_of`
        when that is wrong.
        """
        at_lsn, offset = self.offset_of(lsn)
        if at_lsn == lsn:
            return at_lsn, offset
        data, at = self.file.read(self.start + offset, INDEX_STRIDE_BYTES), 0
        while at + HEAD_BYTES <= len(data):
            head = glance(data, at)
            if head is None or head.base_lsn != at_lsn or at_lsn + head.records > lsn:
                break
            at_lsn += head.records
            at += head.total_bytes
        return at_lsn, offset + at


class SegmentWriter:
    """Writes groups behind each other, with space allocated and zeros written ahead of them."""

    def __init__(self, segment: Segment, offset: int) -> None:
        self.segment = segment
        self.file = segment.file
        self.offset = offset
        self._written = self.file.size()  # up to here a sync of data changes no metadata
        self._allocated = self._written

    def write(self, offset: int, buffers: Sequence[Buffer], count: int, *, durably: bool) -> None:
        """Write a group of `count` bytes; when it fails, `cut` back to `offset` before anything else."""
        end = offset + count
        if end > self._written:
            self._prepare(offset, end)
        if durably:
            self.file.write_durably(offset, buffers)
        else:
            self.file.write(offset, buffers)
        self._written = max(self._written, end)

    def give_back(self, size: int) -> None:
        """End the file here: nothing is held ahead any more."""
        self.file.truncate(size)
        self._written = self._allocated = size

    def cut(self, offset: int) -> None:
        """Take back, durably, what a failed write may have left behind `offset`."""
        self.give_back(offset)
        self.file.sync()

    def _prepare(self, offset: int, end: int) -> None:
        small = end - offset <= ZERO_GROUP_BYTES_MAX
        ahead = end + min(ZERO_AHEAD_BYTES, _room_ahead(end)) if small else end
        if ahead > self._allocated:
            ahead = self._allocate(end, ahead)
        if small and ahead > end:
            start = max(self._written, end)
            write_zeros(self.file, start, ahead)
            self._written = ahead

    def _allocate(self, end: int, ahead: int) -> int:
        """Reserve a long stretch, or, on a disk that is nearly full, just what this group takes."""
        start = self._allocated
        try:
            stop = max(ahead, start + min(ALLOCATE_AHEAD_BYTES, _room_ahead(end)))
            self.file.allocate(start, stop - start)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise
            if end <= start:
                return start
            stop = ahead = end
            self.file.allocate(start, stop - start)
        self._allocated = stop
        return ahead


def _room_ahead(end: int) -> int:
    """As much as is there, so that many small lanes do not fill a disk with what they may never need."""
    return max(end, AHEAD_BYTES_MIN)
