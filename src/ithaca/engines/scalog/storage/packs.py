"""The packs of a store: made of small settled lanes, merged when they are many, rewritten when much of them is trimmed.

```
<directory>/pack-<n, 12 digits>            a pack (`engines.scalog.storage.pack`)
            pack-<n>.new                   one that is being written: it counts for nothing
            pack-<n>.damaged               lanes of it that were found damaged: [lane, reason] each (`checked_file`)
            pack-<n>.damaged-1             a pack that was quarantined with lanes that are damaged, as it was found
```

A lane is in one place. Where a crash has left it in two, the pack of the highest number has it, and after that the
lane's own directory; what is left of it elsewhere goes at the next opening. A lane that was dropped may come back with
a restart, as long as its pack is not rewritten: whoever opens the store drops it once more.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from threading import Lock
from typing import NamedTuple

import msgspec
import numpy as np

from ithaca.engines.scalog.storage import pack
from ithaca.engines.scalog.storage.limits import PACK_BYTES_MAX, PACK_LANES_MAX, PACKS_MERGED, PACKS_OPEN_MAX
from ithaca.engines.scalog.storage.pack import Entries, PackedAt, PackWriter, packed_at
from ithaca.engines.scalog.storage.packed_lane import PackedLane
from ithaca.engines.scalog.storage.quarantine import Quarantined
from ithaca.engines.scalog.storage.settled import SettledLanes
from ithaca.model.cut import lane_key, lane_of
from ithaca.model.errors import Corrupt
from ithaca.model.positions import LaneId
from ithaca.storage import checked_file
from ithaca.storage.disk import Disk, File

_DAMAGED = ".damaged"
_REASON_CHARACTERS_MAX = 256
_Marks = list[tuple[int, str]]


class Packs:
    """All packs in a directory. `add`, `forget` and `tidy` are for one thread at a time; look-ups for any."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self._packs: dict[int, Entries] = {}
        self._marks: dict[int, _Marks] = {}
        self._sizes: dict[int, int] = {}
        """Of their files."""
        self._next = 1
        self._files: OrderedDict[int, File] = OrderedDict()
        self._files_lock = Lock()
        self.settled = SettledLanes()
        """What is in them; another object with each change."""
        self.quarantined: list[Quarantined] = []
        """What was found damaged when they were opened."""
        self._open()

    def lane(self, lane: LaneId) -> PackedLane | None:
        """Open a lane; None if it is in no pack. `Corrupt` if it is damaged."""
        tries = 3
        while True:
            found = self.settled.find(lane)
            if found is None:
                return None
            number, at = found
            try:
                return PackedLane(self._disk, self._path(number), self._file(number), at)
            except FileNotFoundError:  # the pack was merged with others meanwhile
                tries -= 1
                if not tries:
                    raise Corrupt("the pack is missing: it was removed from outside", file=self._path(number)) from None

    def add(self, lanes: Iterable[tuple[LaneId, Callable[[PackWriter], PackedAt]]]) -> None:
        """Make a pack of these lanes, in their order, each with what writes it; durably."""
        writer = PackWriter(self._disk, self._directory, self._next)
        try:
            for lane, write in lanes:
                writer.add(lane_key(lane), write(writer))
            writer.finish()
        except BaseException:
            writer.abandon()
            raise
        self._adopt(self._next)
        self._refresh()

    def forget(self, lanes: Collection[LaneId]) -> None:
        """Drop lanes; packs of which nothing is left are removed."""
        keys = np.array(sorted(map(lane_key, lanes)), np.int64)
        gone: list[int] = []
        for number, entries in self._packs.items():
            kept = ~np.isin(entries["key"], keys)
            if not kept.all():
                self._packs[number] = entries[kept]
                gone += [] if kept.any() else [number]
        self._refresh()
        self._remove(gone)

    def tidy(self) -> bool:
        """Merge some packs, if there are many of about one size, or one has little left; says whether it did."""
        chosen = self._worth_merging()
        if chosen:
            self._merge(chosen)
        return bool(chosen)

    def confirm(self, lanes: Iterable[LaneId]) -> None:
        """Make sure that the packs of these lanes are durable, for lanes of which something is left elsewhere.

        Whoever made such a pack may have died because syncing its name failed: so it is copied, under a new name.
        """
        found = (self.settled.find(lane) for lane in lanes)
        for number in sorted({each[0] for each in found if each is not None}):
            self._merge([number])

    def _merge(self, chosen: list[int]) -> None:
        """Make one pack of some."""
        sources = {number: (self._file(number), self._packs[number]) for number in chosen}
        lanes = sorted(
            (int(entry["key"]), number, at) for number in chosen for at, entry in enumerate(self._packs[number])
        )
        writer = PackWriter(self._disk, self._directory, self._next)
        try:
            for key, number, row in lanes:
                file, entries = sources[number]
                at = packed_at(entries[row])
                moved = at._replace(offset=writer.offset)
                for data in pack.copied(file, at, self._path(number)):
                    writer.write([data])
                writer.add(key, moved)
            writer.finish()
        except BaseException:
            writer.abandon()
            raise
        copied = {key for key, _, _ in lanes}
        marks = [mark for number in chosen for mark in self._marks.get(number, ()) if mark[0] in copied]
        if marks:
            self._store_marks(self._next, marks)
        for number in chosen:
            self._packs[number] = self._packs[number][:0]
        self._adopt(self._next)
        self._refresh()
        self._remove(chosen)

    def lane_at(self, path: str, offset: int | None) -> LaneId | None:
        """The lane whose bytes are there in a pack's file; None if there is none."""
        number = pack.number_of(path.removeprefix(f"{self._directory}/"))
        if number is None or offset is None or number not in self._packs:
            return None
        for at in map(packed_at, self._packs[number]):
            if at.offset <= offset < max(at.end, at.offset + 1):
                return at.lane
        return None

    def mark_damaged(self, lane: LaneId, reason: str) -> None:
        """Have a lane quarantined at the next opening, durably."""
        found = self.settled.find(lane)
        assert found is not None
        number = found[0]
        self._store_marks(number, [*self._marks.get(number, ()), (lane_key(lane), reason[:_REASON_CHARACTERS_MAX])])

    def _store_marks(self, number: int, marks: _Marks) -> None:
        name = pack.name_of(number) + _DAMAGED
        checked_file.replace(self._disk, self._directory, name, msgspec.msgpack.encode(marks))
        self._marks[number] = marks

    # Opening

    def _open(self) -> None:
        names = self._disk.list(self._directory)
        for name in names:
            if name.startswith(pack.PREFIX) and name.endswith(pack.NEW_SUFFIX):
                self._disk.remove(f"{self._directory}/{name}")
        known: set[int] = set()
        twice: set[int] = set()
        for number in _numbers(names):
            self._next = max(self._next, number + 1)
            self._load(number, known, twice)
        self._refresh()
        empty = [number for number, entries in self._packs.items() if not len(entries)]
        self.confirm(map(lane_of, sorted(twice)))
        self._remove(empty)

    def _load(self, number: int, known: set[int], twice: set[int]) -> None:
        """Take in a pack, but for the lanes that are `known` from others; those are noted."""
        path, name = self._path(number), pack.name_of(number)
        try:
            found = pack.load(self._disk, path)
        except Corrupt as error:
            self._quarantine(number)
            self.quarantined.append(Quarantined(None, f"{name}{_DAMAGED}-1", error))
            return
        self.quarantined += (Quarantined(None, name, error) for error in found.damaged)
        marks = _marks_of(self._disk, path)
        for key, reason in marks:
            damage = Corrupt(f"lane {lane_of(key)} is damaged: found while it was read: {reason}", file=path)
            self.quarantined.append(Quarantined(lane_of(key), name, damage))
        if marks:
            self._marks[number] = marks
        left_out = known | {key for key, _ in marks}
        keys = found.entries["key"].tolist()
        kept = [at for at, key in enumerate(keys) if key not in left_out]
        twice |= known.intersection(keys)
        known.update(keys[at] for at in kept)
        self._packs[number] = found.entries if len(kept) == len(keys) else found.entries[kept]
        self._sizes[number] = found.size

    # Change

    def _adopt(self, number: int) -> None:
        found = pack.load(self._disk, self._path(number))
        self._packs[number], self._sizes[number] = found.entries, found.size
        self._next = number + 1

    def _refresh(self) -> None:
        self.settled = SettledLanes(sorted((number, each) for number, each in self._packs.items() if len(each)))

    def _remove(self, numbers: Collection[int]) -> None:
        """Packs of which nothing is needed go; one in which there was damage stays for people."""
        for number in numbers:
            self._packs.pop(number, None)
            self._sizes.pop(number, None)
            with self._files_lock:
                self._files.pop(number, None)
            with suppress(OSError):  # what stays behind goes when the packs are opened next
                if self._marks.pop(number, None) is None:
                    self._disk.remove(self._path(number))
                else:
                    self._quarantine(number)

    def _quarantine(self, number: int) -> None:
        path = self._path(number)
        self._disk.rename(path, f"{path}{_DAMAGED}-1")
        self._disk.sync_directory(self._directory)
        if self._disk.exists(path + _DAMAGED):
            self._disk.remove(path + _DAMAGED)

    def _worth_merging(self) -> list[int]:
        sizes = {number: (len(each), _bytes_of(each)) for number, each in self._packs.items()}
        for number, (lanes, size) in sizes.items():
            if lanes and size + lanes * pack.ENTRY_BYTES + 2 * pack.HEAD_BYTES < self._sizes[number] // 2:
                return [number]
        tiers: dict[int, list[int]] = {}
        for number, (lanes, size) in sorted(sizes.items()):
            share = max(lanes / PACK_LANES_MAX, size / PACK_BYTES_MAX)
            if share * PACKS_MERGED <= 1:
                tiers.setdefault(int(share * (1 << 30)).bit_length() // 3, []).append(number)
        for _, numbers in sorted(tiers.items()):
            if len(numbers) >= PACKS_MERGED:
                return numbers[:PACKS_MERGED]
        return []

    def _file(self, number: int) -> File:
        with self._files_lock:
            file = self._files.get(number)
            if file is None:
                file = self._files[number] = self._disk.open(self._path(number), writable=False)
                while len(self._files) > PACKS_OPEN_MAX:
                    self._files.popitem(last=False)
            else:
                self._files.move_to_end(number)
        return file

    def _path(self, number: int) -> str:
        return f"{self._directory}/{pack.name_of(number)}"


class PackedLanes:
    """The lanes in the packs of a directory as they were when this was made, for those who only read."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self._files: dict[int, File] = {}
        known: set[int] = set()
        found: list[tuple[int, Entries]] = []
        for number in _numbers(disk.list(directory)):
            path = self._path(number)
            entries = pack.load(disk, path).entries
            left_out = known | {key for key, _ in _marks_of(disk, path)}
            kept = np.array([key not in left_out for key in entries["key"].tolist()], np.bool_)
            known.update(entries["key"][kept].tolist())
            found.append((number, entries[kept]))
        self._settled = SettledLanes(found)

    def open(self, lane: LaneId) -> PackedLane | None:
        """A lane; None if it is in no pack. The files of packs stay open."""
        found = self._settled.find(lane)
        if found is None:
            return None
        number, at = found
        if number not in self._files:
            self._files[number] = self._disk.open(self._path(number), writable=False)
        return PackedLane(self._disk, self._path(number), self._files[number], at)

    def _path(self, number: int) -> str:
        return f"{self._directory}/{pack.name_of(number)}"


def _numbers(names: Iterable[str]) -> list[int]:
    """Of the packs among these files; the newest comes first, which counts."""
    return sorted((number for name in names if (number := pack.number_of(name)) is not None), reverse=True)


class PackedPlace(NamedTuple):
    """Where a lane is."""

    path: str
    """Of its pack."""
    at: PackedAt

    def open(self, disk: Disk) -> PackedLane:
        return PackedLane(disk, self.path, disk.open(self.path, writable=False), self.at)


def packed_places(disk: Disk, directory: str) -> dict[LaneId, PackedPlace]:
    """Where the lanes in packs are, for those who only look. `Corrupt` if something of that does not check out."""
    found: dict[LaneId, PackedPlace] = {}
    marked: dict[LaneId, Corrupt] = {}
    names = disk.list(directory)
    for number in _numbers(names):
        path = f"{directory}/{pack.name_of(number)}"
        loaded = pack.load(disk, path)
        if loaded.damaged:
            raise loaded.damaged[0]
        marks = {lane_of(key): reason for key, reason in _marks_of(disk, path)}
        for at in map(packed_at, loaded.entries):
            if at.lane in marks:
                marked.setdefault(at.lane, Corrupt(f"lane {at.lane} is damaged: {marks[at.lane]}", file=path))
            else:
                found.setdefault(at.lane, PackedPlace(path, at))
    for lane, error in marked.items():
        if lane not in found and str(lane) not in names:
            raise error
    return found


def _marks_of(disk: Disk, path: str) -> _Marks:
    """The lanes of a pack that were found damaged, and what was said of them."""
    if not disk.exists(path + _DAMAGED):
        return []
    try:
        return checked_file.load_value(disk, path + _DAMAGED, _Marks)
    except Corrupt:  # whoever meets the damage marks it again
        return []


def _bytes_of(entries: Entries) -> int:
    tables = entries["index_count"].astype(np.int64) * pack.INDEX_BYTES + pack.runs_bytes(entries)
    return int((entries["entries_bytes"] + entries["snapshot_bytes"] + tables).sum())
