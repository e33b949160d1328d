"""What a unit has on its disk: rows in a lane, their index, and what `meta` says.

`commit` and `checkpoint` write and may be called in a disk's thread, one at a time; everything else belongs to the
loop, which is told by `noted` what was committed. So the core never sees a row that is not synced.
"""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from uuid import UUID

import msgspec

from ithaca.engines.corfu.sequencing.calls import TakeTrims
from ithaca.engines.corfu.sequencing.entries import JUNK, Entry, entry_of
from ithaca.engines.corfu.sequencing.placed import PlacedBatch, PlacedTable
from ithaca.engines.corfu.sequencing.projection import Natural
from ithaca.engines.corfu.sequencing.rows import NONE
from ithaca.engines.corfu.sequencing.trims import Trims
from ithaca.engines.corfu.sequencing.unit import Change, CopiedChange, EpochChange, RowChange, TrimChange, UnitState
from ithaca.engines.corfu.storage.row_index import NAME as ROWS
from ithaca.engines.corfu.storage.row_index import FrozenBlock, Place, RowIndex
from ithaca.model.errors import Corrupt, NoSuchLog
from ithaca.model.limits import SEGMENT_BYTES_MAX
from ithaca.model.positions import LaneId
from ithaca.storage import checked_file, lane
from ithaca.storage.disk import Disk
from ithaca.storage.lane import Lane
from ithaca.storage.reader import Cursor, LaneReader
from ithaca.storage.state import TrimmedTo, control_entry
from ithaca.wire.batch import DATA, HEAD_BYTES, NOOPS, PLACE, Batch
from ithaca.wire.build import noops
from ithaca.wire.build import place as place_entry

META, SESSIONS, COPIED, LANE = "meta", "sessions", "copied", "lane"
LANE_ID = LaneId(0, 0, 1)
"""A unit's directory holds one lane; which unit it is, its identity says."""
CURSORS_MAX = 16
"""Places in the lane at which somebody may read on."""
_BESIDE_BYTES = 2 * HEAD_BYTES
"""A row's place, and the mark that may stand before it."""
CHECKPOINT_LANE_BYTES = 64 << 20
"""So much of the lane is read again, at most, when a unit starts."""


class Meta(msgspec.Struct, frozen=True):
    """What `meta` says."""

    identity: UUID
    epoch: Natural = 0
    is_sealed: bool = True
    trimmed_below: Natural = 0
    trimmed: tuple[tuple[Natural, Natural], ...] = ()
    first: Natural = 0
    """The first position of the log that was not trimmed, as far as the unit knows."""


class _Sessions(msgspec.Struct, frozen=True):
    """What `sessions` says: the state of everything below this LSN of the lane."""

    end_lsn: Natural
    highest: int
    time_us: int
    is_forgetful: bool
    placed: list[tuple[int, list[PlacedBatch]]]


class _Copied(msgspec.Struct, frozen=True):
    """What `copied` says: sessions of rows that came from other units, and may have been trimmed there before."""

    placed: tuple[tuple[int, tuple[PlacedBatch, ...]], ...] = ()
    is_forgetful: bool = False


class Checkpoint(NamedTuple):
    """What is written beside the lane so that a start reads little of it."""

    block: FrozenBlock
    sessions: bytes


class PlacedRow(NamedTuple):
    """A row as the lane has it."""

    row: int
    time_us: int
    entry: Batch


class UnitStore:
    """A unit's directory, open."""

    def __init__(self, disk: Disk, directory: str, *, segment_bytes: int = SEGMENT_BYTES_MAX) -> None:
        """Open what `create` has made, and recover it; `Corrupt` when something that was synced is damaged."""
        self._disk = disk
        self._directory = directory
        if not disk.exists(f"{directory}/{META}"):
            raise NoSuchLog(f"{directory} is not the directory of a unit")
        meta = checked_file.load_value(disk, f"{directory}/{META}", Meta)
        self.identity = meta.identity
        self._meta = meta
        self.lane = Lane(disk, f"{directory}/{LANE}", LANE_ID, segment_bytes=segment_bytes)
        self.rows = RowIndex(disk, directory)
        self.state = UnitState(
            meta.epoch, meta.is_sealed, NONE, 0, Trims(meta.trimmed_below, meta.trimmed, meta.first), PlacedTable()
        )
        self._noted_lsn = self.lane.length
        self._noted_bytes = 0
        """Of the lane, since the last checkpoint."""
        self._copied = _Copied()
        self._cursors: OrderedDict[int, Cursor] = OrderedDict()
        """By where they are in the lane: whoever reads rows one after the other finds the next at once."""
        self._likely_bytes = 1 << 20
        """What a row takes in the lane, as far as those say that were read last."""
        self._recover()
        self._load_copied()

    # Writing

    def commit(self, changes: Sequence[Change]) -> list[int]:
        """Make changes durable, in their order; the LSNs of the rows among them."""
        lsns: list[int] = []
        pending: list[Batch] = []
        for change in changes:
            if isinstance(change, RowChange):
                pending += _entries_of(change)
            else:
                lsns += self._commit_rows(pending)
                pending = []
                self._commit_meta(change)
        return lsns + self._commit_rows(pending)

    def noted(self, changes: Sequence[Change], lsns: Sequence[int]) -> None:
        """These were committed: from now on they are found."""
        rows = (change for change in changes if isinstance(change, RowChange))
        for change, lsn in zip(rows, lsns, strict=True):
            self.rows.add(change.row, lsn, change.entry.time_us)
            batch = change.entry.batch
            self._noted_lsn = lsn + (1 if batch is None else batch.count)
            self._noted_bytes += 2 * HEAD_BYTES if batch is None else HEAD_BYTES + batch.total_bytes

    def _commit_rows(self, entries: list[Batch]) -> list[int]:
        if not entries:
            return []
        group = self.lane.prepare(entries)
        self.lane.commit(group)
        return [entry.base_lsn for entry in group.entries if entry.count]

    def _commit_meta(self, change: EpochChange | TrimChange | CopiedChange) -> None:
        meta = self._meta
        if isinstance(change, EpochChange):
            meta = msgspec.structs.replace(meta, epoch=change.epoch, is_sealed=change.is_sealed)
        else:
            trims = Trims(meta.trimmed_below, meta.trimmed, meta.first)
            if isinstance(change, CopiedChange):
                self._commit_copied(change.copied)
                trims.take(change.copied.below, change.copied.ranges, change.copied.first)
            else:
                trims.apply(change.low, change.high, change.before)
            meta = msgspec.structs.replace(meta, trimmed_below=trims.below, trimmed=trims.ranges, first=trims.first)
        checked_file.replace(self._disk, self._directory, META, msgspec.msgpack.encode(meta))
        self._meta = meta

    def _commit_copied(self, copied: TakeTrims) -> None:
        """What other units remembered of sessions is in no lane of this one."""
        is_forgetful = self._copied.is_forgetful or copied.is_forgetful
        self._copied = _Copied((*self._copied.placed, *copied.placed), is_forgetful)
        checked_file.replace(self._disk, self._directory, COPIED, msgspec.msgpack.encode(self._copied))

    # Checkpoints

    def due_checkpoint(self) -> Checkpoint | None:
        """What is to be written now, if anything. The core has taken in all that was noted."""
        is_much = self._noted_bytes >= CHECKPOINT_LANE_BYTES and not self.rows.is_stored
        return self._checkpoint(self._noted_lsn) if self.rows.is_due or is_much else None

    def _checkpoint(self, end_lsn: int) -> Checkpoint:
        state = self.state
        placed = state.placed
        sessions = _Sessions(end_lsn, state.highest, state.time_us, placed.is_forgetful, placed.items())
        self._noted_bytes = 0
        return Checkpoint(self.rows.freeze(end_lsn), msgspec.msgpack.encode(sessions))

    def checkpoint(self, made: Checkpoint) -> None:
        """Write it."""
        self.rows.store(made.block)
        checked_file.replace(self._disk, self._directory, SESSIONS, made.sessions)

    def checkpointed(self, made: Checkpoint) -> None:
        """It was written."""
        self.rows.stored(made.block)

    # Space

    def reclaimable(self) -> int:
        """The LSN before which the lane has nothing but trimmed rows, all of them in the index by now."""
        return self.rows.first_lsn(self.state.trims.below)

    def reclaim(self, lsn: int) -> None:
        """Let go of the segments below this LSN."""
        if lsn > self.lane.trim_lsn:
            self.lane.commit(self.lane.prepare([control_entry(TrimmedTo(lsn))]))
            self.lane.drop_trimmed()

    # Reading

    def read(self, row: int) -> Entry:
        """What is in a row, which is held and not trimmed; `Corrupt` when it does not check out."""
        found = self.rows.find(row)
        assert found is not None, f"row {row} is not held"
        batch = self._chunk(found.lsn, 1)[0]
        return JUNK if batch.kind == NOOPS else entry_of(batch, found.time_us)

    def _chunk(self, lsn: int, bytes_max: int) -> list[Batch]:
        """About so many bytes of the lane's batches, from the one that begins at this LSN on."""
        cursor = self._cursors.pop(lsn, None) or Cursor(self.lane, lsn)
        batches = cursor.read(self._noted_lsn, bytes_max=bytes_max)
        assert batches[0].base_lsn == lsn, f"the index says that a row begins at LSN {lsn}"
        self._cursors[cursor.lsn] = cursor
        if len(self._cursors) > CURSORS_MAX:
            self._cursors.popitem(last=False)
        return batches

    def read_some(self, start: int, stop: int, step: int, bytes_max: int) -> tuple[list[tuple[int, Entry]], int]:
        """What is in those rows of `range(start, stop, step)` that are held and not trimmed: about so many bytes, and
        the first batch in any case. Behind it the row to go on with.

        They are read as they lie in the lane. What does not check out ends it.
        """
        found: list[tuple[int, Entry]] = []
        ahead: dict[int, Batch] = {}
        end_lsn, last_bytes = -1, 0
        places = self._places(start, stop, step)
        for row, (lsn, time_us) in places:
            batch = ahead.pop(lsn, None)
            if batch is None:
                if last_bytes > bytes_max:
                    return found, row
                try:
                    # One that came late lies behind what was read: it is read alone.
                    likely_bytes = (len(places) - len(found)) * self._likely_bytes
                    chunk = self._chunk(lsn, 1 if lsn < end_lsn else min(bytes_max, likely_bytes))
                except Corrupt:
                    return found, row
                end_lsn = max(end_lsn, chunk[-1].end_lsn)
                ahead |= {each.base_lsn: each for each in chunk}
                batch = ahead.pop(lsn)
            if batch.kind == DATA:
                if last_bytes and batch.total_bytes > bytes_max:
                    return found, row
                last_bytes = batch.total_bytes
                bytes_max -= last_bytes
                self._likely_bytes = last_bytes + _BESIDE_BYTES
            found.append((row, JUNK if batch.kind == NOOPS else entry_of(batch, time_us)))
        return found, stop

    def located(self, start: int, stop: int, step: int) -> tuple[list[int], list[int]]:
        """Those rows of `range(start, stop, step)` that are held and not trimmed, and the LSN of each in the lane."""
        left = self._places(start, stop, step)
        return [row for row, _ in left], [place.lsn for _, place in left]

    def _places(self, start: int, stop: int, step: int) -> list[tuple[int, Place]]:
        trims = self.state.trims
        rows, places = self.rows.places(start, stop, step)
        return [(row, place) for row, place in zip(rows, places, strict=True) if row not in trims]

    def placed_rows(self) -> Iterator[PlacedRow]:
        """Every row that is left, in the order in which they came."""
        return walk(self.lane, self.lane.first_lsns[0])

    # Recovery

    def _recover(self) -> None:
        """Take in what the lane has beyond index and sessions."""
        known_lsn, indexed_lsn = self._load_sessions(), self.rows.end_lsn
        first_lsn = self.lane.first_lsns[0]
        state = self.state
        if first_lsn > min(known_lsn, indexed_lsn):
            state.placed.is_forgetful = state.placed.is_forgetful or first_lsn > known_lsn
        for row, time_us, entry in walk(self.lane, max(first_lsn, min(known_lsn, indexed_lsn))):
            if entry.base_lsn >= known_lsn:
                content = JUNK if entry.kind == NOOPS else entry_of(entry, time_us)
                state.apply(RowChange(row, content))
            if entry.base_lsn >= indexed_lsn:
                self.rows.add(row, entry.base_lsn, time_us)
                if self.rows.is_due:
                    made = self._checkpoint(entry.end_lsn)
                    self.checkpoint(made)
                    self.checkpointed(made)
        state.highest = max(state.highest, state.trims.below - 1)

    def _load_copied(self) -> None:
        path = f"{self._directory}/{COPIED}"
        if self._disk.exists(path):
            self._copied = checked_file.load_value(self._disk, path, _Copied)
        self.state.placed.take(self._copied.placed, is_forgetful=self._copied.is_forgetful)

    def _load_sessions(self) -> int:
        """Take in the last checkpoint's, and say up to where in the lane they go; 0 when they have to be made again."""
        path = f"{self._directory}/{SESSIONS}"
        if not self._disk.exists(path):
            return 0
        try:
            found = checked_file.load_value(self._disk, path, _Sessions)
        except Corrupt:
            return 0
        self.state.highest, self.state.time_us = found.highest, found.time_us
        self.state.placed = PlacedTable(found.placed, is_forgetful=found.is_forgetful)
        return found.end_lsn

    def close(self) -> None:
        self.lane.close()


def walk(lane: LaneReader, lsn: int) -> Iterator[PlacedRow]:
    """The rows of a lane from the entry at this LSN on, or from one shortly before it."""
    while lsn < lane.length:
        segment, end = lane.segment_of(lsn)
        from_lsn, offset = segment.offset_of(lsn)
        place: Batch | None = None
        # The sparse index has the batches; a batch's place stands right before it.
        for _, entry in segment.walk(max(0, offset - HEAD_BYTES), from_lsn):
            if entry.kind == PLACE:
                place = entry
            elif entry.count:
                if place is None:
                    raise Corrupt(f"the batch at LSN {entry.base_lsn} has no place", file=segment.path)
                yield PlacedRow(place.first_seq, place.timestamp_us, entry)
                place, lsn = None, entry.end_lsn
                if lsn >= end:
                    break


def _entries_of(change: RowChange) -> list[Batch]:
    """The entries of a row: its place, and what stands there. Other units place the same batch elsewhere: it is
    copied.
    """
    entry = change.entry
    place = place_entry(change.row, entry.time_us)
    batch = entry.batch
    return [place, noops(1, timestamp_us=0) if batch is None else Batch(batch.head, batch.data, batch.start)]


def create(disk: Disk, directory: str, identity: UUID) -> None:
    """Make the directory of a unit that holds nothing yet; what is left there of another one goes."""
    disk.make_directory(directory)
    clear(disk, directory)
    lane.create(disk, f"{directory}/{LANE}", LANE_ID)
    checked_file.replace(disk, directory, META, msgspec.msgpack.encode(Meta(identity)))


def clear(disk: Disk, directory: str) -> None:
    """Throw away what a unit has. `meta` goes first: without it a directory holds none."""
    for name in (META, SESSIONS, COPIED, ROWS):
        if disk.exists(f"{directory}/{name}"):
            disk.remove(f"{directory}/{name}")
            disk.sync_directory(directory)
    if disk.exists(f"{directory}/{LANE}"):
        for name in disk.list(f"{directory}/{LANE}"):
            disk.remove(f"{directory}/{LANE}/{name}")
        disk.sync_directory(f"{directory}/{LANE}")
