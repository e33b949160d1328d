"""The store of a server: a lane with the bytes, and a Raft log of ranges, kept in step (eBay §3.2).

A range is synced once: with its bytes, by a name in the lane (`names`), and the Raft log gets it later, together with
others. Everything else is written to the Raft log at once, behind the ranges that were only named until then. Bytes are
synced with the range that names them or before it; ranges go, durably, before the bytes that they name. In any other
order a crash could leave ranges without bytes, and such a server could win an election. What lies behind the last range
belongs to nobody: a start discards it, and so does the next write. A follower that copies what a compaction point
refers to writes there, until the point itself is written.

A server that was started again knows less to be committed than its lane does: what was trimmed was. So ranges may be
dropped whose bytes are gone for good, and the lane is never cut below its trim point; ranges that come instead name
the same bytes, and of those only what is missing is written.
"""

import errno
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from ithaca.engines.raft.name import LANE
from ithaca.engines.raft.replog.entries import Range, range_in
from ithaca.engines.raft.replog.state import length_in
from ithaca.engines.raft.storage.names import NamedEntries, name_of, with_named
from ithaca.engines.raft.storage.staging import Staging
from ithaca.model.errors import Corrupt, StorageFull, Trimmed
from ithaca.model.limits import GROUP_BYTES_MAX, SEGMENT_BYTES_MAX, ZERO_AHEAD_BYTES
from ithaca.raft.events import Persist
from ithaca.raft.messages import DurableState, Entry
from ithaca.storage import checked_file, truncation
from ithaca.storage import lane as lanes
from ithaca.storage.disk import Disk
from ithaca.storage.lane import Lane
from ithaca.storage.raftlog import FILE_NAME, RaftLog, verify
from ithaca.storage.reader import Cursor
from ithaca.storage.segment import first_lsns
from ithaca.storage.state import TrimmedTo, control_entry
from ithaca.wire.batch import Batch, lane_seed
from ithaca.wire.build import noops

LANE_DIRECTORY = "lane"
CURSOR = "cursor"
SEED = lane_seed(LANE)
_FULL = (errno.ENOSPC, errno.EDQUOT)


class SharedLog:
    """A `runtime.raft.ports.RaftStore`. What changes it belongs to the disk's thread; reading needs no lock."""

    names_ranges = True
    """Whether ranges are durable by their names; else each of them is written to the Raft log at once."""

    def __init__(
        self, disk: Disk, directory: str, raft: RaftLog, state: DurableState, lane: Lane, segment_bytes: int
    ) -> None:
        self._disk = disk
        self._parent = directory
        self._directory = f"{directory}/{LANE_DIRECTORY}"
        self._raft = raft
        self._segment_bytes = segment_bytes
        self.staging = Staging()
        self._base_index = state.snapshot.index
        self._base_lsn = length_in(state.snapshot.data)
        self._ends: list[tuple[int, int]] = []
        """Of each entry behind the compaction point: its term, and where the lane ends with it."""
        self._note(state.entries)
        self._named = NamedEntries()
        """Those of them that are not in the Raft log yet."""
        self._ahead: tuple[int, int] = (0, 0)
        """The persist whose bytes are partly written, and up to where: it may be repeated when there is space."""
        self._is_open = True
        self.lane = lane
        """Another object after a cut: look it up for each read."""
        if self.lane.length < self._end:
            raise Corrupt(
                f"the data log ends at LSN {self.lane.length}, and ranges of it up to {self._end} were agreed on",
                file=self._directory,
            )
        self._discard_behind(self._end)

    # What is there

    @property
    def last_index(self) -> int:
        """Of the last entry on the disk."""
        return self._base_index + len(self._ends)

    @property
    def end_lsn(self) -> int:
        """Where the last range ends."""
        return self._end

    @property
    def _end(self) -> int:
        return self._ends[-1][1] if self._ends else self._base_lsn

    def batches_of(self, index: int, term: int, of: Range) -> list[Batch]:
        """The batches of a range that this server has, be they on the disk or on their way to it.

        No-ops stand for those that were trimmed.
        """
        staged = self.staging.get(index, term)
        if staged is not None:
            return staged
        found = self.read(of.first_lsn, of.end_lsn)
        batches: list[Batch] = []
        lsn = of.first_lsn
        for named in of.batches:
            if found and found[0].base_lsn == lsn:
                batches.append(found.pop(0))
            else:
                batches.append(noops(named.count, timestamp_us=0).placed(lsn, SEED))
            lsn += named.count
        return batches

    def read(self, start: int, stop: int) -> list[Batch]:
        """The batches that hold `[start, stop)`, those left out that were trimmed as a whole."""
        lane = self.lane
        found: list[Batch] = []
        at = max(start, lane.trim_lsn)
        while at < stop:
            try:
                found += Cursor(lane, at).read(stop)
            except Trimmed:
                at = max(at, lane.trim_lsn)
                continue
            at = found[-1].end_lsn
        return found

    # What Raft calls

    def persist(self, effect: Persist) -> None:
        if effect.snapshot is not None:
            self._replace(effect, effect.snapshot.index, length_in(effect.snapshot.data))
            return
        hard_state, cut_from, entries = effect.hard_state, effect.cut_from, effect.entries
        if entries and (cut_from is None or entries[0].index < cut_from):
            cut_from = entries[0].index
        if cut_from is not None and cut_from <= self.last_index:
            self._cut_ranges(msgspec.structs.replace(effect, entries=(), cut_from=cut_from))
            hard_state = None
        if effect.cut_from is not None:  # else the next bytes do it, and this is repeated if it finds no space
            self._discard_behind(self._end)
        if entries and hard_state is None and self._may_name(entries):
            self._write_bytes(effect.sequence, self._end, entries, is_named=True)
            self._named.add(entries)
        elif entries or hard_state is not None:
            self._write_bytes(effect.sequence, self._end, entries)
            self._persist_entries(Persist(effect.sequence, hard_state, None, entries))
        self._note(entries)
        self._forget_staged(entries)

    def _may_name(self, entries: Sequence[Entry]) -> bool:
        """Nothing may stand behind the last range, neither copies nor what is left of a conflict."""
        return self.names_ranges and self.lane.length == self._end and self._named.has_room(entries)

    def _persist_entries(self, effect: Persist) -> None:
        """Write and sync entries whose bytes are in the lane, behind those that are only named there."""
        self._raft.persist(msgspec.structs.replace(effect, entries=(*self._named.entries, *effect.entries)))
        self._named.clear()

    def _replace(self, effect: Persist, index: int, length: int) -> None:
        """Write a compaction point: this server's own, or one whose data was copied before."""
        entries = effect.entries
        same = 0
        while same < len(entries) and self._has(entries[same]):
            same += 1
        first_new = index + 1 + same
        if self._base_index < first_new <= self.last_index:
            self._cut_ranges(Persist(effect.sequence, cut_from=first_new))
            self._discard_behind(self._end)
        end = self._ends[index + same - self._base_index - 1][1] if same else length
        assert self.lane.length >= end, (self.lane.length, end)
        if same < len(entries):
            self._write_bytes(effect.sequence, end, entries[same:])
        self._raft.persist(effect)  # with all entries there are
        self._named.clear()
        self._base_index, self._base_lsn, self._ends = index, length, []
        self._note(entries)
        self._forget_staged(entries)
        self._discard_behind(self._end)

    def _has(self, entry: Entry) -> bool:
        place = entry.index - self._base_index - 1
        return 0 <= place < len(self._ends) and self._ends[place][0] == entry.term

    def _note(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            of = range_in(entry)
            self._ends.append((entry.term, self._end if of is None else of.end_lsn))

    def _forget_staged(self, entries: Sequence[Entry]) -> None:
        """Not before their ranges are synced, too: a persist that found no space is repeated."""
        for entry in entries:
            self.staging.written(entry.index, entry.term)

    def _cut_ranges(self, effect: Persist) -> None:
        """Something is written even if only named entries go: from then on their names do not count."""
        assert effect.cut_from is not None
        kept = tuple(entry for entry in self._named.entries if entry.index < effect.cut_from)
        first_named = self.last_index + 1 - len(self._named.entries)
        cut_from = min(effect.cut_from, first_named)
        self._raft.persist(msgspec.structs.replace(effect, entries=kept, cut_from=cut_from))
        self._named.clear()
        del self._ends[effect.cut_from - self._base_index - 1 :]

    def _write_bytes(self, sequence: int, end: int, entries: Sequence[Entry], *, is_named: bool = False) -> None:
        """Write and sync the batches of new ranges, the first of which begins at `end`, with their names if wanted."""
        if not entries:
            return
        written = self._discard_behind(self._ahead[1] if self._ahead[0] == sequence else end)
        assert self.lane.length == written, (self.lane.length, written)
        batches: list[Batch] = []
        for entry in entries:
            of = range_in(entry)
            if of is not None:
                assert of.first_lsn == end, (of.first_lsn, end)
                staged = self.staging.get(entry.index, entry.term)
                assert staged is not None, f"the bytes of entry {entry.index} of term {entry.term} did not come"
                if is_named:
                    batches.append(name_of(entry, self._raft.place))
                batches += [batch for batch in staged if batch.base_lsn >= written]
                end = of.end_lsn
        try:
            self._write(batches)
        finally:
            self._ahead = sequence, self.lane.length

    def _write(self, batches: Sequence[Batch]) -> None:
        group: list[Batch] = []
        size = 0
        for batch in batches:
            # A name goes into one group with the batch behind it.
            if group and group[-1].count and size + batch.total_bytes > GROUP_BYTES_MAX:
                self.lane.commit(self.lane.prepare(group))
                group, size = [], 0
            group.append(batch)
            size += batch.total_bytes
        if group:
            self.lane.commit(self.lane.prepare(group))

    def _discard_behind(self, length: int) -> int:
        """Cut the lane to this length; nothing is done to one that is no longer. Says what was kept at least."""
        if not self._is_open:
            self.lane, self._is_open = self._opened(), True
        trim_lsn = self.lane.trim_lsn
        if length < trim_lsn:
            length = self._behind_trimmed(trim_lsn)
        if self.lane.length <= length:
            return length
        self.lane.close()
        self.lane.release()
        self._is_open = False
        try:
            truncation.truncate(self._disk, self._directory, LANE, length)
            self.lane, self._is_open = self._opened(), True
            self.trim(trim_lsn)
        except OSError as error:
            if error.errno not in _FULL:
                raise
            raise StorageFull(f"no space is left to cut {self._directory}: free some") from error
        return length

    def _behind_trimmed(self, trim_lsn: int) -> int:
        """Where the batch ends in whose middle the lane was trimmed; between two, that is there."""
        if trim_lsn == self.lane.length:
            return trim_lsn
        holds = Cursor(self.lane, trim_lsn).read(trim_lsn + 1)[0]
        return trim_lsn if holds.base_lsn == trim_lsn else holds.end_lsn

    def _opened(self) -> Lane:
        return _opened_lane(self._disk, self._directory, self._segment_bytes)

    # What else the disk's thread does

    def copy(self, lsn: int, batches: Sequence[Batch]) -> None:
        """Write what belongs to a compaction point that is not here yet; void unless the lane ends at `lsn`."""
        if self.lane.length == lsn:
            self._write(batches)

    def trim(self, lsn: int) -> None:
        """Let go, durably, of records below an LSN, and of the segments that hold nothing else.

        Names go with them, so what is named is in the Raft log before.
        """
        if self.lane.trim_lsn < lsn <= self.lane.length:
            self._write_named()
            self.lane.commit(self.lane.prepare([control_entry(TrimmedTo(lsn))]))
            self.lane.drop_trimmed()

    def _write_named(self) -> None:
        if self._named.entries:
            self._persist_entries(Persist(0))

    def close(self, cursor: int) -> None:
        """Leave a lane that needs no recovery, and write down how much of it is agreed on, as far as is known."""
        if not self._is_open:
            return
        with suppress(StorageFull):  # then names stay, which the next start finds
            self._write_named()
        self.lane.close()
        try:
            checked_file.replace(self._disk, self._parent, CURSOR, msgspec.msgpack.encode(cursor))
        except OSError as error:
            if error.errno not in _FULL:  # without space an older one stays, which is as true
                raise


def _opened_lane(disk: Disk, directory: str, segment_bytes: int) -> Lane:
    lane = Lane(disk, directory, LANE, segment_bytes=segment_bytes)
    first = lane.first_lsns[0]
    if lane.trim_lsn < first:  # what said so stood behind a cut; the segments before it are gone all the same
        lane.commit(lane.prepare([control_entry(TrimmedTo(first))]))
    return lane


def kept_cursor(disk: Disk, directory: str) -> int:
    """How much of the log a server that was stopped cleanly knew to be agreed on; it stays so."""
    path = f"{directory}/{CURSOR}"
    return checked_file.load_value(disk, path, int) if disk.exists(path) else 0


class SharedLogFiles:
    """A `runtime.raft.ports.RaftFiles`."""

    name = FILE_NAME

    def __init__(self, segment_bytes: int = SEGMENT_BYTES_MAX) -> None:
        self._segment_bytes = segment_bytes
        self.opened: SharedLog | None = None
        """What was opened or made."""

    def open(self, disk: Disk, directory: str) -> tuple[SharedLog, DurableState]:
        """The lane before the Raft log: what it names is synced by then, and is written to the Raft log."""
        found = verify(disk, directory)
        lane = _opened_lane(disk, f"{directory}/{LANE_DIRECTORY}", self._segment_bytes)
        state = with_named(lane, found)
        raft = RaftLog.open_with(disk, directory, found, state, zero_ahead_bytes=ZERO_AHEAD_BYTES)
        store = self.opened = self._made(disk, directory, raft, state, lane)
        return store, state

    def create(self, disk: Disk, directory: str, state: DurableState) -> SharedLog:
        """The lane first: what is there without a Raft log was left by a start that did not get that far."""
        path = f"{directory}/{LANE_DIRECTORY}"
        disk.make_directory(path)
        if not first_lsns(disk.list(path)):
            lanes.create(disk, path, LANE)
        disk.sync_directory(directory)
        lane = _opened_lane(disk, path, self._segment_bytes)
        raft = RaftLog.create(disk, directory, state, zero_ahead_bytes=ZERO_AHEAD_BYTES, goes_on=True)
        self.opened = self._made(disk, directory, raft, state, lane)
        return self.opened

    def _made(self, disk: Disk, directory: str, raft: RaftLog, state: DurableState, lane: Lane) -> SharedLog:
        return SharedLog(disk, directory, raft, state, lane, self._segment_bytes)
