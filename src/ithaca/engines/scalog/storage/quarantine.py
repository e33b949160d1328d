"""Lanes whose synced bytes do not check out: marked while somebody reads them, quarantined when the store is opened.

```
<shard>-<replica>-<incarnation>/damaged      bytes of the lane were found damaged: what was said of them, as text
<shard>-<replica>-<incarnation>.damaged-<n>  the n-th time that this lane was quarantined: its directory as it was
```

A lane is never repaired in place: what is quarantined stays as it was found, nothing here reads or removes it, and a
new lane of the same name takes its place, filled from a peer. So damage is never taken for a shorter lane.
"""

from typing import NamedTuple

from ithaca.model.errors import Corrupt
from ithaca.model.positions import LaneId
from ithaca.storage.disk import Disk

MARK = "damaged"
_SUFFIX = ".damaged-"
_REASON_BYTES_MAX = 4096


class Quarantined(NamedTuple):
    """A lane that was quarantined."""

    lane: LaneId | None
    """None of a pack, if nobody can say which of its lanes they were."""
    name: str
    """Of its directory, or of the pack that it is in."""
    error: Corrupt | None
    """Why, if it was done when this store was opened; None if it was done before."""


def lane_of(name: str) -> LaneId | None:
    """The lane whose directory has this name; None for other names, those of lanes that were quarantined included."""
    parts = name.split("-")
    if len(parts) != 3 or not all(part.isdecimal() for part in parts):
        return None
    lane = LaneId(*map(int, parts))
    return lane if str(lane) == name else None


def mark(disk: Disk, path: str, reason: str) -> None:
    """Have a lane quarantined when it is opened next, durably; it may be read and written until then."""
    file = disk.open(f"{path}/{MARK}", create=True)
    file.truncate(0)
    file.write(0, [reason.encode()[:_REASON_BYTES_MAX]])
    file.sync()
    disk.sync_directory(path)


def check_unmarked(disk: Disk, path: str) -> None:
    """Raise `Corrupt` for a lane that was marked, with what was said of it."""
    if disk.exists(f"{path}/{MARK}"):
        reason = disk.open(f"{path}/{MARK}", writable=False).read(0, _REASON_BYTES_MAX).decode(errors="replace")
        raise Corrupt(f"found while it was read: {reason or 'what was damaged is not known any more'}")


def quarantine(disk: Disk, directory: str, lane: LaneId, error: Corrupt) -> Quarantined:
    """Give the directory of a damaged lane another name, durably."""
    numbers = [number for known, _, number in _found(disk, directory) if known == lane]
    name = f"{lane}{_SUFFIX}{max(numbers, default=0) + 1}"
    disk.rename(f"{directory}/{lane}", f"{directory}/{name}")
    disk.sync_directory(directory)
    return Quarantined(lane, name, error)


def quarantined_before(disk: Disk, directory: str) -> list[Quarantined]:
    """The lanes that were quarantined earlier, and are still kept."""
    return [Quarantined(lane, name, None) for lane, name, _ in _found(disk, directory)]


def _found(disk: Disk, directory: str) -> list[tuple[LaneId, str, int]]:
    """Lane, name and number of each lane that was quarantined, in order."""
    found = []
    for name in disk.list(directory):
        stem, separator, number = name.partition(_SUFFIX)
        lane = lane_of(stem)
        if lane is not None and separator and number.isdecimal():
            found.append((lane, name, int(number)))
    return sorted(found, key=lambda each: (each[0], each[2]))
