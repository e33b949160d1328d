"""The bytes of a lane's runs: the newest in `runs`, full pages of older ones in files of their own (`runs_file`).

Little-endian, everything 8-aligned; P is the number of runs in a page, F that of pages in a file, R the bytes of a run,
B = 56 + R·P.

```
runs
head    0 magic 8 bytes "ithacaru" | 8 version u32 | 12 page_entries u32 (P) | 16 file_pages u32 (F)
       20 crc u32 over 0..20
mark   64 crc u32 over bytes 72..80 | 68 zero u32 | 72 generation u64: this one was synced, and the file's name too
slots 512 and 512 + B, generation g in slot g mod 2:
        0 magic u32 "ITHN" | 4 crc u32 over bytes 8..56 and the runs
        8 generation u64 | 16 pages u64 | 24 pages_before u64: those below were synced earlier | 32 dead_pages u64
       40 end_lsn u64 | 48 count u32 | 52 zero u32 | 56 count runs, at most P
runs-<n, 12 digits>
pages   i = n·F + k at B·k:
        0 magic u32 "ITHR" | 4 head_crc u32 over bytes 8..56 | 8 number u64 (i) | 16 generation u64
       24 lsn, 32 position, 40 time_us i64: of its first run | 48 body_crc u32 over the runs | 52 zero u32 | 56 P runs
run     0 lsn i64 | 8 position i64 | 16 count i64 | 24 time_us i64; in version 3: | 32 follows i64
```

**Version 3** is for logs that have empty positions: each of its runs says where the record before it in the whole
order ends, 0 for its own start. Where positions are dense that is always its own start, and nothing says it: such logs
have version 2. **Version 1** had no file_pages (its crc is at 16), and its pages in `runs`: page i at 512 + B·(2 + i).
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ithaca.wire.batch import crc32c

VERSION_DENSE, VERSION = 2, 3
_MAGIC = b"ithacaru"
_SLOT_MAGIC, _PAGE_MAGIC = 0x4E485449, 0x52485449
_HEAD = struct.Struct("<8sIII")
_HEAD_1 = struct.Struct("<8sII")
_CHECKED = struct.Struct("<II")
_MARK = struct.Struct("<IIQ")
_SLOT = struct.Struct("<QQQQQII")
_PAGE = struct.Struct("<QQqqqII")
MARK_AT, SLOTS_AT = 64, 512
MARK_BYTES = _MARK.size
HEAD_BYTES = _HEAD.size + 4
BLOCK_HEAD_BYTES = _CHECKED.size + _SLOT.size
DENSE, FOLLOWING = 4, 5
"""Numbers in a run, where it always follows its own start, and where it says what it follows."""
_COLUMN_BYTES = 8
_NUMBER_MAX = 1 << 62
"""Far above what can be counted, and two of them can be added."""

Columns = NDArray[np.int64]
"""Runs as five rows: LSN, position, count, time, what they follow."""


class Run(NamedTuple):
    """`count` records of a lane, from `lsn` on, have positions from `position` on; ordered at `time_us`.

    The record before them, in the whole order, ends at `follows`: between that and `position` there is none. 0 stands
    for the run's own start, which a piece inside of a run always follows.
    """

    lsn: int
    position: int
    count: int  # type: ignore[assignment]  # nobody counts values in a run
    time_us: int
    follows: int = 0


class Generation(NamedTuple):
    """What one sync made durable."""

    number: int
    pages: int
    pages_before: int
    dead_pages: int
    """Pages that were trimmed and are still there."""
    end_lsn: int
    tail: tuple[Run, ...]
    """The runs behind the last page: the newest one always, since it may still grow."""


NOTHING = Generation(0, 0, 0, 0, 0, ())
"""What a lane without runs has."""


def run_bytes(width: int) -> int:
    """What a run of so many numbers takes."""
    return _COLUMN_BYTES * width


def block_bytes(page_entries: int, width: int) -> int:
    """What a page, and a slot, of so many runs takes."""
    return BLOCK_HEAD_BYTES + page_entries * run_bytes(width)


# The head and the mark of `runs`


def width_of(version: int) -> int:
    """How many numbers a run has in a file of this version."""
    return DENSE if version <= VERSION_DENSE else FOLLOWING


def encode_head(page_entries: int, file_pages: int, width: int) -> bytes:
    version = VERSION_DENSE if width == DENSE else VERSION
    head: bytes = _HEAD.pack(_MAGIC, version, page_entries, file_pages)
    crc: bytes = crc32c(head).to_bytes(4, "little")
    return head + crc


def parse_head(data: bytes) -> tuple[int, int, int] | None:
    """Version, runs in a page and pages in a file (of version 1: 0); None when it does not check out."""
    data = data.ljust(HEAD_BYTES, b"\0")
    magic, version, page_entries = _HEAD_1.unpack_from(data)
    size = _HEAD_1.size if version == 1 else _HEAD.size
    if magic != _MAGIC or data[size : size + 4] != crc32c(data[:size]).to_bytes(4, "little"):
        return None
    return version, page_entries, 0 if version == 1 else max(1, _HEAD.unpack_from(data)[3])


def encode_mark(generation: int) -> list[bytes]:
    number = generation.to_bytes(8, "little")
    return [crc32c(number).to_bytes(8, "little"), number]


def parse_mark(data: bytes) -> int:
    """The generation that is marked as synced, 0 if none is."""
    crc, _, number = _MARK.unpack(data.ljust(_MARK.size, b"\0"))
    return number if crc == crc32c(number.to_bytes(8, "little")) else 0


# Slots


def encode_slot(last: Generation, width: int) -> list[bytes]:
    body = encode_runs(last.tail, width)
    head = _SLOT.pack(*last[:5], len(last.tail), 0)
    return [_CHECKED.pack(_SLOT_MAGIC, crc32c(head + body)), head, body]


def parse_slot(data: bytes, width: int) -> Generation | None:
    """The generation in a slot, None when it does not check out."""
    if len(data) < BLOCK_HEAD_BYTES:
        return None
    magic, crc = _CHECKED.unpack_from(data)
    number, pages, pages_before, dead_pages, end_lsn, count, _ = _SLOT.unpack_from(data, _CHECKED.size)
    body_bytes = count * run_bytes(width)
    body = data[BLOCK_HEAD_BYTES : BLOCK_HEAD_BYTES + body_bytes]
    if magic != _SLOT_MAGIC or crc != crc32c(data[_CHECKED.size : BLOCK_HEAD_BYTES] + body):
        return None
    if len(body) != body_bytes or not dead_pages <= pages or max(number, end_lsn) > _NUMBER_MAX:
        return None
    runs = _parse_runs(body, width)
    tail = tuple(Run(*run) for run in runs.T.tolist())
    if not _are_consecutive(runs) or (tail and tail[-1].lsn + tail[-1].count != end_lsn):
        return None
    return Generation(number, pages, pages_before, dead_pages, end_lsn, tail)


# Pages


def encode_page(number: int, generation: int, runs: Columns, width: int) -> list[bytes]:
    body = _encode_columns(runs, width)
    lsn, position, _, time_us, _ = (int(value) for value in runs[:, 0])
    head = _PAGE.pack(number, generation, lsn, position, time_us, crc32c(body), 0)
    return [_CHECKED.pack(_PAGE_MAGIC, crc32c(head)), head, body]


def parse_page(number: int, data: bytes, size: int, width: int) -> tuple[int, Columns] | None:
    """The generation and the runs of a page of `size` bytes, None when it does not check out."""
    head = page_head(number, data)
    if head is None or len(data) != size or crc32c(data[BLOCK_HEAD_BYTES:]) != head[5]:
        return None
    runs = _parse_runs(data[BLOCK_HEAD_BYTES:], width)
    return (head[1], runs) if _are_consecutive(runs) else None


def page_head(number: int, data: bytes) -> tuple[int, ...] | None:
    """What a page's head says: number, generation, LSN, position, time, checksum of the body."""
    if len(data) < BLOCK_HEAD_BYTES:
        return None
    magic, crc = _CHECKED.unpack_from(data)
    head: tuple[int, ...] = _PAGE.unpack_from(data, _CHECKED.size)
    if magic != _PAGE_MAGIC or crc != crc32c(data[_CHECKED.size : BLOCK_HEAD_BYTES]) or head[0] != number:
        return None
    return head


# Runs


def columns(runs: Sequence[Run]) -> Columns:
    return np.array(runs, np.int64).reshape(-1, FOLLOWING).T


def _are_consecutive(runs: Columns) -> bool:
    """Whether these can be runs of one lane, one behind the other: what a checksum cannot say."""
    lsn, position, count, time_us, follows = runs
    ends = position + count
    return bool(
        (runs >= 0).all()
        and (runs <= _NUMBER_MAX).all()
        and (count > 0).all()
        and (lsn[1:] == lsn[:-1] + count[:-1]).all()
        and (position[1:] >= ends[:-1]).all()
        and (time_us[1:] >= time_us[:-1]).all()
        and (follows <= position).all()
        and ((follows[1:] == 0) | (follows[1:] >= ends[:-1])).all()
    )


def encode_runs(runs: Sequence[Run], width: int) -> bytes:
    """Runs one behind the other, as a pack holds them."""
    return _encode_columns(columns(runs), width)


def parse_runs(data: bytes, width: int) -> Columns | None:
    """Runs one behind the other; None if they cannot be those of one lane."""
    runs = _parse_runs(data, width)
    return runs if _are_consecutive(runs) else None


def _encode_columns(runs: Columns, width: int) -> bytes:
    assert width == FOLLOWING or not runs[-1].any(), "a log whose positions are dense has empty ones"
    return np.ascontiguousarray(runs[:width].T).astype("<i8").tobytes()


def _parse_runs(data: bytes, width: int) -> Columns:
    runs = np.zeros((FOLLOWING, len(data) // run_bytes(width)), np.int64)
    runs[:width] = np.frombuffer(data, "<i8").reshape(-1, width).T
    return runs
