"""The sparse index of a segment: from LSN and time to a byte offset.

The file `<first lsn>.idx` is a sequence of blocks, one per checkpoint of the segment:

```
 0 magic u32 "ITHX" | 4 crc u32: CRC32C over bytes 8..end of the block
 8 version u32 | 12 count u32 | 16 end_offset u64 | 24 end_lsn u64
32 entries: count × (lsn u64, offset u64, time_us i64)
```

`end_offset` is where the checkpoint's snapshot entry starts, or the end of a sealed segment. A block is
written once everything below `end_offset` has been synced, so it is a synced mark too. The index holds
nothing that the segment does not: when it is missing or damaged it is made again from there. `time_us` is
the order's own time, the running maximum of the batches' timestamps.
"""

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from ithaca.model.limits import INDEX_STRIDE_BYTES
from ithaca.storage.disk import File
from ithaca.wire.batch import HEAD_BYTES, crc32c

_MAGIC = 0x58485449
_VERSION = 1
_HEAD = struct.Struct("<IIIIQQ")
_ENTRY_BYTES = 24
NEVER_US = (1 << 63) - 1
"""The time of an entry that no search by time shall start from."""
_LSN, _OFFSET, _TIME = itemgetter(0), itemgetter(1), itemgetter(2)


class Block(NamedTuple):
    """What a block says beside its entries."""

    end_offset: int
    end_lsn: int


class Index:
    """Entries in memory, in the order of the lane; the newest block's are the ones not yet stored."""

    def __init__(self) -> None:
        self._entries: list[tuple[int, int, int]] = []  # LSN, offset, time: one object, so readers need no lock
        self.next_offset = 0
        """From here on a batch is worth an entry."""
        self._stored = 0
        self.blocks: list[Block] = []
        self.blocks_bytes = 0
        self.synced_offset = 0
        """Up to here the segment was synced, by the word of a block; more than the segment holds if it was cut."""

    @classmethod
    def of(cls, entries: list[list[int]]) -> "Index":
        """An index of these entries: LSN, offset, time."""
        index = cls()
        index._entries = [(lsn, offset, time_us) for lsn, offset, time_us in entries]
        return index

    def note(self, lsn: int, offset: int, time_us: int) -> None:
        """A batch starts here; kept if the last entry is a stride behind."""
        if offset >= self.next_offset:
            self._entries.append((lsn, offset, time_us))
            self.next_offset = offset + INDEX_STRIDE_BYTES

    def floor(self, lsn: int) -> tuple[int, int] | None:
        """LSN and offset of the last entry at or below `lsn`."""
        at = bisect_right(self._entries, lsn, key=_LSN) - 1
        return self._entries[at][:2] if at >= 0 else None

    def floor_time(self, time_us: int) -> tuple[int, int] | None:
        """LSN and offset of the last entry before `time_us`."""
        at = bisect_left(self._entries, time_us, key=_TIME) - 1
        return self._entries[at][:2] if at >= 0 else None

    def entries(self) -> Iterator[tuple[int, int]]:
        """LSN and offset of every entry."""
        return (entry[:2] for entry in self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def encoded(self) -> bytes:
        """All entries, as a pack holds them."""
        return np.array(self._entries, "<i8").tobytes()

    def store_block(self, file: File, end_offset: int, end_lsn: int) -> None:
        """Append the entries since the last block that lie below `end_offset`; everything below it must be synced.

        What lies behind is the next block's: a segment may be cut at `end_offset`, and go on with other batches.
        """
        if self.blocks and self.blocks[-1].end_offset >= end_offset:
            return
        entries = self._entries[self._stored : bisect_left(self._entries, end_offset, key=_OFFSET)]
        body = struct.pack("<IIQQ", _VERSION, len(entries), end_offset, end_lsn) + np.array(entries, "<i8").tobytes()
        block = struct.pack("<II", _MAGIC, crc32c(body)) + body
        file.write(self.blocks_bytes, [block])
        self._stored += len(entries)
        self.blocks_bytes += len(block)
        self.blocks.append(Block(end_offset, end_lsn))


def load(data: bytes, *, segment_bytes: int) -> tuple[Index, str]:
    """The blocks that check out, up to the first that does not, and what is wrong with that one."""
    index = Index()
    at, previous_end = 0, HEAD_BYTES
    while at < len(data):
        if len(data) - at < _HEAD.size:
            return index, f"block at byte {at} is cut short"
        magic, crc, version, count, end_offset, end_lsn = _HEAD.unpack_from(data, at)
        stop = at + _HEAD.size + count * _ENTRY_BYTES
        if magic != _MAGIC or stop > len(data) or crc != crc32c(data[at + 8 : stop]):
            return index, f"block at byte {at} does not match its checksum"
        if version == _VERSION:
            index.synced_offset = max(index.synced_offset, end_offset)
        if version != _VERSION or not previous_end <= end_offset <= segment_bytes:
            return index, f"block at byte {at} (version {version}) does not fit the segment"
        entries = np.frombuffer(data, "<i8", 3 * count, at + _HEAD.size).reshape(count, 3)
        if count and entries[-1][1] > segment_bytes:
            return index, f"block at byte {at} has entries behind the end of the segment"
        index._entries += map(tuple, entries.tolist())
        index.next_offset = index._entries[-1][1] + INDEX_STRIDE_BYTES if index._entries else 0
        index.blocks.append(Block(end_offset, end_lsn))
        at, previous_end = stop, end_offset
        index.blocks_bytes, index._stored = at, len(index._entries)
    return index, ""
