"""All lanes of a shard that a replica keeps, its own and its peers', open and closed, each with its runs.

```
<directory>/<shard>-<replica>-<incarnation>/   a lane: its segments, `synced` and `runs`
                                   .../dropped  the lane is being removed: what is left of it counts for nothing
```

A directory that a crash left without any file that an open lane has was being made, and holds nothing.

`create`, `truncate` and `drop` may run in other threads than the one that looks at `lanes`, which is replaced
as a whole. What belongs to one lane is for one thread at a time, as `Lane` and `Runs` say.
"""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import NamedTuple

from ithaca.model.cut import LaneRun
from ithaca.model.errors import Corrupt, StorageError, StorageFull
from ithaca.model.limits import SEGMENT_BYTES_MAX
from ithaca.model.positions import FIRST, LaneId
from ithaca.model.records import Durability
from ithaca.storage import lane as lanes
from ithaca.storage import truncation
from ithaca.storage.disk import Disk
from ithaca.storage.lane import Lane
from ithaca.storage.recovery import NEW_SUFFIX
from ithaca.storage.runs import Runs
from ithaca.storage.runs_file import Run
from ithaca.storage.state import TrimmedTo, control_entry

_DROPPED = "dropped"


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
        """Open every lane there is; `Corrupt` names the lane that is damaged."""
        self._disk = disk
        self._directory = directory
        self._durability: Durability = durability
        self._segment_bytes = segment_bytes
        self._changing = Lock()
        self.lanes: dict[LaneId, HeldLane] = {}
        """In the order of the lanes."""
        self.version = 0
        """Rises when `lanes` changes, so that whoever has gone through it knows."""
        self.first = FIRST
        """Positions below were trimmed."""
        for lane in sorted(filter(None, map(_lane_of, disk.list(directory)))):
            with _naming(lane):
                if self._is_whole(lane):
                    self._hold(lane)

    def held(self) -> dict[LaneId, HeldLength]:
        """How much of each lane there is."""
        return {lane_id: _length_of(held) for lane_id, held in self.lanes.items()}

    def create(self, lane: LaneId) -> HeldLane:
        """Make an empty lane, durably."""
        assert lane not in self.lanes
        with _naming(lane):
            lanes.create(self._disk, self._path(lane), lane)
            self._disk.sync_directory(self._directory)
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
            return self._hold(lane, held.runs)

    def drop(self, lane: LaneId) -> None:
        """Remove a lane; a crash in the middle does not bring it back."""
        held = self.lanes[lane]
        self._put(lane, None)
        with _naming(lane):
            held.lane.release()
            self._disk.open(f"{self._path(lane)}/{_DROPPED}", create=True)
            self._disk.sync_directory(self._path(lane))
            self._remove(lane)

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
        if _DROPPED not in names and any(not name.endswith(NEW_SUFFIX) for name in names):
            return True
        self._remove(lane)
        return False

    def _remove(self, lane: LaneId) -> None:
        path = self._path(lane)
        names = self._disk.list(path)
        for name in names:
            if name != _DROPPED:
                self._disk.remove(f"{path}/{name}")
        self._disk.sync_directory(path)
        if _DROPPED in names:
            self._disk.remove(f"{path}/{_DROPPED}")
        self._disk.remove_directory(path)

    def _hold(self, lane: LaneId, runs: Runs | None = None) -> HeldLane:
        path = self._path(lane)
        opened = Lane(self._disk, path, lane, durability=self._durability, segment_bytes=self._segment_bytes)
        held = HeldLane(lane, opened, runs or Runs(self._disk, path))
        self._put(lane, held)
        return held

    def _put(self, lane: LaneId, held: HeldLane | None) -> None:
        with self._changing:
            others = {known: other for known, other in self.lanes.items() if known != lane}
            self.lanes = dict(sorted({**others, lane: held}.items())) if held is not None else others
            self.version += 1

    def _path(self, lane: LaneId) -> str:
        return f"{self._directory}/{lane}"


def trim(held: HeldLane, before_lsn: int) -> None:
    """Let go of a lane's records below an LSN, durably; nothing of it may be being written."""
    if before_lsn > held.lane.trim_lsn:
        held.lane.commit(held.lane.prepare([control_entry(TrimmedTo(before_lsn))]))
        held.lane.drop_trimmed()


def _lane_of(name: str) -> LaneId | None:
    parts = name.split("-")
    if len(parts) != 3 or not all(part.isdecimal() for part in parts):
        return None
    lane = LaneId(*map(int, parts))
    return lane if str(lane) == name else None


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
        named = Corrupt(f"lane {lane} is damaged: {error}")
        named.file, named.offset = error.file, error.offset
        raise named from error
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StorageFull(f"no space is left for lane {lane}: free some, and it is tried again") from error
        raise StorageError(f"lane {lane}: {error.strerror or error} ({error.filename})") from error
