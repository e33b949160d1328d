"""All lanes of a shard that a replica keeps, its own and its peers', open and closed, each with its runs.

```
<directory>/<shard>-<replica>-<incarnation>/   a lane: its segments, `synced` and `runs`
                                   .../dropped  the lane is being removed: what is left of it counts for nothing
                                   .../damaged  the lane is damaged, and is quarantined at the next opening
            pack-…                              small lanes that are settled, many in a file (`packs`)
```

A directory that a crash left without any file that an open lane has was being made, and holds nothing. A lane
that is damaged is quarantined (`quarantine`), and not one of the store's: whoever opened it starts without it.

Files are opened when they are needed. Of the lanes that nobody writes at most `lanes_open_max` stay open.

`create`, `truncate`, `drop`, `forget` and `pack` may run in other threads than the one that looks up. What belongs
to one lane is for one thread at a time, as `Lane` and `Runs` say, until it is settled.
"""

import errno
from collections import OrderedDict
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from threading import Lock

from ithaca.engines.scalog.storage import packing, quarantine
from ithaca.engines.scalog.storage.held_lane import HeldLane, HeldLength, PackedHeld, StoredLane
from ithaca.engines.scalog.storage.limits import PACK_BYTES_MAX, PACK_LANES_MAX
from ithaca.engines.scalog.storage.pack import PackedAt, PackWriter
from ithaca.engines.scalog.storage.packs import Packs
from ithaca.engines.scalog.storage.quarantine import lane_of
from ithaca.engines.scalog.storage.runs import Runs
from ithaca.engines.scalog.storage.runs_format import Run
from ithaca.engines.scalog.storage.settled import SettledLanes
from ithaca.model.cut import LaneRun
from ithaca.model.errors import Corrupt, Fenced, StorageError, StorageFull
from ithaca.model.limits import LANES_OPEN_MAX, SEGMENT_BYTES_MAX, TAIL_CACHES_BYTES_MAX
from ithaca.model.positions import FIRST, LaneId
from ithaca.model.records import Durability
from ithaca.storage import lane as lanes
from ithaca.storage import truncation
from ithaca.storage.cache import CacheBudget
from ithaca.storage.disk import Disk
from ithaca.storage.lane import Lane
from ithaca.storage.recovery import NEW_SUFFIX
from ithaca.storage.state import TrimmedTo, control_entry

DROPPED = "dropped"
"""The name of the file that says that a lane is being removed."""


class LaneStore:
    """The lanes in one directory."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        *,
        durability: Durability = "fsync",
        segment_bytes: int = SEGMENT_BYTES_MAX,
        lanes_open_max: int | None = None,
        is_dense: bool = True,
    ) -> None:
        """Look at every lane that is in no pack, and quarantine those that are damaged.

        `is_dense`: whether every position below the tail holds, or held, a record, in this shard or another.
        """
        self._disk = disk
        self._is_dense = is_dense
        self.directory = directory
        self._durability: Durability = durability
        self._segment_bytes = segment_bytes
        self.lanes_open_max = LANES_OPEN_MAX if lanes_open_max is None else lanes_open_max
        self._changing = Lock()
        self._caches = CacheBudget(TAIL_CACHES_BYTES_MAX)
        self.lanes: dict[LaneId, StoredLane] = {}
        """Those with directories of their own."""
        self.ordered: dict[LaneId, StoredLane] = {}
        """Of them, those that have runs."""
        self.version = 0
        """Rises when `ordered` or `settled` changes, so that whoever has gone through them knows."""
        self._open: OrderedDict[LaneId, StoredLane] = OrderedDict()
        self._needed_open = 0
        """Up to so many open lanes it is of no use to look for one that can be closed."""
        self._packed_open: OrderedDict[LaneId, PackedHeld] = OrderedDict()
        self.first = FIRST
        """Positions below were trimmed."""
        self.damaged: dict[LaneId, str] = {}
        """What was found damaged since, and is quarantined at the next opening: what was said of it."""
        self._packs = Packs(disk, directory)
        self.quarantined = quarantine.quarantined_before(disk, directory) + self._packs.quarantined
        """The lanes that are not here because they were damaged."""
        self._found: dict[LaneId, HeldLength] = {}
        found = sorted(filter(None, map(lane_of, disk.list(directory))))
        packed = [lane for lane in found if lane in self.settled]  # a crash came before their directories were removed
        self._packs.confirm(packed)
        for lane in packed:
            self._remove(lane)
        for lane in found:
            if lane not in self.settled and self._is_complete(lane):
                self._look_at(lane)

    @property
    def settled(self) -> SettledLanes:
        """The lanes in packs."""
        return self._packs.settled

    def held(self) -> dict[LaneId, HeldLength]:
        """How much of each lane there is that is in no pack."""
        found = {lane: length for lane, length in self._found.items() if not self.lanes[lane].is_open}
        return {lane: found.get(lane) or held.length() for lane, held in sorted(self.lanes.items())}

    def has_lane_of(self, replica: int) -> bool:
        """Whether there is a lane that this replica wrote."""
        return any(lane.replica == replica for lane in list(self.lanes)) or self.settled.has_lane_of(replica)

    def begin_writing(self, lane: LaneId) -> Lane:
        """The lane, for its writer: its files stay open until the writing is over (`StoredLane.is_written`)."""
        held = self.lanes[lane]
        assert not held.is_settled
        held.is_written = True
        self._found.pop(lane, None)
        try:
            return held.lane
        except BaseException:
            held.is_written = False
            raise

    def get(self, lane: LaneId) -> HeldLane | None:
        """The lane, wherever it is; None if it is not here. `Corrupt` if it is in a pack, and damaged."""
        stored = self.lanes.get(lane)
        if stored is not None:
            return stored
        packed = self._packed_open.get(lane)
        if packed is not None:
            return packed
        with _naming(lane):
            opened = self._packs.lane(lane)
        if opened is None:
            return self.lanes.get(lane)
        packed = PackedHeld(lane, opened, opened.runs)
        with self._changing:
            self._packed_open[lane] = packed
            while len(self._packed_open) > self.lanes_open_max:
                self._packed_open.popitem(last=False)
        return packed

    def create(self, lane: LaneId) -> StoredLane:
        """Make an empty lane, durably, for somebody who writes it."""
        assert lane not in self.lanes
        with _naming(lane):
            lanes.create(self._disk, self._path(lane), lane)
            self._disk.sync_directory(self.directory)
            held = self._stored(lane)
            held.made()
            held.is_written = True
            held.lane  # noqa: B018  # opens it here, and not where it is first used
        self._put(held)
        return held

    def truncate(self, lane: LaneId, length: int) -> StoredLane:
        """Cut a lane and its runs, durably; none of its records may be being written.

        Its runs stay the same object, and if they end before the cut, they may be appended to all the while.
        """
        held = self.lanes[lane]
        assert not held.is_settled
        self._found.pop(lane, None)
        with _naming(lane), held.in_use():
            held.lane.close()
            held.runs.truncate(length)
            truncation.truncate(self._disk, self._path(lane), lane, length)
            # What said that records were trimmed may have stood behind the cut; their segments are gone all the same.
            trimmed_lsn = min(length, max(held.lane.trim_lsn, held.lane.first_lsns[0]))
            held.put(self._open_lane(lane, False))
            trim(held, trimmed_lsn)
        with self._changing:
            self.version += 1
        return held

    def drop(self, lane: LaneId) -> None:
        """Remove a lane that is in no pack; a crash in the middle does not bring it back."""
        held = self.lanes[lane]
        self._take(lane)
        self.damaged.pop(lane, None)
        with _naming(lane):
            if held.opened_lane is not None:
                held.opened_lane.release()
            self._disk.open(f"{self._path(lane)}/{DROPPED}", create=True)
            self._disk.sync_directory(self._path(lane))
            self._remove(lane)

    def forget(self, lanes: Collection[LaneId]) -> None:
        """Remove lanes that are in packs. A restart may bring some of them back."""
        self._packs.forget(lanes)
        with self._changing:
            for lane in lanes:
                self._packed_open.pop(lane, None)
                self.damaged.pop(lane, None)
            self.version += 1

    def pack(self) -> Corrupt | None:
        """Put small settled lanes into a pack, durably, and remove their directories; returns what hindered that."""
        chosen: list[StoredLane] = []
        size = 0
        for lane in sorted(held.lane_id for held in self.packable()):
            held = self.lanes[lane]
            try:
                with _naming(lane):
                    if not packing.fits(held):
                        held.is_large = True
                        continue
                    size += packing.bytes_of(held.lane)
            except Corrupt as error:
                return self._hindered(lane, error)
            if len(chosen) == PACK_LANES_MAX or size > PACK_BYTES_MAX:
                break
            chosen.append(held)
        if not chosen:
            return None
        try:
            with _translating("a pack of lanes"):
                self._packs.add((held.lane_id, partial(_write_lane, held=held)) for held in chosen)
        except _LaneDamaged as damaged:
            return self._hindered(damaged.lane, damaged.error)
        for held in chosen:
            self._take(held.lane_id)
            held.moved(partial(self.get, held.lane_id))
            with suppress(OSError):  # what stays behind goes at the next opening
                self._remove(held.lane_id)
        return None

    def tidy(self) -> None:
        """Merge packs, as far as that is worth it."""
        with _translating("a pack of lanes"):
            while self._packs.tidy():
                self.version += 1

    def packable(self) -> list[StoredLane]:
        """The settled lanes that are to go into a pack."""
        held = list(self.lanes.values())
        return [each for each in held if each.is_settled and not each.is_large and each.lane_id not in self.damaged]

    def mark_damaged(self, error: Corrupt) -> LaneId | None:
        """Quarantine the lane whose file an error names at the next opening; None if that is known, or no lane."""
        within = error.file.removeprefix(f"{self.directory}/")
        if within == error.file:
            return None
        packed = self._packs.lane_at(error.file, error.offset)
        lane = packed or lane_of(within.partition("/")[0])
        if lane is None or lane in self.damaged or (packed is None and lane not in self.lanes):
            return None
        self.damaged[lane] = str(error)
        with _naming(lane):
            if packed is not None:
                self._packs.mark_damaged(lane, str(error))
            else:
                quarantine.mark(self._disk, self._path(lane), str(error))
        return lane

    def note(self, runs: tuple[LaneRun, ...], time_us: int) -> None:
        """Take in the next runs of some lanes, which were ordered at this time; durable after a sync."""
        for run in runs:
            held = self.lanes[run.lane]
            self._found.pop(run.lane, None)
            held.runs.append(Run(run.lsn, run.position, run.count, time_us, run.follows))
            if run.lane not in self.ordered:
                self.ordered[run.lane] = held
                self.version += 1

    def close(self) -> None:
        """Leave lanes that need no recovery, and runs that are durable."""
        for held in self.lanes.values():
            with _naming(held.lane_id):
                if held.opened_lane is not None:
                    held.opened_lane.close()
                if held.opened_runs is not None:
                    held.opened_runs.sync()

    def _is_complete(self, lane: LaneId) -> bool:
        """Whether there is a lane; what is left of one that was dropped, or was not made to the end, goes."""
        names = self._disk.list(self._path(lane))
        if DROPPED not in names and any(not name.endswith(NEW_SUFFIX) for name in names):
            return True
        with _naming(lane):
            self._remove(lane)
        return False

    def _look_at(self, lane: LaneId) -> None:
        held = self._stored(lane)
        self._put(held)
        try:
            with _naming(lane):
                quarantine.check_unmarked(self._disk, self._path(lane))
                self._found[lane] = held.length()  # which reads the newest runs
                if held.runs.end_lsn:
                    self.ordered[lane] = held
        except Corrupt as error:
            self._take(lane)
            with _naming(lane):
                self.quarantined.append(quarantine.quarantine(self._disk, self.directory, lane, error))

    def _hindered(self, lane: LaneId, error: Corrupt) -> Corrupt:
        """What does not check out stays where it is, and is quarantined at the next opening."""
        found = self.mark_damaged(error)
        if found is None:
            self.damaged[lane] = str(error)
        return error

    def _remove(self, lane: LaneId) -> None:
        path = self._path(lane)
        names = self._disk.list(path)
        for name in names:
            if name != DROPPED:
                self._disk.remove(f"{path}/{name}")
        if DROPPED in names:
            self._disk.sync_directory(path)
            self._disk.remove(f"{path}/{DROPPED}")
        self._disk.remove_directory(path)

    def _stored(self, lane: LaneId) -> StoredLane:
        return StoredLane(lane, open_lane=partial(self._open_lane, lane), open_runs=partial(self._open_runs, lane))

    def _open_lane(self, lane: LaneId, is_sound: bool) -> Lane:
        self._note_open(lane)
        opened = Lane(
            self._disk,
            self._path(lane),
            lane,
            durability=self._durability,
            segment_bytes=self._segment_bytes,
            is_sound=is_sound,
        )
        opened.cache.budget = self._caches
        return opened

    def _open_runs(self, lane: LaneId, is_new: bool, is_sound: bool) -> Runs:
        self._note_open(lane)
        return Runs(self._disk, self._path(lane), is_new=is_new, is_sound=is_sound, is_dense=self._is_dense)

    def _note_open(self, lane: LaneId) -> None:
        """A lane is about to be opened: others that nobody needs are closed, those first that were opened first."""
        with self._changing:
            held = self.lanes.get(lane)
            if held is not None:
                self._open[lane] = held
                self._open.move_to_end(lane)
            if len(self._open) > max(self.lanes_open_max, self._needed_open):
                self._close_excess(lane)

    def close_unneeded(self) -> None:
        """Close files that nobody needs, beyond those that may stay open: some were needed until now."""
        with self._changing:
            self._open |= {lane: held for lane, held in self.lanes.items() if held.is_open and lane not in self._open}
            self._close_excess(None)

    def _close_excess(self, spared: LaneId | None) -> None:
        excess = len(self._open) - self.lanes_open_max
        for lane in list(self._open):
            if excess <= 0:
                break
            if lane != spared and self._open[lane].close_files():
                del self._open[lane]
                excess -= 1
        # While so many are needed, looking at all of them for each that is opened would cost more than it gives.
        self._needed_open = len(self._open) * 5 // 4 if excess > 0 else 0

    def _put(self, held: StoredLane) -> None:
        with self._changing:
            self.lanes[held.lane_id] = held
            if held.is_open:
                self._open[held.lane_id] = held

    def _take(self, lane: LaneId) -> None:
        with self._changing:
            self.lanes.pop(lane, None)
            self._open.pop(lane, None)
            self._found.pop(lane, None)
            if self.ordered.pop(lane, None) is not None:
                self.version += 1

    def _path(self, lane: LaneId) -> str:
        return f"{self.directory}/{lane}"


class _LaneDamaged(Exception):
    """A lane does not check out while it is put into a pack."""

    def __init__(self, lane: LaneId, error: Corrupt) -> None:
        super().__init__(str(error))
        self.lane = lane
        self.error = error


def _write_lane(writer: PackWriter, held: StoredLane) -> PackedAt:
    try:
        with _naming(held.lane_id):
            return packing.write_lane(writer, held)
    except Corrupt as error:
        raise _LaneDamaged(held.lane_id, error) from error


def trim(held: StoredLane, before_lsn: int) -> None:
    """Let go of a lane's records below an LSN, durably; nothing of it may be being written."""
    with held.in_use():
        if before_lsn > held.lane.trim_lsn:
            held.lane.commit(held.lane.prepare([control_entry(TrimmedTo(before_lsn))]))
            held.lane.drop_trimmed()


@contextmanager
def _naming(lane: LaneId) -> Iterator[None]:
    """Say of a failure which lane it is about."""
    try:
        with _translating(f"lane {lane}"):
            yield
    except Corrupt as error:
        raise error.in_words(f"lane {lane} is damaged: {error}") from error


@contextmanager
def _translating(what: str) -> Iterator[None]:
    """Say of a failure of the disk what it is about."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StorageFull(f"no space is left for {what}: free some, and it is tried again") from error
        kind = Fenced if error.errno == errno.EIO else StorageError  # it may have been a sync that failed
        raise kind(f"{what}: {error.strerror or error} ({error.filename})") from error
