"""A lane that this process writes: groups of batches, committed one after the other.

A lane's directory holds `<first lsn>.seg` files with an `.idx` each, `synced`, and up to
`RECYCLED_SEGMENTS_MAX` trimmed segments waiting to be written over. One thread at a time may call
`prepare`, `commit` and the methods that change the lane; reading needs no lock (`reader`).

Invariants:

1. `length`, what readers may see, never exceeds what was synced (unless durability is "os").
2. A failed sync fences the lane for good: nothing is committed after it.
3. A failed write leaves nothing behind that could be taken for an entry.
4. Nothing is written to a segment once the next one may have its name: a roll that failed or was
   interrupted is finished first.
5. A segment is dropped only when the trim that allows it is durable.
6. `commit` may be repeated for the same group until it returns: each step changes nothing the second time.
   An interrupt in the middle of it loses nothing.
"""

import errno
from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from ithaca.model.errors import Fenced, StorageError, StorageFull
from ithaca.model.limits import CHECKPOINT_BYTES, LANE_SESSIONS_GONE_MAX, RECYCLED_SEGMENTS_MAX, SEGMENT_BYTES_MAX
from ithaca.model.positions import LaneId
from ithaca.model.records import Buffer, Durability
from ithaca.storage.disk import NO_DESCRIPTORS, Disk
from ithaca.storage.reader import LaneReader
from ithaca.storage.recovery import NEW_SUFFIX, Inspected, inspect, settle
from ithaca.storage.segment import Segment, SegmentWriter, index_name_of, name_of
from ithaca.storage.state import LaneState
from ithaca.storage.synced import Progress, ProgressFile
from ithaca.wire.batch import HEAD_BYTES, MARK, Batch, lane_seed, stored_bytes
from ithaca.wire.build import bookkeeping

_RECYCLED_PREFIX = "recycled-"
_MARK = bookkeeping(MARK)
_FULL = (errno.ENOSPC, errno.EDQUOT)


class Group(NamedTuple):
    """Entries with their places, to be written and synced together."""

    entries: list[Batch]
    """What the caller asked for, placed."""
    buffers: list[Buffer]
    offset: int
    entries_offset: int
    """Where the first of `entries` goes, behind a mark and perhaps a snapshot."""
    end_offset: int
    checkpoint_offset: int
    """Where the group's snapshot goes; 0 when it has none."""


def create(disk: Disk, directory: str, lane: LaneId) -> None:
    """Make the directory of a lane that holds nothing yet."""
    disk.make_directory(directory)
    _new_segment(disk, directory, lane_seed(lane), LaneState(), recycled=None)


class _SyncFailed(OSError):
    """A sync failed, which is worse than a failed write: it cannot be repeated."""


def _synced(sync: Callable[[], None]) -> None:
    try:
        sync()
    except OSError as error:
        raise _SyncFailed(error.errno, error.strerror) from error


def _new_segment(disk: Disk, directory: str, seed: int, state: LaneState, recycled: str | None) -> tuple[Segment, int]:
    """A segment that starts at the lane's end; its opening snapshot is durable before its name is."""
    path = f"{directory}/{name_of(state.length)}"
    if recycled is not None:
        disk.rename(f"{directory}/{recycled}", path + NEW_SUFFIX)
    file = disk.open(path + NEW_SUFFIX, create=True)
    snapshot = state.snapshot_entry().placed(state.length, seed)
    file.write(0, snapshot.buffers())
    _synced(file.sync)
    disk.rename(path + NEW_SUFFIX, path)
    _synced(lambda: disk.sync_directory(directory))
    return Segment(disk, directory, state.length, seed, writable=True), snapshot.total_bytes


class Lane(LaneReader):
    """A lane open for writing."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        lane: LaneId,
        *,
        durability: Durability = "fsync",
        segment_bytes: int = SEGMENT_BYTES_MAX,
        is_sound: bool = False,
    ) -> None:
        """Open a lane, recovering what a crash left; `Corrupt` when synced entries are damaged.

        With `is_sound` this process has left it with everything synced: there is nothing to recover, and so nothing is
        written.
        """
        super().__init__(disk, directory, lane)
        self._durability = durability
        self._segment_bytes = segment_bytes
        self.fenced: Fenced | None = None
        self._sync_failure: OSError | None = None
        self._roll_due = False
        self._recycled: list[str] = []
        """Trimmed segments that wait to be written over."""
        self._sealed_bytes: dict[int, int] = {}
        """How much a segment that is full holds, if it was asked for."""
        self._expired: deque[int] = deque(maxlen=LANE_SESSIONS_GONE_MAX)
        self._listed: tuple[frozenset[int], int] | None = None
        self.closed = False
        """Whether it was closed and nothing was committed since."""
        self._progress = ProgressFile(disk, directory, writable=True)
        found = inspect(disk, directory, lane, self._progress.load(), writable=True)
        self._recycled = [name for name in disk.list(directory) if name.startswith(_RECYCLED_PREFIX)]
        if is_sound:
            self._adopt(found)
        else:
            self._adopt(settle(disk, directory, found, self._progress))
            self._store_progress()
            self.drop_trimmed()

    def _adopt(self, found: Inspected) -> None:
        self.first_lsns = found.first_lsns
        self.state = found.state
        self.trim_lsn, self.length = found.state.trim_lsn, found.state.length
        self._active = found.segment
        self._writer = SegmentWriter(found.segment, found.end_offset)
        self._opening_bytes = stored_bytes(found.segment.file.read(0, HEAD_BYTES), 0)
        self._checkpoint_offset = found.checkpoint_offset
        for note in found.notes:
            found.segment.index.note(*note)
        self._synced_offset, self._synced_length = found.end_offset, self.length
        self._mark_due = True  # all that was found is synced by now
        self._index_file = self.disk.open(found.segment.index_path, create=True)

    @property
    def is_synced(self) -> bool:
        """Whether everything that was committed is synced, so that it can be opened again without recovery."""
        return self.fenced is None and self._synced_offset == self._writer.offset

    def release(self) -> None:
        super().release()
        del self._writer, self._index_file, self._progress

    def session_expired(self, producer_id: int) -> None:
        """Forget a session before the next group is written; any thread may call this."""
        self._expired.append(producer_id)

    def sessions_listed(self, at_home: frozenset[int], lsn: int) -> None:
        """Forget who was not at home any more when so much was ordered, likewise."""
        self._listed = at_home, lsn

    def _forget_sessions(self) -> None:
        """The table belongs to whoever writes, so what others say of it waits until then."""
        listed, self._listed = self._listed, None
        if listed is not None:
            self.state.sessions.listed(*listed)
        while self._expired:
            self.state.sessions.expired(self._expired.popleft())

    def prepare(self, batches: list[Batch]) -> Group:
        """Give batches their places behind the lane's end, rolling to a new segment when this one is full."""
        self._check_fence()
        self._forget_sessions()
        count = 0
        for batch in batches:
            count += batch.total_bytes
        lead, lead_bytes = self._lead()
        # Twice its opening: a large session table must not make every group a segment.
        room = max(self._segment_bytes, 2 * self._opening_bytes) - self._writer.offset
        full = lead_bytes + count > room and self._holds_entries(room)
        if full or self._roll_due:
            self._roll()
            lead, lead_bytes = [], 0
        offset, lsn = self._writer.offset, self.state.length
        entries: list[Batch] = []
        buffers = lead
        for batch in batches:
            entry = batch.placed(lsn, self.seed)
            lsn = entry.end_lsn
            entries.append(entry)
            buffers += entry.buffers()
        checkpoint = offset + HEAD_BYTES if lead_bytes > HEAD_BYTES else 0
        return Group(entries, buffers, offset, offset + lead_bytes, offset + lead_bytes + count, checkpoint)

    def _holds_entries(self, room: int) -> bool:
        return self.state.length > self._writer.segment.first_lsn or room < 0

    def _lead(self) -> tuple[list[Buffer], int]:
        """What goes before the caller's batches: the mark that is due, and at a checkpoint a snapshot."""
        if not self._mark_due:
            return [], 0
        mark = _MARK.placed_head(self.state.length, self.seed)
        if self._writer.offset - self._checkpoint_offset < CHECKPOINT_BYTES:
            return [mark], HEAD_BYTES
        snapshot = self.state.snapshot_entry().placed(self.state.length, self.seed)
        return [mark, *snapshot.buffers()], HEAD_BYTES + snapshot.total_bytes

    def commit(self, group: Group) -> None:
        """Write and sync a group, then let readers see it."""
        self._check_fence()
        self.closed = False
        durably = self._durability == "fsync"
        try:
            self._writer.write(group.offset, group.buffers, group.end_offset - group.offset, durably=durably)
        except OSError as error:
            if durably and error.errno not in _FULL:
                raise self._sync_failed(error) from error
            self._take_back(group.offset)
            raise _translated(error, self._writer.segment.path) from error
        offset, index = group.entries_offset, self._writer.segment.index
        for entry in group.entries:
            self.state.apply(entry)
            if entry.count:
                index.note(entry.base_lsn, offset, self.state.time_us)
                self.cache.add(entry)
            offset += entry.total_bytes
        self._writer.offset = group.end_offset
        self._mark_due = durably
        if durably:
            self._synced_offset, self._synced_length = group.end_offset, self.state.length
        self.trim_lsn, self.length = self.state.trim_lsn, self.state.length
        try:
            if group.checkpoint_offset and durably:
                self._checkpoint_offset = group.checkpoint_offset
                base = group.entries[0].base_lsn
                self._store_block(self._writer.segment, group.checkpoint_offset, base)
            self._store_progress()
        except OSError as error:
            raise self._fence(error, "noting the progress of") from error

    def _check_fence(self) -> None:
        if self._sync_failure is not None and self.fenced is None:
            self._fence(self._sync_failure, "syncing")
        if self.fenced is not None:
            raise self.fenced

    def _sync(self) -> None:
        try:
            self._writer.file.sync()
        except OSError as error:
            raise self._sync_failed(error) from error

    def _sync_failed(self, error: OSError) -> Fenced:
        self._sync_failure = error  # at once: an interrupt from here on must not hide it
        return self._fence(error, "syncing")

    def _store_block(self, segment: Segment, end_offset: int, end_lsn: int) -> None:
        """Note a checkpoint in the index; on a full disk it does without, since the segment says it all."""
        try:
            segment.index.store_block(self._index_file, end_offset, end_lsn)
        except OSError as error:
            if error.errno not in _FULL:
                raise

    def _take_back(self, offset: int) -> None:
        try:
            self._writer.cut(offset)
        except OSError as error:
            raise self._fence(error, "taking back a failed write to") from error

    def _fence(self, error: OSError, doing: str) -> Fenced:
        self.fenced = Fenced(
            f"{doing} {self._writer.segment.path} failed ({error.strerror}), so nothing is accepted any more; what was "
            "acknowledged is safe: look after the disk, then open the log again"
        )
        return self.fenced

    def _store_progress(self, *, durably: bool = False) -> None:
        self._progress.store(
            Progress(
                self.length, self.trim_lsn, self._writer.segment.first_lsn, self._synced_offset, self._synced_length
            ),
            durably=durably,
        )

    def _roll(self) -> None:
        """Seal the active segment and start the next, which may take its name if it holds no records."""
        self._roll_due = True
        if self._durability == "os":
            self._sync()
        sealed, end_offset = self._writer.segment, self._writer.offset
        try:
            segment, offset = self._next_segment()
            if sealed.first_lsn != segment.first_lsn:
                # Only now: a block that ends where no snapshot follows needs a next segment.
                self._store_block(sealed, end_offset, self.state.length)
                sealed.file.truncate(end_offset)  # gives back what was allocated ahead
            index_file = self.disk.open(segment.index_path, create=True)
        except _SyncFailed as error:
            raise self._fence(error, "starting the segment after") from error
        except OSError as error:
            raise _translated(error, self.directory) from error
        self.first_lsns = [*(first for first in self.first_lsns if first != segment.first_lsn), segment.first_lsn]
        self._active = segment
        self._writer, self._index_file = SegmentWriter(segment, offset), index_file
        self._opening_bytes = offset
        self._synced_offset, self._synced_length = offset, self.state.length
        self._checkpoint_offset = 0
        self._mark_due = self._roll_due = False
        self.drop_trimmed()

    def _next_segment(self) -> tuple[Segment, int]:
        recycled: str | None = None
        if self._writer.segment.first_lsn == self.state.length:
            # What is said of the old file's offsets must not outlive it. A recycled file will not do here: it
            # may hold entries at this very LSN.
            self._synced_offset = self._synced_length = 0
            _synced(lambda: self._store_progress(durably=True))
            if self.disk.exists(self._writer.segment.index_path):
                self.disk.remove(self._writer.segment.index_path)
        else:
            recycled = self._recycled[0] if self._recycled else None
            self._recycled = self._recycled[1:]
        return _new_segment(self.disk, self.directory, self.seed, self.state, recycled)

    def drop_trimmed(self) -> None:
        """Remove, or keep for recycling, the segments that lie wholly below the trim point."""
        if len(self.first_lsns) < 2 or self.first_lsns[1] > self.trim_lsn:
            return
        if self._durability == "os":
            self._sync()
        kept = max(1, bisect_right(self.first_lsns, self.trim_lsn)) - 1
        gone, self.first_lsns = self.first_lsns[:kept], self.first_lsns[kept:]
        for first in gone:
            with suppress(OSError):  # nobody reads it any more; what stays behind goes when the lane is opened next
                self._drop(first)

    def _drop(self, first_lsn: int) -> None:
        size = self.bytes_of(first_lsn)
        self._sealed_bytes.pop(first_lsn, None)
        self.forget_segment(first_lsn)
        path = f"{self.directory}/{name_of(first_lsn)}"
        if len(self._recycled) < RECYCLED_SEGMENTS_MAX and size * 2 >= self._segment_bytes:
            name = f"{_RECYCLED_PREFIX}{first_lsn:020d}"
            self.disk.rename(path, f"{self.directory}/{name}")
            self._recycled = [*self._recycled, name]
        else:
            self.disk.remove(path)
        index_path = f"{self.directory}/{index_name_of(first_lsn)}"
        if self.disk.exists(index_path):
            self.disk.remove(index_path)

    def bytes_of(self, first_lsn: int) -> int:
        """How much a segment holds."""
        if first_lsn == self._writer.segment.first_lsn:
            return self._writer.offset
        known = self._sealed_bytes.get(first_lsn)
        if known is None:
            path = f"{self.directory}/{name_of(first_lsn)}"
            known = self._sealed_bytes[first_lsn] = self.disk.open(path, writable=False).size()
        return known

    def oldest_beyond(self, bytes_max: int) -> int:
        """The LSN before which whole segments must go so that the rest is within `bytes_max`."""
        kept = self._writer.offset
        for at in range(len(self.first_lsns) - 2, -1, -1):
            kept += self.bytes_of(self.first_lsns[at])
            if kept > bytes_max:
                return self.first_lsns[at + 1]
        return self.first_lsns[0]

    def close(self) -> None:
        """Leave a lane that needs no recovery: synced, with a mark at its end, and no space held ahead."""
        if self.fenced is not None or self.closed:
            return
        self._sync()
        mark = _MARK.placed_head(self.state.length, self.seed)
        try:
            self._writer.file.write(self._writer.offset, [mark])
            self._writer.give_back(self._writer.offset + HEAD_BYTES)
        except OSError as error:
            if error.errno not in _FULL:  # then it closes without the mark: everything is synced
                raise _translated(error, self._writer.segment.path) from error
        self._sync()
        self.closed = True


def _translated(error: OSError, path: str) -> StorageError:
    if error.errno in _FULL:
        return StorageFull(f"no space is left for {path}: the append did not happen; free some space and repeat it")
    if error.errno in NO_DESCRIPTORS:
        return StorageFull(
            f"no file can be opened in {path} ({error.strerror}): the append did not happen; let this process open "
            "more files, and repeat it"
        )
    return StorageError(f"writing {path} failed: {error.strerror}")
