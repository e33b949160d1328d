"""All lanes of a shard that a replica keeps, its own and its peers', open and closed, each with its runs.

```
<directory>/<shard>-<replica>-<incarnation>/   a lane: its segments, `synced` and `runs`
                                   .../dropped  the lane is being removed: what is left of it counts for nothing
                                   .../damaged  the lane is damaged, and is set aside at the next opening
```

A directory that a crash left without any file that an open lane has was being made, and holds nothing. A lane
that is damaged is set aside (`set_aside`), and not one of the `lanes`: whoever opened the store starts without it.

`create`, `truncate` and `drop` may run in other threads than the one that looks at `lanes`, which is replaced
as a whole. What belongs to one lane is for one thread at a time, as `Lane` and `Runs` say.
"""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import NamedTuple

from ithaca.model.cut import LaneRun
from ithaca.model.errors import Corrupt, Fenced, StorageError, StorageFull
from ithaca.model.limits import SEGMENT_BYTES_MAX, TAIL_CACHES_BYTES_MAX
from ithaca.model.positions import FIRST, LaneId
from ithaca.model.records import Durability
from ithaca.storage import lane as lanes
from ithaca.storage import set_aside, truncation
from ithaca.storage.cache import CacheBudget
from ithaca.storage.disk import Disk
from ithaca.storage.lane import Lane
from ithaca.storage.recovery import NEW_SUFFIX
from ithaca.storage.runs import Runs
from ithaca.storage.runs_file import Run
from ithaca.storage.set_aside import lane_of
from ithaca.storage.state import TrimmedTo, control_entry

DROPPED = "dropped"
"""The name of the file that says that a lane is being removed."""


class HeldLane(NamedTuple):
    """A lane and its positions."""

    lane_id: LaneId
    lane: Lane
    runs: Runs


class HeldLength(NamedTuple):
    """How much of a lane was found on the disk; the fields of `replica.events.Held`."""

    length: int
    runs_end: int
    missing: tuple[LaneRun, ...]
    end_position: int
    has_holes: bool = False


class LaneStore:
    """The lanes in one directory."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        *,
        durability: Durability = "fsync",
        segment_bytes: int = SEGMENT_BYTES_MAX,
    ) -> None:
        """Open every lane there is, and set aside those that are damaged."""
        self._disk = disk
        self.directory = directory
        self._durability: Durability = durability
        self._segment_bytes = segment_bytes
        self._changing = Lock()
        self._caches = CacheBudget(TAIL_CACHES_BYTES_MAX)
        self.lanes: dict[LaneId, HeldLane] = {}
        """In the order of the lanes."""
        self.version = 0
        """Rises when `lanes` changes, so that whoever has gone through it knows."""
        self.first = FIRST
        """Positions below were trimmed."""
        self.damaged: dict[LaneId, str] = {}
        """What was found damaged since, and is set aside at the next opening: what was said of it."""
        self.set_aside = set_aside.set_aside_before(disk, directory)
        """The lanes that are not here because they were damaged."""
        for lane in sorted(filter(None, map(lane_of, disk.list(directory)))):
            if self._is_whole(lane):
                self._open(lane)

    def held(self) -> dict[LaneId, HeldLength]:
        """How much of each lane there is."""
        return {lane_id: _length_of(held) for lane_id, held in self.lanes.items()}

    def create(self, lane: LaneId) -> HeldLane:
        """Make an empty lane, durably."""
        assert lane not in self.lanes
        with _naming(lane):
            lanes.create(self._disk, self._path(lane), lane)
            self._disk.sync_directory(self.directory)
            return self._hold(lane)

    def truncate(self, lane: LaneId, length: int) -> HeldLane:
        """Cut a lane and its runs, durably; none of its records may be being written.

        Its runs stay the same object, and if they end before the cut, they may be appended to all the while.
        """
        held = self.lanes[lane]
        with _naming(lane):
            held.lane.close()
            held.runs.truncate(length)
            truncation.truncate(self._disk, self._path(lane), lane, length)
            # What said that records were trimmed may have stood behind the cut; their segments are gone all the same.
            trimmed_lsn = min(length, max(held.lane.trim_lsn, held.lane.first_lsns[0]))
            held = self._hold(lane, held.runs)
            trim(held, trimmed_lsn)
            return held

    def drop(self, lane: LaneId) -> None:
        """Remove a lane; a crash in the middle does not bring it back."""
        held = self.lanes[lane]
        self._put(lane, None)
        self.damaged.pop(lane, None)
        with _naming(lane):
            held.lane.release()
            self._disk.open(f"{self._path(lane)}/{DROPPED}", create=True)
            self._disk.sync_directory(self._path(lane))
            self._remove(lane)

    def mark_damaged(self, error: Corrupt) -> LaneId | None:
        """Have the lane whose file an error names set aside at the next opening; None if that is known, or no lane."""
        within = error.file.removeprefix(f"{self.directory}/")
        lane = lane_of(within.partition("/")[0]) if within != error.file else None
        if lane is None or lane not in self.lanes or lane in self.damaged:
            return None
        self.damaged[lane] = str(error)
        with _naming(lane):
            set_aside.mark(self._disk, self._path(lane), str(error))
        return lane

    def note(self, runs: tuple[LaneRun, ...], time_us: int) -> None:
        """Take in the next runs of some lanes, which were ordered at this time; durable after a sync."""
        for run in runs:
            self.lanes[run.lane].runs.append(Run(run.lsn, run.position, run.count, time_us))

    def close(self) -> None:
        """Leave lanes that need no recovery, and runs that are durable."""
        for held in self.lanes.values():
            with _naming(held.lane_id):
                held.lane.close()
                held.runs.sync()

    def _is_whole(self, lane: LaneId) -> bool:
        """Whether there is a lane; what is left of one that was dropped, or was not made to the end, goes."""
        names = self._disk.list(self._path(lane))
        if DROPPED not in names and any(not name.endswith(NEW_SUFFIX) for name in names):
            return True
        with _naming(lane):
            self._remove(lane)
        return False

    def _open(self, lane: LaneId) -> None:
        try:
            with _naming(lane):
                set_aside.check_unmarked(self._disk, self._path(lane))
                _length_of(self._hold(lane))  # whoever opens the store asks for it, and it reads the newest runs
        except Corrupt as error:
            self._put(lane, None)
            with _naming(lane):
                self.set_aside.append(set_aside.set_aside(self._disk, self.directory, lane, error))

    def _remove(self, lane: LaneId) -> None:
        path = self._path(lane)
        names = self._disk.list(path)
        for name in names:
            if name != DROPPED:
                self._disk.remove(f"{path}/{name}")
        self._disk.sync_directory(path)
        if DROPPED in names:
            self._disk.remove(f"{path}/{DROPPED}")
        self._disk.remove_directory(path)

    def _hold(self, lane: LaneId, runs: Runs | None = None) -> HeldLane:
        path = self._path(lane)
        opened = Lane(self._disk, path, lane, durability=self._durability, segment_bytes=self._segment_bytes)
        opened.cache.budget = self._caches
        held = HeldLane(lane, opened, runs or Runs(self._disk, path))
        self._put(lane, held)
        return held

    def _put(self, lane: LaneId, held: HeldLane | None) -> None:
        with self._changing:
            others = {known: other for known, other in self.lanes.items() if known != lane}
            self.lanes = dict(sorted({**others, lane: held}.items())) if held is not None else others
            self.version += 1

    def _path(self, lane: LaneId) -> str:
        return f"{self.directory}/{lane}"


def trim(held: HeldLane, before_lsn: int) -> None:
    """Let go of a lane's records below an LSN, durably; nothing of it may be being written."""
    if before_lsn > held.lane.trim_lsn:
        held.lane.commit(held.lane.prepare([control_entry(TrimmedTo(before_lsn))]))
        held.lane.drop_trimmed()


def _length_of(held: HeldLane) -> HeldLength:
    length, runs = held.lane.length, held.runs
    missing = tuple(LaneRun(held.lane_id, run.lsn, run.position, run.count) for run in runs.runs(length, runs.end_lsn))
    return HeldLength(length, runs.end_lsn, missing, runs.end_position, held.lane.state.has_holes)


@contextmanager
def _naming(lane: LaneId) -> Iterator[None]:
    """Say of a failure which lane it is about."""
    try:
        yield
    except Corrupt as error:
        raise error.in_words(f"lane {lane} is damaged: {error}") from error
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StorageFull(f"no space is left for lane {lane}: free some, and it is tried again") from error
        kind = Fenced if error.errno == errno.EIO else StorageError  # it may have been a sync that failed
        raise kind(f"lane {lane}: {error.strerror or error} ({error.filename})") from error
