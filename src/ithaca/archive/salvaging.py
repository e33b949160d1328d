"""What can still be read of a damaged log of a directory, and what cannot.

The damaged log is left as it is. Its segments are walked as `ithaca verify` walks them: behind damage the next entry
that belongs to the lane is looked for, and what lies between is told. What is found goes to another log, in the same
order; behind a gap positions are lower there than they were.
"""

from collections.abc import Iterator
from typing import NamedTuple

from ithaca.archive.checks import check_log
from ithaca.archive.copying import Copied, digest, pour
from ithaca.archive.progress import Advance
from ithaca.embedded import directory
from ithaca.model.arguments import optional_function
from ithaca.model.errors import Corrupt, FormatTooNew, NoSuchLog
from ithaca.model.interface import Log
from ithaca.model.paths import AnyPath, local_path
from ithaca.model.positions import FIRST
from ithaca.model.records import Record
from ithaca.storage.disk import OsDisk
from ithaca.storage.segment import Segment, first_lsns
from ithaca.storage.synced import NAME, ProgressFile
from ithaca.storage.verify import end_offset, next_entry
from ithaca.wire.batch import DATA, NOOPS, lane_seed


class LeftOut(NamedTuple):
    """Positions `[start, stop)` that cannot be read any more, and why.

    What was lost at the very end of the log is not among them: nothing that is left says how far that went. Where the
    file `synced` is lost, too, nothing says what was trimmed: then that is found, as far as its segments are left.
    """

    start: int
    stop: int
    file: str
    offset: int
    problem: str


class Salvage:
    """What is found in a damaged log; `left_out` is complete once all records were taken."""

    def __init__(self, path: AnyPath) -> None:
        self._disk, self._lane = OsDisk(), directory.lane_directory(local_path(path))
        self._firsts = first_lsns(self._disk.list(self._lane)) if self._disk.exists(self._lane) else []
        if not self._firsts:
            raise NoSuchLog(f"there is no log at {local_path(path)}: no segment of one is there")
        has_progress = self._disk.exists(f"{self._lane}/{NAME}")
        self._progress = ProgressFile(self._disk, self._lane, writable=False).load() if has_progress else None
        self.left_out: list[LeftOut] = []

    @property
    def total(self) -> int | None:
        """How many positions there were, as far as anything says so."""
        return None if self._progress is None else self._progress.length - self._progress.trim

    def records(self) -> Iterator[Record]:
        """All that can be read and was not trimmed, at the positions that it had."""
        first = FIRST if self._progress is None else self._progress.trim + FIRST
        for segment, following in zip(self._firsts, [*self._firsts[1:], None], strict=True):
            yield from (record for record in self._segment(segment, following) if record.position >= first)
        self.left_out = [each for each in self.left_out if each.stop > first]

    def _segment(self, first: int, following: int | None) -> Iterator[Record]:
        segment = Segment(self._disk, self._lane, first, lane_seed(directory.LANE))
        is_last, until_lsn = following is None, first if following is None else following
        until_offset = end_offset(self._disk, self._lane, directory.LANE, self._progress) if is_last else 0
        offset, lsn = 0, first
        while True:
            try:
                for at, entry in segment.walk(offset, lsn):
                    if entry.kind == DATA:
                        yield from entry.records(entry.base_lsn + FIRST, 0)
                    elif entry.kind == NOOPS:
                        self._leave_out(lsn, entry.end_lsn, segment.path, at, "these were given up before")
                    offset, lsn = at + entry.total_bytes, entry.end_lsn
            except (Corrupt, FormatTooNew) as error:
                if offset >= until_offset and lsn >= until_lsn:
                    return
                problem = str(error).removeprefix(f"{segment.path} at byte {offset}: ")
                found_at, found_lsn = next_entry(segment, offset + 8, lsn) or (None, until_lsn)
                if found_lsn > lsn:
                    self._leave_out(lsn, found_lsn, segment.path, offset, problem)
                if found_at is None:
                    return
                offset, lsn = found_at, found_lsn

    def _leave_out(self, start: int, stop: int, file: str, offset: int, problem: str) -> None:
        self.left_out.append(LeftOut(start + FIRST, stop + FIRST, file, offset, problem))


def salvage(path: AnyPath, target: Log, advance: Advance | None = None) -> tuple[Copied, list[LeftOut]]:
    """Append to `target` all that can be read of the log at `path`, and say what cannot."""
    check_log(target, "target")
    optional_function(advance, "advance")
    found = Salvage(path)
    name = f"salvage of {digest(directory.lane_directory(local_path(path)))}"
    copied = pour(found.records(), target, name, advance, found.total)
    return copied, found.left_out
