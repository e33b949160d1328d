"""Reading a lane: from memory where it is hot, by positioned reads where it is cold.

A `LaneReader` knows which segments there are; a `Cursor` walks through them. Readers take no lock: the
writer replaces what they look at as a whole, and a segment that is dropped or written over while it is
being read shows up as a batch that does not continue the lane, which is then what it is: trimmed.
"""

from bisect import bisect_right
from threading import Lock

from ithaca.model.errors import Corrupt, Trimmed
from ithaca.model.limits import OPEN_SEGMENTS_MAX, READ_CHUNK_BYTES, TAIL_CACHE_BYTES_MAX
from ithaca.model.positions import LaneId, position_of
from ithaca.storage.cache import TailCache
from ithaca.storage.disk import Disk
from ithaca.storage.segment import Segment
from ithaca.storage.state import LaneState
from ithaca.wire.batch import HEAD_BYTES, PLACE, Batch, lane_seed


class LaneReader:
    """The segments of one lane, for reading."""

    def __init__(self, disk: Disk, directory: str, lane: LaneId) -> None:
        self.disk = disk
        self.directory = directory
        self.lane = lane
        self.seed = lane_seed(lane)
        self.cache = TailCache(TAIL_CACHE_BYTES_MAX)
        self.first_lsns: list[int] = []
        self.length = 0
        """Records that may be read: synced, unless durability is "os"."""
        self.trim_lsn = 0
        self._segments: dict[int, Segment] = {}
        self._active: Segment | None = None
        """The segment being written, on a lane that is its own writer."""
        self._segments_lock = Lock()

    def refresh(self) -> None:
        """Learn what a writer elsewhere has done since; a lane that is its own writer knows already."""

    def learn(self, segment: Segment, offset: int, batch: Batch) -> None:
        """A cursor has passed a batch, and checked it; a lane that is its own writer has it in its index already."""

    def segment_of(self, lsn: int) -> tuple[Segment, int]:
        """The segment that holds `lsn`, and the LSN at which the next one starts (or the length)."""
        length = self.length  # first: the segments of all these records are known by now, and of later ones may not be
        first_lsns = self.first_lsns
        at = bisect_right(first_lsns, lsn) - 1
        if at < 0:
            raise Corrupt(f"the segment that held LSN {lsn} is missing", file=self.directory)
        end = first_lsns[at + 1] if at + 1 < len(first_lsns) else length
        return self.segment(first_lsns[at]), end

    def segment(self, first_lsn: int) -> Segment:
        active = self._active
        if active is not None and active.first_lsn == first_lsn:
            return active
        segment = self._segments.get(first_lsn)
        if segment is None:
            try:
                segment = Segment(self.disk, self.directory, first_lsn, self.seed)
            except FileNotFoundError:
                raise Corrupt(f"the segment from LSN {first_lsn} on is missing", file=self.directory) from None
            with self._segments_lock:
                self._segments[first_lsn] = segment
                while len(self._segments) > OPEN_SEGMENTS_MAX:
                    del self._segments[next(iter(self._segments))]
        return segment

    def forget_segment(self, first_lsn: int) -> None:
        with self._segments_lock:
            self._segments.pop(first_lsn, None)

    def look_again(self) -> None:
        """Open everything again: what did not check out may have been dropped, written over or replaced meanwhile."""
        with self._segments_lock:
            self._segments.clear()
        self.refresh()

    def release(self) -> None:
        """Let go of every file; one that is being read stays open until that read is done."""
        self._active = None
        with self._segments_lock:
            self._segments.clear()

    def check_not_trimmed(self, lsn: int) -> None:
        if lsn < self.trim_lsn:
            first = position_of(self.trim_lsn)
            raise Trimmed(f"position {position_of(lsn)} was trimmed; the first one left is {first}", first=first)

    def state_before(self, lsn: int) -> LaneState:
        """What the entries before the batch at `lsn`, which is there, add up to; `Trimmed` if it goes meanwhile."""
        tries = 2
        while True:
            try:
                return self._state_before(lsn)
            except Corrupt:
                tries -= 1
                self.look_again()
                self.check_not_trimmed(lsn)
                if not tries:
                    raise

    def _state_before(self, lsn: int) -> LaneState:
        segment, _ = self.segment_of(lsn)
        entries = segment.walk(0, segment.first_lsn)
        state = LaneState.restored(next(entries)[1])
        for _, entry in entries:
            if entry.count and entry.end_lsn > lsn:
                return state
            state.apply(entry)
        raise AssertionError(f"LSN {lsn} is not in the segment that should hold it")

    def start_time(self, first_lsn: int) -> int:
        """The order's time at which a segment starts."""
        return next(self.segment(first_lsn).walk(0, first_lsn, chunk_bytes=64 << 10))[1].timestamp_us

    def seek_time(self, time_us: int) -> int:
        """The LSN of the first record that was ordered at or after a time; the length if there is none."""
        tries = 2
        while True:
            first_lsns = self.first_lsns
            try:
                return self._seek_time(first_lsns, time_us)
            except Corrupt:
                tries -= 1
                self.look_again()
                if tries <= 0 and self.first_lsns == first_lsns:  # a file may have been replaced under its name
                    raise

    def _seek_time(self, first_lsns: list[int], time_us: int) -> int:
        low, high = 0, len(first_lsns)
        while low < high:  # the last segment that starts before the time
            middle = (low + high) // 2
            if self.start_time(first_lsns[middle]) < time_us:
                low = middle + 1
            else:
                high = middle
        if low == 0:  # the order's time was reached before the first record that is left
            return max(first_lsns[0], self.trim_lsn)
        segment = self.segment(first_lsns[low - 1])
        lsn, offset = segment.index.floor_time(time_us) or (segment.first_lsn, 0)
        while lsn < self.length:
            end = self.segment_of(lsn)[1]
            for _, batch in segment.walk(offset, lsn):
                if batch.count and batch.timestamp_us >= time_us:
                    return max(lsn, self.trim_lsn)
                lsn = batch.end_lsn
                if lsn >= end:
                    break
            if lsn < self.length:
                segment, offset = self.segment_of(lsn)[0], 0
        return lsn


class Cursor:
    """A place in a lane that moves forward. Not for sharing between threads."""

    def __init__(self, reader: LaneReader, lsn: int, *, with_places: bool = False) -> None:
        """`with_places`: each batch that has a place entry comes behind it."""
        self._reader = reader
        self.lsn = lsn
        self._with_places = with_places
        self._segment: Segment | None = None
        self._segment_end = 0
        self._offset = 0
        self._offset_lsn = 0
        self._batch_bytes = 0
        """Of the last batch that was read, with the entries before it: the next one is taken to be like it."""

    def read(self, stop: int, *, bytes_max: int = READ_CHUNK_BYTES) -> list[Batch]:
        """About `bytes_max` of batches, from the one that holds the cursor's LSN on, and moves behind them.

        `stop` must not exceed the reader's length, and the cursor must be before it. The first batch may
        start before the cursor, the last may end behind `stop`.
        """
        reader = self._reader
        reader.check_not_trimmed(self.lsn)
        # What is kept in memory has no place entries.
        batches = [] if self._with_places else reader.cache.get(self.lsn, bytes_max, stop)
        if batches:
            self._segment = None
        else:
            batches = self._read_cold(stop, bytes_max)
        while batches[-1].base_lsn >= stop:
            batches.pop()
        self.lsn = batches[-1].end_lsn
        return batches

    def is_at(self, reader: LaneReader, lsn: int) -> bool:
        """Whether it is here, in this lane."""
        return self._reader is reader and self.lsn == lsn

    def is_resident(self, bytes_max: int) -> bool:
        """Whether so much can be read from where the last read ended without waiting for a disk, as it seems."""
        segment = self._segment
        if segment is None or self._offset_lsn != self.lsn or self.lsn >= self._segment_end:
            return False
        return segment.file.is_resident(segment.start + self._offset, max(bytes_max, self._batch_bytes))

    def _read_cold(self, stop: int, bytes_max: int) -> list[Batch]:
        tries = 2
        while True:
            try:
                return self._walk(stop, bytes_max, is_first=tries == 2)
            except Corrupt:
                tries -= 1
                self._segment = None
                self._reader.look_again()
                self._reader.check_not_trimmed(self.lsn)
                if not tries:
                    raise

    def _walk(self, stop: int, bytes_max: int, *, is_first: bool) -> list[Batch]:
        """Batches up to `stop`, the segment's end, `bytes_max` or damage, whichever comes first.

        The first try passes over what comes before the cursor unseen, the second one checks it as well.
        """
        if self._segment is None or self._offset_lsn != self.lsn or self.lsn >= self._segment_end:
            segment, self._segment_end = self._reader.segment_of(self.lsn)
            if segment is not self._segment or self._offset_lsn != self.lsn:
                find = segment.nearest_offset_of if is_first else segment.offset_of
                self._offset_lsn, self._offset = find(self.lsn)
                if self._with_places and segment.has_place_before(self._offset, self._offset_lsn):
                    self._offset -= HEAD_BYTES
            self._segment = segment
        end = min(stop, self._segment_end)
        batches: list[Batch] = []
        place: Batch | None = None
        # As many as fit, and the mark before one of them: of what is cut off at the end nothing can be used.
        whole_bytes = max(1, bytes_max // self._batch_bytes) * self._batch_bytes if self._batch_bytes else bytes_max
        chunk_bytes, before = whole_bytes + HEAD_BYTES, self._offset
        try:
            for offset, batch in self._segment.walk(self._offset, self._offset_lsn, chunk_bytes=chunk_bytes):
                self._offset, self._offset_lsn = offset + batch.total_bytes, batch.end_lsn
                if batch.count:
                    self._reader.learn(self._segment, offset, batch)
                if batch.kind == PLACE and self._with_places:
                    place = batch
                elif batch.count and batch.end_lsn > self.lsn:
                    batches += [batch] if place is None or place.base_lsn != batch.base_lsn else [place, batch]
                    self._batch_bytes, before = self._offset - before, self._offset
                    bytes_max -= batch.total_bytes
                    # What would lie across the end of the chunk is better read with the next.
                    if bytes_max < batch.total_bytes or batch.end_lsn >= end:
                        break
        except Corrupt:
            if not batches:  # else what precedes the damage is read, and the next read meets it
                raise
        return batches
