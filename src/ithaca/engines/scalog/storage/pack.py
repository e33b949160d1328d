"""A pack: many small settled lanes in one file, which never changes.

Little-endian, everything 8-aligned.

```
head       0 magic 8 bytes "ithacapk" | 8 version u32 | 12 lanes u32 | 16 directory u64: where it begins
          24 zero u32 | 28 crc u32 over 0..28
lane       one behind the other, each:
           its entries as its segments had them, without marks; the first is a snapshot
           a snapshot entry at its length: what all of it adds up to
           index: (lsn, offset, time_us i64) each; the offset counts from its first entry
           runs: (lsn, position, count, time_us i64) each; with the flag 2: (…, follows i64)
directory  an entry of 128 bytes for each lane, in the order of the lanes:
           0 magic u32 "ITHP" | 4 crc u32 over bytes 8..128
           8 lane i64 (`model.cut.lane_key`) | 16 length i64 | 24 first_lsn i64 | 32 trim_lsn i64
          40 start_position i64 | 48 end_position i64: behind its last; both 0 without runs
          56 start_us i64 | 64 end_us i64: when its first and its last run were ordered
          72 offset i64 | 80 entries_bytes i64 | 88 snapshot_bytes u32 | 92 index_count u32 | 96 runs_count u32
         100 tables_crc u32 over index and runs | 104 flags u32: 1 it has holes, 2 its runs say what they follow
         108 zero u32 | 112 follows i64: what its first run follows, 0 for its own start | 120 zeros
tail       the head once more: the last 32 bytes of the file
```

A pack gets its name when all of it is synced, so whatever in it does not check out is damage. It is met by lane:
damage to a lane, or to its entry of the directory, leaves the others as they are. Only if both heads are bad nothing
of it can be found.
"""

import struct
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ithaca.engines.scalog.storage.limits import PACK_LANES_MAX
from ithaca.engines.scalog.storage.runs_format import DENSE, FOLLOWING, run_bytes
from ithaca.model.cut import lane_of
from ithaca.model.errors import Corrupt, FormatTooNew
from ithaca.model.limits import INCARNATION_MAX
from ithaca.model.positions import LaneId
from ithaca.model.records import Buffer
from ithaca.storage.disk import Disk, File
from ithaca.wire.batch import crc32c

VERSION = 1
PREFIX = "pack-"
NEW_SUFFIX = ".new"
_MAGIC = b"ithacapk"
_ENTRY_MAGIC = 0x50485449
_HEAD = struct.Struct("<8sIIQI")
HEAD_BYTES = _HEAD.size + 4
HAS_HOLES, SAYS_FOLLOWS = 1, 2
INDEX_BYTES = 24

ENTRY = np.dtype(
    [
        ("magic", "<u4"),
        ("crc", "<u4"),
        ("key", "<i8"),
        ("length", "<i8"),
        ("first_lsn", "<i8"),
        ("trim_lsn", "<i8"),
        ("start_position", "<i8"),
        ("end_position", "<i8"),
        ("start_us", "<i8"),
        ("end_us", "<i8"),
        ("offset", "<i8"),
        ("entries_bytes", "<i8"),
        ("snapshot_bytes", "<u4"),
        ("index_count", "<u4"),
        ("runs_count", "<u4"),
        ("tables_crc", "<u4"),
        ("flags", "<u4"),
        ("zero", "<u4"),
        ("follows", "<i8"),
        ("zeros", "V8"),
    ]
)
ENTRY_BYTES = ENTRY.itemsize
assert ENTRY_BYTES == 128

Entries = NDArray[np.void]
"""Entries of directories, in the order of the lanes."""


class PackedAt(NamedTuple):
    """What the directory says of one lane."""

    lane: LaneId
    length: int
    first_lsn: int
    trim_lsn: int
    start_position: int
    end_position: int
    start_us: int
    end_us: int
    offset: int
    entries_bytes: int
    snapshot_bytes: int
    index_count: int
    runs_count: int
    tables_crc: int
    flags: int
    zero: int = 0
    follows: int = 0

    @property
    def tables_at(self) -> int:
        return self.offset + self.entries_bytes + self.snapshot_bytes

    @property
    def end(self) -> int:
        return self.tables_at + self.index_count * INDEX_BYTES + self.runs_bytes

    @property
    def runs_width(self) -> int:
        """How many numbers a run has."""
        return FOLLOWING if self.flags & SAYS_FOLLOWS else DENSE

    @property
    def runs_bytes(self) -> int:
        return self.runs_count * run_bytes(self.runs_width)


_FIELDS = ("key", *PackedAt._fields[1:])
assert ENTRY.names == ("magic", "crc", *_FIELDS, "zeros")


def packed_at(entry: np.void) -> PackedAt:
    _, _, key, *rest, _ = entry.item()
    return PackedAt(lane_of(key), *rest)


def runs_bytes(entries: Entries) -> NDArray[np.int64]:
    """What the runs of each lane take."""
    width = np.where(entries["flags"] & SAYS_FOLLOWS, run_bytes(FOLLOWING), run_bytes(DENSE))
    return entries["runs_count"].astype(np.int64) * width


def name_of(number: int) -> str:
    return f"{PREFIX}{number:012d}"


def number_of(name: str) -> int | None:
    """The number of the pack that has this name; None for other names."""
    stem = name.removeprefix(PREFIX)
    return int(stem) if name != stem and len(stem) == 12 and stem.isdecimal() else None


class PackFound(NamedTuple):
    """A pack as it was found on the disk."""

    entries: Entries
    damaged: tuple[Corrupt, ...]
    """What is wrong with entries of its directory: nobody can say of which lanes."""
    size: int


def load(disk: Disk, path: str) -> PackFound:
    """The directory of a pack; `Corrupt` if nothing of it can be found."""
    file = disk.open(path, writable=False)
    size = file.size()
    count, directory = _head(file, path, size)
    data = file.read(directory, count * ENTRY_BYTES)
    entries = np.frombuffer(data, ENTRY, len(data) // ENTRY_BYTES)
    faults = _faults(data, entries, directory) + [(at, "is missing") for at in range(len(entries), count)]
    if not faults:
        return PackFound(entries, (), size)
    bad = {at for at, _ in faults}
    damaged = (
        Corrupt(f"the directory's entry {at} {fault}", file=path, offset=directory + at * ENTRY_BYTES)
        for at, fault in faults
    )
    return PackFound(entries[[at for at in range(len(entries)) if at not in bad]], tuple(damaged), size)


def _head(file: File, path: str, size: int) -> tuple[int, int]:
    """How many lanes there are, and where the directory begins, as either head says."""
    for at in (0, size - HEAD_BYTES):
        data = file.read(at, HEAD_BYTES) if at >= 0 else b""
        if len(data) < HEAD_BYTES or int.from_bytes(data[_HEAD.size :], "little") != crc32c(data[: _HEAD.size]):
            continue
        magic, version, count, directory, _ = _HEAD.unpack_from(data)
        if magic != _MAGIC:
            continue
        if version > VERSION:
            raise FormatTooNew(
                f"{path} has format version {version}, and this Ithaca knows {VERSION}: use a newer Ithaca",
                found=version,
                supported=VERSION,
            )
        if count <= PACK_LANES_MAX and directory + count * ENTRY_BYTES + HEAD_BYTES == size:
            return int(count), int(directory)
    raise Corrupt("neither head of the pack checks out", file=path, offset=0)


def _faults(data: bytes, entries: Entries, directory: int) -> list[tuple[int, str]]:
    """Which entries of the directory cannot be right, and why; all at once, since there may be very many."""
    starts = range(0, len(entries) * ENTRY_BYTES, ENTRY_BYTES)
    checksums = np.array([crc32c(data[start + 8 : start + ENTRY_BYTES]) for start in starts], np.uint32)
    is_complete = (checksums == entries["crc"]) & (entries["magic"] == _ENTRY_MAGIC)
    is_sound = is_complete & _can_be(entries, directory)
    keys = entries["key"]
    before = np.concatenate(([-1], np.maximum.accumulate(np.where(is_sound, keys, -1))))[:-1]
    is_next = keys > before
    faults: list[tuple[int, str]] = []
    for at in np.flatnonzero(~(is_sound & is_next)).tolist():
        why = "says what cannot be" if is_next[at] else "is not the next one"
        faults.append((at, why if is_complete[at] else "does not match its checksum"))
    return faults


def _can_be(entries: Entries, directory: int) -> NDArray[np.bool_]:
    """Which entries say nothing that is impossible."""
    snapshot_bytes, index_count = (entries[name].astype(np.int64) for name in ("snapshot_bytes", "index_count"))
    offset, entries_bytes, length = entries["offset"], entries["entries_bytes"], entries["length"]
    in_file = (offset >= HEAD_BYTES) & (offset <= directory) & (entries_bytes >= 0) & (entries_bytes <= directory)
    in_file &= snapshot_bytes + index_count * INDEX_BYTES + runs_bytes(entries) <= directory - offset - entries_bytes
    in_lane = (entries["first_lsn"] >= 0) & (entries["first_lsn"] <= length)
    in_lane &= (entries["trim_lsn"] >= 0) & (entries["trim_lsn"] <= length)
    in_order = (entries["start_position"] >= 0) & (entries["start_position"] <= entries["end_position"])
    in_order &= (entries["follows"] >= 0) & (entries["follows"] <= entries["start_position"])
    return in_file & in_lane & in_order & (entries["key"] & INCARNATION_MAX > 0)


class PackWriter:
    """Writes one pack, lane by lane in their order. It counts once `finish` has returned."""

    def __init__(self, disk: Disk, directory: str, number: int) -> None:
        self._disk = disk
        self._directory = directory
        self._path = f"{directory}/{name_of(number)}"
        self._file = disk.open(self._path + NEW_SUFFIX, create=True)
        self._file.truncate(0)
        self._file.write(0, [bytes(HEAD_BYTES)])
        self.offset = HEAD_BYTES
        """Where the next byte goes."""
        self._entries: list[bytes] = []

    def write(self, buffers: Sequence[Buffer]) -> int:
        """Append some bytes, a multiple of 8; returns how many."""
        count = sum(map(len, buffers))
        assert count % 8 == 0
        self._file.write(self.offset, buffers)
        self.offset += count
        return count

    def add(self, key: int, at: PackedAt) -> None:
        """Enter a lane, whose bytes were written from `at.offset` on, into the directory."""
        entry = np.zeros(1, ENTRY)
        for name, value in zip(_FIELDS, (key, *at[1:]), strict=True):
            entry[name] = value
        body = entry.tobytes()[8:]
        self._entries.append(struct.pack("<II", _ENTRY_MAGIC, crc32c(body)) + body)

    def abandon(self) -> None:
        """Give back the space, if that is possible: nothing of it counts."""
        with suppress(OSError):
            self._disk.remove(self._path + NEW_SUFFIX)

    def finish(self) -> None:
        """Write the directory, sync, and give the pack its name, durably."""
        assert len(self._entries) <= PACK_LANES_MAX
        head = _HEAD.pack(_MAGIC, VERSION, len(self._entries), self.offset, 0)
        head += crc32c(head).to_bytes(4, "little")
        self._file.write(self.offset, [*self._entries, head])
        self._file.write(0, [head])
        self._file.sync()
        self._disk.rename(self._path + NEW_SUFFIX, self._path)
        self._disk.sync_directory(self._directory)


def copied(file: File, at: PackedAt, path: str) -> Iterable[bytes]:
    """All bytes of a lane in a pack, in chunks; what is damaged in them stays what it is."""
    offset = at.offset
    while offset < at.end:
        data = file.read(offset, min(_COPY_BYTES, at.end - offset))
        if not data:
            raise Corrupt(f"lane {at.lane} is cut short", file=path, offset=offset)
        yield data
        offset += len(data)


_COPY_BYTES = 1 << 20
