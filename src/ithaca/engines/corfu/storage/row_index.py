"""The sorted index of a unit's rows: from a row to the LSN of its entry, and its order time.

Rows come almost in order. The newest are in memory; whenever there are enough of them they are sorted and become a
block of the file `rows`, and of each block only the bounds stay in memory:

```
 0 magic u32 "ITHR" | 4 head_crc u32: CRC32C over bytes 8..56 | 8 version u32 | 12 count u32
16 row_min u64 | 24 row_max u64 | 32 end_lsn u64: every row of the lane below it is in this block or an earlier one
40 lsn_min u64: no row of the block lies before it | 48 body_crc u32: CRC32C over the body | 52 0 u32
56 body: rows u64[count], ascending | lsns u64[count] | times i64[count], in microseconds
```

A block is written when its rows are synced in the lane, and is synced before it counts. Blocks may overlap: a row that
came late is in a later one.
"""

import struct
from collections import OrderedDict
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ithaca.model.errors import Corrupt
from ithaca.storage.disk import Disk, File
from ithaca.wire.batch import crc32c

NAME = "rows"
BLOCK_ROWS = 4096
"""Rows of a block."""
CACHED_BLOCKS_MAX = 64
"""Blocks whose rows stay in memory after they were read."""
SCAN_ROWS_MAX = 1 << 18
"""Rows that one search for missing ones looks at."""

_MAGIC = 0x52485449
_VERSION = 1
_HEAD = struct.Struct("<IIIIQQQQII")
_ROW_BYTES = 24

Rows = NDArray[np.int64]


class Place(NamedTuple):
    """Where a row's entry lies in the lane, and its time in the order."""

    lsn: int
    time_us: int


class _Block(NamedTuple):
    """Sorted rows with their places."""

    rows: Rows
    lsns: Rows
    times: Rows

    def find(self, row: int) -> Place | None:
        at = int(np.searchsorted(self.rows, row))
        if at == len(self.rows) or self.rows[at] != row:
            return None
        return Place(int(self.lsns[at]), int(self.times[at]))

    def between(self, start: int, stop: int) -> "_Block":
        """Those of `[start, stop)`."""
        low, high = np.searchsorted(self.rows, (start, stop))
        return _Block(*(part[low:high] for part in self))


class _Stored(NamedTuple):
    """A block in the file."""

    offset: int
    length: int
    row_min: int
    row_max: int
    end_lsn: int
    lsn_min: int
    body_crc: int


class FrozenBlock(NamedTuple):
    """A block as it is written, and where."""

    offset: int
    data: bytes


class RowIndex:
    """All rows of a unit. For one thread, but for `store`, which belongs to whoever writes the disk."""

    def __init__(self, disk: Disk, directory: str) -> None:
        """Open the file, or make it; the first block that does not check out is cut off, with all behind it."""
        path = f"{directory}/{NAME}"
        self._file: File = disk.open(path, create=True)
        self._newest: dict[int, Place] = {}
        self._frozen: list[_Block] = []
        """Blocks that are being stored, the oldest first."""
        self._stored: list[_Stored] = []
        self._mins = np.zeros(0, np.int64)
        self._maxs = np.zeros(0, np.int64)
        self._cache: OrderedDict[int, _Block] = OrderedDict()
        self._end = 0
        self._load()

    @property
    def end_lsn(self) -> int:
        """Every row of the lane below this is in the file."""
        return self._stored[-1].end_lsn if self._stored else 0

    @property
    def is_stored(self) -> bool:
        """Whether all rows are in the file."""
        return not self._newest and not self._frozen

    @property
    def is_due(self) -> bool:
        """Whether there is enough for a block."""
        return len(self._newest) >= BLOCK_ROWS

    def __len__(self) -> int:
        return (
            len(self._newest)
            + sum(len(block.rows) for block in self._frozen)
            + sum(each.length for each in self._stored)
        )

    def __contains__(self, row: int) -> bool:
        return self.find(row) is not None

    def find(self, row: int) -> Place | None:
        """Where a row's entry is; None if it was not written. `Corrupt` when a block does not check out."""
        found = self._newest.get(row)
        if found is not None:
            return found
        for block in self._frozen:
            if (found := block.find(row)) is not None:
                return found
        for at in np.flatnonzero((self._mins <= row) & (self._maxs >= row)).tolist():
            if (found := self._block(at).find(row)) is not None:
                return found
        return None

    def add(self, row: int, lsn: int, time_us: int) -> None:
        """A row was synced at this LSN; it must not be there yet."""
        self._newest[row] = Place(lsn, time_us)

    def first_lsn(self, row: int) -> int:
        """No row from this one on lies in the lane before this, as far as the file says."""
        return min((each.lsn_min for each in self._stored if each.row_max >= row), default=self.end_lsn)

    def missing(self, start: int, stop: int, step: int, count: int) -> tuple[list[int], int]:
        """Of `range(start, stop, step)` the first rows that are not there, at most `count`, and where to go on."""
        stop = min(stop, start + SCAN_ROWS_MAX * step)
        if start >= stop or self._are_newest(range(start, stop, step)):
            return [], stop
        there = np.zeros(-(-(stop - start) // step), np.bool_)
        for part in self._between(start, stop, step):
            inside = part.rows - start
            there[inside[inside % step == 0] // step] = True
        found = (np.flatnonzero(~there)[:count] * step + start).tolist()
        return found, found[-1] + step if len(found) == count else start + len(there) * step

    def places(self, start: int, stop: int, step: int) -> tuple[list[int], list[Place]]:
        """Those of `range(start, stop, step)` that are there, ascending, and where each is."""
        wanted = range(start, stop, step)
        if self._are_newest(wanted):
            return [*wanted], [self._newest[row] for row in wanted]
        rows, lsns, times = np.concatenate(self._between(start, stop, step), axis=1)
        there = np.flatnonzero((rows - start) % step == 0)
        there = there[np.argsort(rows[there])]
        return rows[there].tolist(), list(map(Place, lsns[there].tolist(), times[there].tolist()))

    def _are_newest(self, rows: range) -> bool:
        """Whether all of them are in memory, as those are that are read soon: then vectors are not worth it."""
        newest = self._newest
        return len(rows) <= len(newest) and all(row in newest for row in rows)

    def _between(self, start: int, stop: int, step: int) -> list[_Block]:
        """What is known of the rows `[start, stop)`, part by part; of the newest of every step alone."""
        wanted, newest = range(start, stop, step), self._newest
        if len(wanted) < len(newest):
            found = [(row, *newest[row]) for row in wanted if row in newest]
        else:
            found = [(row, *place) for row, place in newest.items() if row in wanted]
        stored = np.flatnonzero((self._mins < stop) & (self._maxs >= start)).tolist()
        blocks = [block.between(start, stop) for block in (*self._frozen, *map(self._block, stored))]
        return [_Block(*np.array(found, np.int64).reshape(-1, 3).T), *blocks]

    # Blocks

    def freeze(self, end_lsn: int) -> FrozenBlock:
        """Make a block of the newest rows, which are all that the lane has up to `end_lsn`; `store` it next.

        Its place in the file is behind all that were made before, whether they are stored by now or not.
        """
        rows = np.fromiter(self._newest, np.int64, len(self._newest))
        places = np.array(list(self._newest.values()), np.int64)
        order = np.argsort(rows)
        block = _Block(rows[order], places[order, 0], places[order, 1])
        self._frozen.append(block)
        self._newest = {}
        body = b"".join(part.tobytes() for part in block)
        lsn_min = int(block.lsns.min())
        said = (len(rows), int(block.rows[0]), int(block.rows[-1]), end_lsn, lsn_min, crc32c(body), 0)
        rest = struct.pack("<IIQQQQII", _VERSION, *said)
        made = FrozenBlock(self._end, struct.pack("<II", _MAGIC, crc32c(rest)) + rest + body)
        self._end += len(made.data)
        return made

    def store(self, block: FrozenBlock) -> None:
        """Write a block where it belongs, and sync it. The same again is the same."""
        self._file.write(block.offset, [block.data])
        self._file.sync()

    def stored(self, block: FrozenBlock) -> None:
        """The oldest frozen block is in the file."""
        self._frozen.pop(0)
        self._note(_head(block.data), block.offset)

    def _load(self) -> None:
        size = self._file.size()
        offset = 0
        while offset < size:
            found = _checked_head(self._file.read(offset, _HEAD.size), offset)
            if found is None or not self._is_complete(found):
                break
            self._stored.append(found)
            offset += _bytes_of(found.length)
        if offset < size:
            self._file.truncate(offset)
            self._file.sync()
        self._end = offset
        self._mins = np.array([each.row_min for each in self._stored], np.int64)
        self._maxs = np.array([each.row_max for each in self._stored], np.int64)

    def _is_complete(self, stored: _Stored) -> bool:
        try:
            self._read(stored)
        except Corrupt:
            return False
        return True

    def _note(self, found: _Stored, offset: int) -> None:
        self._stored.append(found._replace(offset=offset))
        self._mins = np.append(self._mins, found.row_min)
        self._maxs = np.append(self._maxs, found.row_max)

    def _block(self, at: int) -> _Block:
        block = self._cache.get(at)
        if block is None:
            block = self._read(self._stored[at])
            self._cache[at] = block
            if len(self._cache) > CACHED_BLOCKS_MAX:
                self._cache.popitem(last=False)
        else:
            self._cache.move_to_end(at)
        return block

    def _read(self, stored: _Stored) -> _Block:
        body = self._file.read(stored.offset + _HEAD.size, _ROW_BYTES * stored.length)
        if len(body) != _ROW_BYTES * stored.length or crc32c(body) != stored.body_crc:
            raise Corrupt("a block of the row index does not match its checksum", file=NAME, offset=stored.offset)
        return _Block(*np.frombuffer(body, "<i8").reshape(3, stored.length))


def _bytes_of(count: int) -> int:
    return _HEAD.size + _ROW_BYTES * count


def _head(data: bytes) -> _Stored:
    _, _, _, count, row_min, row_max, end_lsn, lsn_min, body_crc, _ = _HEAD.unpack_from(data)
    return _Stored(0, count, row_min, row_max, end_lsn, lsn_min, body_crc)


def _checked_head(data: bytes, offset: int) -> _Stored | None:
    if len(data) < _HEAD.size:
        return None
    magic, crc, version, *_ = _HEAD.unpack(data)
    if magic != _MAGIC or version != _VERSION or crc != crc32c(data[8:]):
        return None
    return _head(data)._replace(offset=offset)
