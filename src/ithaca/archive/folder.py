"""A backup: files with chunks, each the batches of a range of positions.

| file                        | content                                                                        |
|-----------------------------|--------------------------------------------------------------------------------|
| `backup`                    | `ithaca backup 1`: what the directory is, and the version of its format        |
| `<start>-<stop>.chunk`      | the batches of positions `[start, stop)` as `wire.batch` has them, one by one  |
| `<start>-<stop>.chunk.part` | one that was being written when a run was killed: the next run removes it      |

Positions in names have 20 digits. A batch has the position of its first record, less one, where a lane has the LSN, and
a checksum over that: so no batch is taken for another, and a file that was renamed is found. A chunk has its name only
once it is whole and synced (`places`). Chunks follow each other without a gap; positions without a record lie inside
them.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

from ithaca.archive.places import PART, Place
from ithaca.model.errors import Corrupt, FormatTooNew, InvalidInput, NoSuchLog
from ithaca.model.positions import LaneId
from ithaca.wire.batch import HEAD_BYTES, Batch, lane_seed, parse, stored_bytes

NAME, VERSION = "backup", 1
SEED = lane_seed(LaneId(0, 0, 0))
"""No lane has this id: a batch of a lane is not taken for one of a backup."""
_CHUNK = re.compile(r"(\d{20})-(\d{20})\.chunk")


class Chunk(NamedTuple):
    """One file of a backup."""

    start: int
    stop: int
    place: Place

    @property
    def name(self) -> str:
        return f"{self.start:020d}-{self.stop:020d}.chunk"

    @property
    def file(self) -> str:
        return self.place.file(self.name)

    def read(self) -> bytes:
        return self.place.read(self.name)

    def batches(self) -> Iterator[Batch]:
        """All of it, checked; `Corrupt` names the file and the byte."""
        data = self.read()
        at, position = 0, self.start
        while at < len(data):
            if len(data) - at < HEAD_BYTES or len(data) - at < stored_bytes(data, at):
                raise self._damage(at, "it ends in the middle of a batch")
            try:
                batch = parse(data, at)
            except Corrupt as error:
                raise self._damage(at, str(error)) from error
            if not batch.belongs_to(SEED) or not position <= batch.base_lsn + 1 <= self.stop - batch.count:
                raise self._damage(at, "a batch that is not of this place")
            yield batch
            at, position = at + batch.total_bytes, batch.base_lsn + 1 + batch.count

    def _damage(self, at: int, problem: str) -> Corrupt:
        return Corrupt(problem, file=self.file, offset=at)


def is_chunk(name: str) -> bool:
    """Whether a file with this name is a chunk."""
    return _CHUNK.fullmatch(name) is not None


def is_backup(place: Place) -> bool:
    """Whether there is a backup."""
    return NAME in place.names()


def prepare(place: Place) -> None:
    """Make it a backup, unless it is one; what an earlier run left half written goes."""
    found = [name for name in place.names() if name != f"{NAME}{PART}"]
    if NAME not in found:
        if found:
            raise InvalidInput(f"{place} is not empty, and no backup (it has {found[0]}): name another directory")
        place.write(NAME, [f"ithaca backup {VERSION}\n".encode()])
    check_version(place)
    for name in place.names():
        if name.endswith(PART):
            place.remove(name)


def check_version(place: Place) -> None:
    """`NoSuchLog` when there is no backup, `FormatTooNew` when it is of a later version."""
    if not is_backup(place):
        raise NoSuchLog(f"there is no backup at {place}: make one with ithaca backup")
    title = re.fullmatch(r"ithaca backup (\d{1,9})\n", place.read(NAME).decode("utf-8", errors="replace"))
    if title is None:
        raise Corrupt("it does not say that this is a backup", file=place.file(NAME), offset=0)
    if int(title[1]) != VERSION:
        message = f"the backup in {place} has format {title[1]}, and this version reads {VERSION}: use a newer one"
        raise FormatTooNew(message, found=int(title[1]), supported=VERSION)


def chunks(place: Place) -> list[Chunk]:
    """The chunks of a backup in their order; `Corrupt` where one is missing between others."""
    check_version(place)
    names = [match for match in map(_CHUNK.fullmatch, place.names()) if match]
    found = [Chunk(int(match[1]), int(match[2]), place) for match in names]
    for before, after in pairwise(found):
        if before.stop != after.start:
            raise Corrupt(f"positions {before.stop} to {after.start} are missing", file=after.file, offset=0)
    return found


def write_chunk(place: Place, start: int, stop: int, pieces: Iterable[bytes]) -> None:
    """Add a chunk, durably and at once: a reader sees it whole or not at all."""
    place.write(Chunk(start, stop, place).name, pieces)
