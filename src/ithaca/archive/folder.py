"""A backup: a directory of chunks, each the batches of a range of positions.

| file                        | content                                                                        |
|-----------------------------|--------------------------------------------------------------------------------|
| `backup`                    | `ithaca backup 1`: what the directory is, and the version of its format        |
| `<start>-<stop>.chunk`      | the batches of positions `[start, stop)` as `wire.batch` has them, one by one  |
| `<start>-<stop>.chunk.part` | one that was being written when a run was killed: the next run removes it      |

Positions in names have 20 digits. A batch has the position of its first record, less one, where a lane has the LSN, and
a checksum over that: so no batch is taken for another, and a file that was renamed is found. A chunk has its name only
once it is whole and synced. Chunks follow each other without a gap; positions without a record lie inside them.
"""

import os
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

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
    path: Path

    def batches(self) -> Iterator[Batch]:
        """All of it, checked; `Corrupt` names the file and the byte."""
        data = self.path.read_bytes()
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
        return Corrupt(problem, file=str(self.path), offset=at)


def is_backup(path: Path) -> bool:
    """Whether the directory is a backup."""
    return (path / NAME).is_file()


def prepare(path: Path) -> None:
    """Make the directory a backup, unless it is one; what an earlier run left half written goes."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not is_backup(path):
        found = [each.name for each in path.iterdir() if each.name != f"{NAME}.part"]
        if found:
            raise InvalidInput(f"{path} is not empty, and no backup (it has {found[0]}): name another directory")
        _write(path / NAME, [f"ithaca backup {VERSION}\n".encode()])
    check_version(path)
    for left in path.glob("*.part"):
        left.unlink()


def check_version(path: Path) -> None:
    """`NoSuchLog` when there is no backup, `FormatTooNew` when it is of a later version."""
    if not is_backup(path):
        raise NoSuchLog(f"there is no backup at {path}: make one with ithaca backup")
    title = re.fullmatch(r"ithaca backup (\d{1,9})\n", (path / NAME).read_text(encoding="utf-8", errors="replace"))
    if title is None:
        raise Corrupt("it does not say that this is a backup", file=str(path / NAME), offset=0)
    if int(title[1]) != VERSION:
        message = f"the backup in {path} has format {title[1]}, and this version reads {VERSION}: use a newer one"
        raise FormatTooNew(message, found=int(title[1]), supported=VERSION)


def chunks(path: Path) -> list[Chunk]:
    """The chunks of a backup in their order; `Corrupt` where one is missing between others."""
    check_version(path)
    names = [(match, path / match[0]) for match in map(_CHUNK.fullmatch, sorted(os.listdir(path))) if match]
    found = [Chunk(int(match[1]), int(match[2]), file) for match, file in names]
    for before, after in pairwise(found):
        if before.stop != after.start:
            raise Corrupt(f"positions {before.stop} to {after.start} are missing", file=str(after.path), offset=0)
    return found


def write_chunk(path: Path, start: int, stop: int, pieces: list[bytes]) -> Chunk:
    """Add a chunk, durably and at once: a reader sees it whole or not at all."""
    file = path / f"{start:020d}-{stop:020d}.chunk"
    _write(file, pieces)
    return Chunk(start, stop, file)


def _write(file: Path, pieces: list[bytes]) -> None:
    part = file.with_name(f"{file.name}.part")
    with part.open("wb") as output:
        output.writelines(pieces)
        output.flush()
        os.fsync(output.fileno())
    part.replace(file)
    directory = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
