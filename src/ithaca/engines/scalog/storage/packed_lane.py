"""Reading a lane out of a pack, as any lane is read."""

from collections import OrderedDict
from collections.abc import Iterator
from threading import Lock

import numpy as np

from ithaca.engines.scalog.storage.pack import INDEX_BYTES, PackedAt
from ithaca.engines.scalog.storage.runs import Runs
from ithaca.engines.scalog.storage.runs_format import Columns, Run, parse_runs
from ithaca.model.errors import Corrupt
from ithaca.model.limits import READ_CHUNK_BYTES
from ithaca.storage.disk import Disk, File
from ithaca.storage.index import Index
from ithaca.storage.reader import LaneReader
from ithaca.storage.segment import Segment
from ithaca.storage.state import LaneState
from ithaca.wire.batch import Batch, crc32c


class _PackedSegment(Segment):
    """The entries of a lane, somewhere in a pack."""

    def __init__(self, path: str, file: File, at: PackedAt, index: Index, seed: int) -> None:
        self.first_lsn = at.first_lsn
        self.path = self.index_path = path
        self.file = file
        self.index = index
        self.seed = seed
        self.start = at.offset
        self._end = at.entries_bytes + at.snapshot_bytes

    def walk(self, offset: int, lsn: int, *, chunk_bytes: int = READ_CHUNK_BYTES) -> Iterator[tuple[int, Batch]]:
        """As of any segment; what is behind the lane is of others, and is not read."""
        return super().walk(offset, lsn, chunk_bytes=min(chunk_bytes, max(0, self._end - offset)))


class PackedLane(LaneReader):
    """A settled lane in a pack: nothing about it changes any more.

    Its tables are read when they are needed. Of most lanes the pack's directory says already what positions they have,
    so that a merge of many costs no reads.
    """

    def __init__(self, disk: Disk, path: str, file: File, at: PackedAt) -> None:
        super().__init__(disk, path, at.lane)
        self._file = file
        self._at = at
        self._state: LaneState | None = None
        self.first_lsns = [at.first_lsn]
        self.length = at.length
        self.trim_lsn = at.trim_lsn
        self._runs: FixedRuns | None = None
        self._segment: _PackedSegment | None = None

    @property
    def runs(self) -> "FixedRuns":
        """`Corrupt` if they do not check out."""
        if self._runs is None:
            at = self._at
            if at.runs_count == 1:
                count = at.end_position - at.start_position
                run = Run(at.length - count, at.start_position, count, at.start_us, at.follows)
                self._runs = FixedRuns([run], at.length)
            else:
                self._load()
        assert self._runs is not None
        return self._runs

    @property
    def state(self) -> LaneState:
        """What all of its entries add up to."""
        if self._state is None:
            at = self._at
            walk = self.segment(at.first_lsn).walk(at.entries_bytes, at.length, chunk_bytes=at.snapshot_bytes)
            self._state = LaneState.restored(next(walk)[1])
        return self._state

    def segment(self, first_lsn: int) -> Segment:
        """All of it. `Corrupt` if its tables do not check out."""
        return self._segment or self._load()

    def bytes_of(self, _: int) -> int:
        return self._at.entries_bytes

    def _load(self) -> "_PackedSegment":
        index, self._runs = self._tables()
        self._segment = _PackedSegment(self.directory, self._file, self._at, index, self.seed)
        return self._segment

    def _tables(self) -> tuple[Index, "FixedRuns"]:
        at = self._at
        index_bytes = at.index_count * INDEX_BYTES
        data = self._file.read(at.tables_at, index_bytes + at.runs_bytes)
        whole = len(data) == index_bytes + at.runs_bytes and crc32c(data) == at.tables_crc
        runs = parse_runs(data[index_bytes:], at.runs_width) if whole else None
        index = np.frombuffer(data, "<i8", 3 * at.index_count).reshape(-1, 3) if whole else None
        if runs is None or index is None or not self._agrees(index, runs):
            raise Corrupt(f"the tables of lane {at.lane} do not check out", file=self.directory, offset=at.tables_at)
        return Index.of(index.tolist()), FixedRuns([Run._make(run) for run in runs.T.tolist()], at.length)

    def _agrees(self, index: Columns, runs: Columns) -> bool:
        """Whether the tables can be those of this lane: what a checksum cannot say."""
        at = self._at
        lsns, offsets = index[:, 0], index[:, 1]
        in_lane = (lsns >= at.first_lsn) & (lsns < at.length) & (offsets >= 0) & (offsets < at.entries_bytes)
        in_order = bool((np.diff(lsns) > 0).all() and (np.diff(offsets) > 0).all())
        ends = not runs.size or int(runs[0, -1] + runs[2, -1]) == at.length
        return bool(in_lane.all()) and in_order and ends


class FixedRuns(Runs):
    """Runs to which nothing is added any more, all of them in memory."""

    def __init__(self, runs: list[Run], end_lsn: int) -> None:
        self._pages = self._dead_pages = self._heads_from = 0
        self._heads = np.empty((3, 0), np.int64)
        self._recent = runs
        self._recent_columns = None
        self._cache = OrderedDict()
        self._cache_lock = Lock()
        self._page_entries = 0
        self._pending = None
        self._synced, self._unsynced = True, 0
        self.end_lsn = end_lsn
