"""A Raft server's term, vote, snapshot and entries, in one append-only file with checksums.

The file `raft.log` (little-endian, everything 8-aligned) is a header, then groups. A group is what one
`Persist` wrote and synced; it counts as a whole or not at all.

```
header  0 magic 8 bytes "ithacarl" | 8 version u32 | 12 crc u32, over the header without this field
       16 generation u64: one more with each rewrite | 24 synced_bytes u64: synced before the file got its name

group   0 magic 4 bytes "rgrp" | 4 head_crc u32, over bytes 8..32
        8 offset u64: where this group begins; everything below was synced before this was written
       16 body_bytes u32, multiple of 8 | 20 body_crc u32, over the body | 24 generation u64
       32 body: records

record  0 length u32 of the msgpack | 4 type u8 | 5 zeros | 8 msgpack, zero-padded to 8
        type 1: HardState   2: Snapshot, drops all entries   3: entries, replace all from their first index on
        4: an index, from which on all entries go
```

The version is 2 where newer entries may be in another file, with the place where this one ended then (`Place`). Else it
is 1.

Checksums are CRC32C. Behind the last group there may be zeros: they are written, and synced, a bounded distance
ahead, so that syncing a small group changes no metadata of the file system (`storage.segment` does the same).

**Torn or damaged?** A group that does not check out is a torn tail only if its sync had not finished. Each
group's head is proof that everything below it was synced, and it is found again, behind any damage, by its
magic, its own offset, its generation and its checksum. So when a group is bad, recovery looks for a head
further on: if there is one, or if the place lies below the header's `synced_bytes`, the file is `Corrupt`
at that offset; if not, the file ends there. For the newest group to be protected too, a bare head (a group
without a body, the *mark*) is written behind it once its sync has returned, and not synced: the next group
overwrites it and says the same. Only a power loss just after a sync, before the mark reached the disk,
leaves the newest group looking like a possible torn tail.

**A failed sync** fences the log for good. The kernel may show its data to the next process although it is
not on the disk; so recovery never trusts what it read to be there: it writes everything into a new file,
syncs it, and only then gives it the name. Compaction (a `Persist` with a snapshot) is the same rewrite.

**A full disk** takes nothing away: what was half written is cut off again, and the persist can be repeated. Zeros
are written ahead only where there is space for them.
"""

import errno
import posixpath
import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple, NoReturn

import google_crc32c
import msgspec

from ithaca.model.errors import Corrupt, Fenced, FormatTooNew, LogError, NoSuchLog, StorageFull
from ithaca.model.limits import GROUP_BYTES_MAX, ZERO_GROUP_BYTES_MAX
from ithaca.raft.events import Persist
from ithaca.raft.log import entry_bytes
from ithaca.raft.messages import DurableState, Entry, HardState, Snapshot
from ithaca.storage.disk import NO_DESCRIPTORS, Disk, File, write_zeros
from ithaca.storage.raftlog_records import CUT, ENTRIES, HARD_STATE, RECORD_HEAD, SNAPSHOT, Replay

VERSION, GOES_ON_VERSION = 1, 2
FILE_NAME = "raft.log"
NEW_NAME = "raft.log.new"

_FILE_MAGIC = b"ithacarl"
_FILE_HEAD = struct.Struct("<8sIIQQ")
_GROUP_MAGIC = b"rgrp"
_GROUP_HEAD = struct.Struct("<4sIQIIQ")

_encoder = msgspec.msgpack.Encoder()


class Place(NamedTuple):
    """Where the next group goes. It is another one for each state of the log: a place never comes back."""

    generation: int
    offset: int


class Verified(msgspec.Struct, frozen=True):
    """What `verify` found: everything up to `valid_bytes` checks out, and nothing behind it was synced."""

    state: DurableState
    place: Place
    groups: int
    valid_bytes: int
    torn_bytes: int
    """Bytes behind that, unless all are zero."""


class RaftLog:
    """The open log of one server. The directory exists, and belongs to it alone."""

    def __init__(self, disk: Disk, directory: str, zero_ahead_bytes: int, version: int) -> None:
        self._disk = disk
        self._version = version
        self._directory = directory
        self._zero_ahead_bytes = zero_ahead_bytes
        self._generation = 0
        self._end = 0
        self._written = 0  # up to here a sync of data changes no metadata
        self._is_short = False  # of space: zeros are not tried again before the next rewrite
        self._file: File | None = None
        self._fenced = False

    @classmethod
    def create(
        cls, disk: Disk, directory: str, state: DurableState, *, zero_ahead_bytes: int = 0, goes_on: bool = False
    ) -> "RaftLog":
        """Start a new server's log; a server that ever had one must `open` it.

        `goes_on`: its newest entries may be in another file.
        """
        path = posixpath.join(directory, FILE_NAME)
        if disk.exists(path):
            raise LogError(f"{path} exists already: open it, or give the new server another directory")
        log = cls(disk, directory, zero_ahead_bytes, GOES_ON_VERSION if goes_on else VERSION)
        log._rewrite(state)
        return log

    @classmethod
    def open(cls, disk: Disk, directory: str, *, zero_ahead_bytes: int = 0) -> tuple["RaftLog", DurableState]:
        """Recover what is durable, and make durable what was found; raises `Corrupt`."""
        found = verify(disk, directory)
        log = cls(disk, directory, zero_ahead_bytes, VERSION)
        log._go_on(found, found.state)
        return log, found.state

    @classmethod
    def open_with(
        cls, disk: Disk, directory: str, found: Verified, state: DurableState, *, zero_ahead_bytes: int = 0
    ) -> "RaftLog":
        """Open a log that `verify` has read, with a state that goes on from what was found."""
        log = cls(disk, directory, zero_ahead_bytes, GOES_ON_VERSION)
        log._go_on(found, state)
        return log

    def _go_on(self, found: Verified, state: DurableState) -> None:
        self._generation = found.place.generation
        self._rewrite(state)

    @property
    def place(self) -> Place:
        """What an entry names that goes on from here, and is kept elsewhere."""
        return Place(self._generation, self._end)

    def persist(self, effect: Persist) -> None:
        """Write and sync. `StorageFull`: nothing happened, try again; `Fenced`: stop this server."""
        if self._fenced:
            raise Fenced(f"{self._directory}: an earlier sync failed; this server must be replaced")
        if effect.snapshot is not None:
            assert effect.hard_state is not None
            self._rewrite(DurableState(effect.hard_state, effect.snapshot, effect.entries))
        elif not effect.is_barrier:
            self._append(effect)

    def _append(self, effect: Persist) -> None:
        records: list[bytes] = []
        if effect.hard_state is not None:
            records.append(_record(HARD_STATE, effect.hard_state))
        if effect.cut_from is not None:
            records.append(_record(CUT, effect.cut_from))
        if effect.entries:
            records.append(_record(ENTRIES, effect.entries))
        group = _group(self._end, self._generation, records)
        end = self._end + sum(map(len, group))
        self._write(group, end)
        self._end = end
        self._mark()

    def _write(self, group: list[bytes], end: int) -> None:
        """Write a group that ends at `end`, and sync it."""
        file = self._file
        assert file is not None
        zeroed = False
        try:
            if end > self._written and end - self._end <= ZERO_GROUP_BYTES_MAX:
                zeroed = self._write_zeros(file, end)
            if zeroed:
                file.write(self._end, group)
            else:
                file.write_durably(self._end, group)
        except OSError as error:
            if not _is_full(error):
                self._fence(error)
            try:
                file.truncate(self._end)
            except OSError as second:
                self._fence(second)
            self._written = self._end
            raise StorageFull(f"{file.path}: no space for {end - self._end} bytes; free some") from error
        if zeroed:
            try:
                file.sync()  # the zeros too: else each page of them would be new to the disk once more
            except OSError as error:
                self._fence(error)
        self._written = max(self._written, end)

    def _write_zeros(self, file: File, end: int) -> bool:
        """Write zeros behind `end`, if they are wanted and there is space; says whether."""
        if not self._zero_ahead_bytes or self._is_short:
            return False
        start = max(self._written, end)
        try:
            write_zeros(file, start, end + self._zero_ahead_bytes)
        except OSError as error:
            if not _is_full(error):
                raise
            file.truncate(self._written)
            self._is_short = True
            return False
        self._written = end + self._zero_ahead_bytes
        return True

    def _mark(self) -> None:
        """Say, without a sync, that everything so far is synced; the next group says it again."""
        assert self._file is not None
        try:
            self._file.write(self._end, _group(self._end, self._generation, ()))
        except OSError as error:
            if not _is_full(error):
                self._fence(error)

    def _rewrite(self, state: DurableState) -> None:
        """Put a new file with exactly this state in the place of the old one."""
        path = posixpath.join(self._directory, NEW_NAME)
        generation = self._generation + 1
        groups = list(_state_groups(state, generation))  # not joined: a snapshot may be large
        end = _FILE_HEAD.size + sum(map(len, groups))
        try:
            if self._disk.exists(path):
                self._disk.remove(path)
            file = self._disk.open(path, create=True)
            file.write(0, [_file_head(self._version, generation, end), *groups])
            self._written, self._is_short = end, False
            self._write_zeros(file, end)
        except OSError as error:
            if not _is_full(error) and error.errno not in NO_DESCRIPTORS:
                self._fence(error)
            if self._disk.exists(path):
                self._disk.remove(path)
            if error.errno in NO_DESCRIPTORS:
                raise StorageFull(
                    f"{path} cannot be opened ({error.strerror}): let this process open more files"
                ) from error
            raise StorageFull(f"{path}: no space for {end} bytes; free some") from error
        final = posixpath.join(self._directory, FILE_NAME)
        try:
            file.sync()
            self._disk.rename(path, final)
            self._disk.sync_directory(self._directory)
        except OSError as error:
            self._fence(error)
        self._file = self._opened_again(file, final)
        self._generation, self._end = generation, end
        self._mark()

    def _opened_again(self, file: File, path: str) -> File:
        """The file by the name that it has now; without a descriptor for that as it was opened before."""
        try:
            return self._disk.open(path)
        except OSError as error:
            if error.errno not in NO_DESCRIPTORS:
                self._fence(error)
            return file

    def _fence(self, error: OSError) -> NoReturn:
        self._fenced = True
        raise Fenced(f"{self._directory}: {error}; nothing more is written, replace this server") from error


def _is_full(error: OSError) -> bool:
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def verify(disk: Disk, directory: str) -> Verified:
    """Check every byte, change nothing; raises `Corrupt` for damage below what was synced."""
    path = posixpath.join(directory, FILE_NAME)
    if not disk.exists(path):
        raise NoSuchLog(f"{path} does not exist: a new server starts with RaftLog.create")
    file = disk.open(path, writable=False)
    data = file.read(0, file.size())
    generation, synced_bytes = _check_file_head(data, path)
    replay = Replay(path)
    offset, groups, end = _FILE_HEAD.size, 0, _FILE_HEAD.size
    while offset < len(data):
        body = _whole_group(data, offset, generation)
        if body is None:
            if offset < synced_bytes or _has_head_behind(data, offset, generation):
                raise Corrupt("a group that was synced does not check out", file=path, offset=offset)
            break
        replay.group(body, offset)
        offset += _GROUP_HEAD.size + len(body)
        if body:
            groups, end = groups + 1, offset  # the next group goes where a mark stands
    if offset < synced_bytes:
        raise Corrupt(f"the file ends before its {synced_bytes} synced bytes", file=path, offset=offset)
    torn_bytes = len(data) - offset if any(data[offset:]) else 0
    return Verified(replay.state, Place(generation, end), groups, offset, torn_bytes)


def _file_head(version: int, generation: int, synced_bytes: int) -> bytes:
    blank = _FILE_HEAD.pack(_FILE_MAGIC, version, 0, generation, synced_bytes)
    return _FILE_HEAD.pack(_FILE_MAGIC, version, google_crc32c.value(blank), generation, synced_bytes)


def _group(offset: int, generation: int, records: Iterable[bytes]) -> list[bytes]:
    body = b"".join(records)
    return [_sealed_head(offset, generation, len(body), google_crc32c.value(body)), *([body] if body else ())]


def _sealed_head(offset: int, generation: int, body_bytes: int, body_crc: int) -> bytes:
    fields = (offset, body_bytes, body_crc, generation)
    crc = google_crc32c.value(_GROUP_HEAD.pack(_GROUP_MAGIC, 0, *fields)[8:])
    return _GROUP_HEAD.pack(_GROUP_MAGIC, crc, *fields)


def _record(kind: int, value: HardState | Snapshot | tuple[Entry, ...] | int) -> bytes:
    data = _encoder.encode(value)
    return RECORD_HEAD.pack(len(data), kind) + data + bytes(-len(data) % 8)


def _state_groups(state: DurableState, generation: int) -> Iterator[bytes]:
    """A whole state as the groups of a new file; entries are divided, so that no group is too large."""
    offset = _FILE_HEAD.size
    snapshot = _encoder.encode(state.snapshot)
    records = [
        *(_record(HARD_STATE, state.hard_state), RECORD_HEAD.pack(len(snapshot), SNAPSHOT)),
        *(snapshot, bytes(-len(snapshot) % 8)),
    ]
    for part in _parts(state.entries):
        yield from _parted_group(offset, generation, records)
        offset += _GROUP_HEAD.size + sum(map(len, records))
        records = [_record(ENTRIES, part)]
    yield from _parted_group(offset, generation, records)


def _parted_group(offset: int, generation: int, records: list[bytes]) -> Iterator[bytes]:
    """A group as it is written, without a copy of it in one piece."""
    crc = 0
    for record in records:
        crc = google_crc32c.extend(crc, record)
    yield _sealed_head(offset, generation, sum(map(len, records)), crc)
    yield from filter(None, records)


def _parts(entries: tuple[Entry, ...]) -> Iterator[tuple[Entry, ...]]:
    start = total = 0
    for place, entry in enumerate(entries):
        total += entry_bytes(entry)
        if total > GROUP_BYTES_MAX and place > start:
            yield entries[start:place]
            start, total = place, entry_bytes(entry)
    if start < len(entries):
        yield entries[start:]


def _check_file_head(data: bytes, path: str) -> tuple[int, int]:
    if len(data) < _FILE_HEAD.size:
        raise Corrupt("the header is missing", file=path, offset=0)
    magic, version, crc, generation, synced_bytes = _FILE_HEAD.unpack_from(data)
    blank = _FILE_HEAD.pack(magic, version, 0, generation, synced_bytes)
    if magic != _FILE_MAGIC or google_crc32c.value(blank) != crc:
        raise Corrupt("the header does not check out", file=path, offset=0)
    if version > GOES_ON_VERSION:
        raise FormatTooNew(
            f"{path} has version {version}, this program reads {GOES_ON_VERSION}: use a newer one",
            found=version,
            supported=GOES_ON_VERSION,
        )
    return generation, synced_bytes


def _group_head(data: bytes, offset: int, generation: int) -> tuple[int, int] | None:
    """Length and checksum of the body, if a head stands here that was written for this place."""
    if offset + _GROUP_HEAD.size > len(data):
        return None
    magic, crc, place, body_bytes, body_crc, of_generation = _GROUP_HEAD.unpack_from(data, offset)
    if (magic, place, of_generation) != (_GROUP_MAGIC, offset, generation):
        return None
    if google_crc32c.value(data[offset + 8 : offset + _GROUP_HEAD.size]) != crc:
        return None
    return body_bytes, body_crc


def _whole_group(data: bytes, offset: int, generation: int) -> bytes | None:
    head = _group_head(data, offset, generation)
    if head is None:
        return None
    start = offset + _GROUP_HEAD.size
    body = data[start : start + head[0]]
    return body if len(body) == head[0] and google_crc32c.value(body) == head[1] else None


def _has_head_behind(data: bytes, offset: int, generation: int) -> bool:
    place = data.find(_GROUP_MAGIC, offset + 1)
    while place >= 0:
        if _group_head(data, place, generation) is not None:
            return True
        place = data.find(_GROUP_MAGIC, place + 1)
    return False
