"""A lane that another process may be writing, followed through what the writer says it has synced."""

from threading import Lock

from ithaca.embedded.directory import LANE, lane_directory
from ithaca.model.errors import Corrupt, Unavailable
from ithaca.storage.directory_lock import is_locked
from ithaca.storage.disk import OsDisk
from ithaca.storage.index import NEVER_US
from ithaca.storage.reader import LaneReader
from ithaca.storage.recovery import inspect
from ithaca.storage.segment import Segment, first_lsns
from ithaca.storage.state import LaneState
from ithaca.storage.synced import Progress, ProgressFile
from ithaca.wire.batch import Batch

_RACES_MAX = 100
"""Reads of the progress file that may all collide with the writer before it counts as unreadable."""


class Follower(LaneReader):
    """Reads along; `refresh` learns of what came since."""

    def __init__(self, disk: OsDisk, path: str) -> None:
        super().__init__(disk, lane_directory(path), LANE)
        self._path = path
        self._progress_file: ProgressFile | None = ProgressFile(disk, self.directory, writable=False)
        self._segment = -1
        self._last_words: Progress | None = None
        self._learning = Lock()
        if not is_locked(disk, path):
            self._inspect(path)
        self.refresh()

    def _inspect(self, path: str) -> None:
        """Without a writer its last words count for what is there: a power loss may have taken either back."""
        last_words = self._load()
        try:
            found = inspect(self.disk, self.directory, self.lane, last_words, writable=False)
        except Corrupt:
            if is_locked(OsDisk(), path):  # it was a writer at work that we saw
                return
            raise
        self.first_lsns, self.trim_lsn = found.first_lsns, found.state.trim_lsn
        said = last_words.length if last_words is not None else 0
        self.length = max(found.bound_lsn, min(said, found.state.length))
        self._last_words = last_words

    def refresh(self) -> None:
        progress = self._load()
        if progress is None or progress == self._last_words:
            return
        if progress.segment != self._segment or progress.trim != self.trim_lsn:
            self.first_lsns = first_lsns(self.disk.list(self.directory))
            for first_lsn in list(self._segments):
                if first_lsn not in self.first_lsns:
                    self.forget_segment(first_lsn)
            self._segment = progress.segment
        self.trim_lsn = max(self.trim_lsn, progress.trim)
        self.length = max(self.length, progress.length)

    def state_now(self) -> LaneState:
        """What the lane adds up to by now: read from its newest segment, beside the writer."""
        for _ in range(_RACES_MAX):
            try:
                return inspect(self.disk, self.directory, self.lane, self._load(), writable=False).state
            except Corrupt:
                if not is_locked(OsDisk(), self._path):
                    raise
        raise Unavailable(f"{self._path} changes faster than it can be read here: ask again")

    def learn(self, segment: Segment, offset: int, batch: Batch) -> None:
        """The writer stores the index a checkpoint at a time; what a cursor has passed need not wait for that."""
        index = segment.index
        if offset >= index.next_offset:
            with self._learning:
                index.note(batch.base_lsn, offset, NEVER_US)  # the order's time is not known here

    def release(self) -> None:
        super().release()
        self._progress_file = None

    def _load(self) -> Progress | None:
        file = self._progress_file
        if file is None:  # another thread has closed the log
            return None
        for _ in range(_RACES_MAX):
            progress = file.load()
            if progress is not None:
                return progress
        return None
