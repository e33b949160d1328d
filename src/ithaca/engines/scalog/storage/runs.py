"""Runs: which positions the records of a lane have (design §2 "cut", §5 "Order").

A cut orders a stretch of each lane at once, so the map from LSNs to positions is a list of runs: `count`
records from `lsn` on have positions from `position` on, ordered at `time_us`. Runs of a lane are dense in
LSNs and rise in positions, with gaps where other lanes' records lie, or none; their times never fall.

Old runs are in pages on disk (`runs_file`), read when they are asked for, at most `RUNS_PAGES_CACHED_MAX`
of them in memory; what a page starts with is in memory for all pages. New ones are in memory, at least the
newest, and durable with `sync`. Look-ups see both. One thread at a time, but for `PendingRuns.write`: what
`prepare_sync` has collected may be written in another thread while this one goes on appending and looking up. Runs
that nothing changes any more may be looked up by any thread.
"""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator
from functools import partial
from operator import itemgetter
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from ithaca.engines.scalog.storage.limits import RUNS_PAGE_ENTRIES, RUNS_PAGES_CACHED_MAX
from ithaca.engines.scalog.storage.runs_file import RunsFile
from ithaca.engines.scalog.storage.runs_format import NOTHING, Columns, Run, columns
from ithaca.model.errors import NotWritten, Trimmed
from ithaca.model.limits import RUNS_UNSYNCED_MAX
from ithaca.storage.disk import Disk

_LSN, _POSITION, _COUNT, _TIME = range(4)
_BY = tuple(map(itemgetter, range(4)))


class PendingRuns:
    """Runs on their way to the disk."""

    def __init__(
        self, file: Callable[[], RunsFile], pages: int, runs: list[Run], dead_pages: int, end_lsn: int
    ) -> None:
        self._file = file
        self._dead_pages = dead_pages
        self._end_lsn = end_lsn
        self.pages = pages
        self.runs = runs
        self.pages_now: int | None = None
        """How many pages there are once this is durable; None before, and for ever if it fails."""
        self.unsynced = 0
        """How many of them no sync has made durable before."""
        self.in_progress = False
        self.abandoned = False
        self.skipped = False
        """Whether all of it was trimmed while it was written."""

    def write(self) -> None:
        """Write and sync, in any thread. `StorageFull` changes nothing; a failed sync is `Fenced` for good."""
        assert not self.abandoned, "newer runs are on their way already"
        self.in_progress = True
        try:
            file = self._file()
            self.pages_now = file.store(self.pages, self.runs, self._dead_pages, self._end_lsn)
            file.drop_dead()
        finally:
            self.in_progress = False


class Runs:
    """The runs of one lane, in its directory."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        *,
        is_new: bool = False,
        is_sound: bool = False,
        is_dense: bool = True,
        page_entries: int = RUNS_PAGE_ENTRIES,
        pages_cached_max: int = RUNS_PAGES_CACHED_MAX,
    ) -> None:
        """Open the files; what a crash cut short is dropped, damage to synced runs is `Corrupt`.

        With `is_new` there are no runs: the files are made, or opened, with the first sync. With `is_sound` this
        process has left them synced: there is nothing to recover, and so nothing is written. With `is_dense` no run
        follows anything but its own start.
        """
        self._open = partial(RunsFile, disk, directory, page_entries, is_dense=is_dense, is_sound=is_sound)
        self._opened: RunsFile | None = None if is_new else self._open()
        self._page_entries = page_entries
        self._pages_cached_max = pages_cached_max
        self._pending: PendingRuns | None = None
        self._cache_lock = Lock()
        last = NOTHING if self._opened is None else self._opened.last
        self._pages, self._dead_pages = last.pages, last.dead_pages
        self._heads_from = last.dead_pages
        self._heads = np.empty((3, 0), np.int64) if self._opened is None else self._opened.heads()
        """What the pages from that number on begin with."""
        self._recent = list(last.tail)
        self._check_starts()
        self._recent_columns: Columns | None = None
        self._cache: OrderedDict[int, Columns] = OrderedDict()
        self.end_lsn = last.end_lsn
        """The LSN that the next run starts with."""
        self._synced = True
        self._unsynced = 0
        """How many runs were appended, and are not durable."""

    def _check_starts(self) -> None:
        """Pages and the runs in memory follow each other, by what each begins with."""
        starts = self._live_heads
        if self._recent:
            starts = np.column_stack((starts, [self._recent[0][column] for column in (_LSN, _POSITION, _TIME)]))
        elif starts.size:
            raise self._file.inconsistent("there are pages, and no runs behind them")
        steps = np.diff(starts)
        if (steps[:2] <= 0).any() or (steps[2] < 0).any():
            raise self._file.inconsistent("pages of runs do not follow each other")

    @property
    def _file(self) -> RunsFile:
        if self._opened is None:
            self._opened = self._open()
        return self._opened

    @property
    def has_files(self) -> bool:
        """Whether files of it are open; those of new runs are not, until they are synced."""
        return self._opened is not None

    @property
    def is_synced(self) -> bool:
        """Whether everything appended is durable."""
        return self._synced and self._pending is None

    @property
    def count(self) -> int:
        """How many runs there are, those on dead pages included."""
        return self._pages * self._page_entries + len(self._recent)

    @property
    def first_lsn(self) -> int:
        """The first LSN whose position is known."""
        if self._dead_pages < self._pages:
            return self._chunk_start(self._dead_pages)
        return self._recent[0].lsn if self._recent else self.end_lsn

    @property
    def _live_heads(self) -> Columns:
        return self._heads[:, self._dead_pages - self._heads_from :]

    @property
    def end_position(self) -> int:
        """The position after the last one of this lane; 0 when it has none."""
        last = self._last()
        return last.position + last.count if last else 0

    def append(self, run: Run) -> None:
        """Note the next run; durable after `sync`. One that continues the last at the same time becomes part of it.

        No more than `RUNS_UNSYNCED_MAX` may wait for a sync: whoever appends counts them.
        """
        last = self._last()
        assert run.count > 0
        assert run.lsn == self.end_lsn
        assert last is None or (run.position >= self.end_position and run.time_us >= last.time_us)
        assert not run.follows or self.end_position <= run.follows < run.position
        if last is not None and run.position == self.end_position and run.time_us == last.time_us:
            self._recent[-1] = last._replace(count=last.count + run.count)
        else:
            assert self._unsynced < RUNS_UNSYNCED_MAX, "too many runs wait to be synced"
            self._unsynced += 1
            self._recent.append(run)
        self.end_lsn += run.count
        self._recent_columns = None
        self._synced = False

    def sync(self) -> None:
        """Make everything appended durable. `StorageFull` changes nothing; a failed sync is `Fenced` for good."""
        pending = self.prepare_sync()
        if pending is not None:
            try:
                pending.write()
            finally:
                self.adopt(pending)

    def prepare_sync(self) -> PendingRuns | None:
        """What is to be written so that everything appended is durable; None when it is. One at a time."""
        self._settle()
        if self._synced:
            return None
        self._synced = True
        self._pending = PendingRuns(lambda: self._file, self._pages, list(self._recent), self._dead_pages, self.end_lsn)
        self._pending.unsynced = self._unsynced
        return self._pending

    def adopt(self, pending: PendingRuns) -> None:
        """Take note that a pending sync has ended, well or not; one that was not begun is given up."""
        if pending is not self._pending:  # something else needed to know before
            return
        assert not pending.in_progress, "the runs are still being written"
        self._pending = None
        if pending.pages_now is None:
            pending.abandoned = True
            self._synced = False
            return
        if pending.skipped:
            newer = self._recent
            self._page_out(pending.pages, pending.pages_now, pending.runs)
            self._recent, self._dead_pages = newer, self._pages
        else:
            self._unsynced -= pending.unsynced
            self._page_out(pending.pages, pending.pages_now, pending.runs)

    def _settle(self) -> None:
        if self._pending is not None:
            self.adopt(self._pending)

    def skip_to(self, lsn: int) -> None:
        """Go on at an LSN behind the last run: what is before it was trimmed, its positions were never known here.

        Durable with the next `sync`, together with the runs from there on.
        """
        assert lsn > self.end_lsn
        if self._pending is not None:
            self._pending.skipped = True
        self._cache.clear()
        self._recent, self._recent_columns = [], None
        self._dead_pages, self.end_lsn, self._synced, self._unsynced = self._pages, lsn, False, 0

    def truncate(self, length: int) -> None:
        """Drop, durably, what is said of LSNs from `length` on."""
        if length >= self.end_lsn:
            return
        self._settle()
        if length <= self.first_lsn:
            self._store(self._dead_pages, [], length)
            return
        number = self._chunk_of(_LSN, length - 1)
        runs = [Run(*run) for run in self._chunk(number).T.tolist()]
        runs = runs[: bisect_right(runs, length - 1, key=lambda run: run.lsn)]
        runs[-1] = runs[-1]._replace(count=length - runs[-1].lsn)
        self._store(number, runs, length)

    def trim(self, before_lsn: int) -> None:
        """Forget the pages that lie wholly below an LSN; the next `sync` removes the files that hold nothing else."""
        while self._dead_pages < self._pages and self._chunk_start(self._dead_pages + 1) <= before_lsn:
            self._cache.pop(self._dead_pages, None)
            self._dead_pages += 1
            self._synced = False
        if self._dead_pages - self._heads_from > len(self._live_heads[0]):
            self._heads, self._heads_from = self._live_heads.copy(), self._dead_pages

    def _store(self, pages: int, runs: list[Run], end_lsn: int) -> None:
        """Make the runs behind the first `pages` pages durable, and all that there is."""
        now = self._file.store(pages, runs, self._dead_pages, end_lsn)
        for number in [number for number in self._cache if number >= pages]:
            del self._cache[number]
        self._heads = self._heads[:, : max(0, pages - self._heads_from)]
        self._recent, self.end_lsn, self._synced, self._unsynced = runs, end_lsn, True, 0
        self._page_out(pages, now, runs)

    def _page_out(self, pages: int, now: int, runs: list[Run]) -> None:
        """The first of the runs in memory, which `runs` were when they were written, are in new pages."""
        if now != pages:
            fresh = [runs[at * self._page_entries] for at in range(now - pages)]
            heads = np.array([(run.lsn, run.position, run.time_us) for run in fresh], np.int64)
            self._heads = np.concatenate([self._heads, heads.T], axis=1)
            self._recent = self._recent[(now - pages) * self._page_entries :]
        self._recent_columns = None
        self._pages = now

    # Look-ups

    def position_of(self, lsn: int) -> int:
        """The position of a record; raises as `positions_of` does."""
        run = self.run_of(lsn)
        return run.position + lsn - run.lsn

    def run_of(self, lsn: int) -> Run:
        """The run that holds a record; raises as `positions_of` does."""
        self._check_known(lsn, lsn)
        run = self._floor(_LSN, lsn)
        assert run is not None
        return run

    def positions_of(self, lsns: NDArray[np.int64]) -> NDArray[np.int64]:
        """The positions of records; `NotWritten` when one is not ordered yet, `Trimmed` when one is forgotten."""
        if not len(lsns):
            return np.empty(0, np.int64)
        self._check_known(int(lsns.min()), int(lsns.max()))
        numbers = np.searchsorted(self._live_heads[0], lsns, "right") - 1 + self._dead_pages
        if self._recent:
            numbers[lsns >= self._recent[0].lsn] = self._pages
        positions = np.empty(len(lsns), np.int64)
        order = np.argsort(numbers, kind="stable")
        for chosen in np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1):  # page by page
            chunk, wanted = self._chunk(int(numbers[chosen[0]])), lsns[chosen]
            rows = np.searchsorted(chunk[_LSN], wanted, "right") - 1
            positions[chosen] = chunk[_POSITION][rows] + wanted - chunk[_LSN][rows]
        return positions

    def _check_known(self, low: int, high: int) -> None:
        if high >= self.end_lsn:
            tail = self.end_position
            raise NotWritten(f"LSN {high} is not ordered yet: the lane is, up to {self.end_lsn}", tail=tail)
        if low < self.first_lsn:
            raise self._trimmed(f"LSN {low}")

    def lsn_of(self, position: int) -> int | None:
        """The LSN of the record at a position; None when that is not one of this lane."""
        lsn = self.known_lsn_of(position)
        if lsn is None and self._floor(_POSITION, position) is None and self.first_lsn > 0:
            raise self._trimmed(f"position {position}")
        return lsn

    def known_lsn_of(self, position: int) -> int | None:
        """The LSN of the record at a position; None also when that is forgotten."""
        run = self._floor(_POSITION, position)
        return run.lsn + position - run.position if run and position < run.position + run.count else None

    def floor_position(self, position: int) -> int:
        """The first LSN that is at the position or behind it; `end_lsn` when there is none yet."""
        run = self._floor(_POSITION, position)
        return self.first_lsn if run is None else run.lsn + min(position - run.position, run.count)

    def seek_time(self, time_us: int) -> int:
        """The first LSN that was ordered at a time or later; `end_lsn` when there is none yet."""
        run = self._floor(_TIME, time_us - 1)
        return self.first_lsn if run is None else run.lsn + run.count

    def runs(self, start_lsn: int, stop_lsn: int) -> Iterator[Run]:
        """What is said of the LSNs in `[start_lsn, stop_lsn)`, the first and the last run cut to it."""
        start_lsn, stop_lsn = max(start_lsn, self.first_lsn), min(stop_lsn, self.end_lsn)
        number = self._chunk_of(_LSN, start_lsn)
        while start_lsn < stop_lsn:
            for run in map(Run._make, self._chunk(number).T.tolist()):
                skipped = max(0, start_lsn - run.lsn)
                count = min(run.lsn + run.count, stop_lsn) - run.lsn - skipped
                if count > 0:
                    follows = 0 if skipped else run.follows
                    yield Run(run.lsn + skipped, run.position + skipped, count, run.time_us, follows)
                    start_lsn = run.lsn + skipped + count
            number += 1

    def runs_from(self, lsn: int, count: int) -> list[Run]:
        """Some runs, at most `count`, from the one that holds `lsn` on, cut to it; none beyond `end_lsn`."""
        if lsn >= self.end_lsn:
            return []
        lsn = max(lsn, self.first_lsn)
        number = self._chunk_of(_LSN, lsn)
        if number == self._pages:
            at = bisect_right(self._recent, lsn, key=_BY[_LSN]) - 1
            found = self._recent[at : at + count]
        else:
            chunk = self._chunk(number)
            at = int(np.searchsorted(chunk[_LSN], lsn, "right")) - 1
            found = [Run._make(run) for run in chunk[:, at : at + count].T.tolist()]
        skipped = lsn - found[0].lsn
        if skipped:
            first = found[0]
            found[0] = Run(lsn, first.position + skipped, first.count - skipped, first.time_us)
        return found

    def _last(self) -> Run | None:
        return self._recent[-1] if self._recent else None

    def _floor(self, column: int, value: int) -> Run | None:
        """The last run whose LSN, position or time is at most `value`."""
        number = self._chunk_of(column, value)
        if number < self._dead_pages:
            return None
        if number == self._pages:
            return self._recent[bisect_right(self._recent, value, key=_BY[column]) - 1]
        chunk = self._chunk(number)
        return Run(*chunk[:, chunk[column].searchsorted(value, "right") - 1].tolist())

    def _chunk_of(self, column: int, value: int) -> int:
        """The last page that starts at most at `value`, or `_pages` for the runs in memory; below all: too small."""
        if self._recent and self._recent[0][column] <= value:
            return self._pages
        row = 2 if column == _TIME else column
        return int(self._live_heads[row].searchsorted(value, "right")) - 1 + self._dead_pages

    def _chunk_start(self, number: int) -> int:
        if number < self._pages:
            return int(self._heads[0, number - self._heads_from])
        return self._recent[0].lsn if self._recent else self.end_lsn

    def _chunk(self, number: int) -> Columns:
        """The runs of a page, or, at `_pages`, those in memory."""
        if number == self._pages:
            if self._recent_columns is None:
                self._recent_columns = np.ascontiguousarray(columns(self._recent))
            return self._recent_columns
        with self._cache_lock:
            return self._page(number)

    def _page(self, number: int) -> Columns:
        page = self._cache.get(number)
        if page is None:
            page = self._file.load_page(number)
            if int(page[_LSN, 0]) != self._chunk_start(number) or _end_of(page) != self._chunk_start(number + 1):
                raise self._file.inconsistent(f"page {number} of the runs does not lead to the next")
            self._cache[number] = page
            if len(self._cache) > self._pages_cached_max:
                self._cache.popitem(last=False)
        else:
            self._cache.move_to_end(number)
        return page

    def all(self) -> list[Run]:
        """Every run that is known."""
        return list(self.runs(self.first_lsn, self.end_lsn))

    def _trimmed(self, what: str) -> Trimmed:
        first = self.position_of(self.first_lsn) if self.first_lsn < self.end_lsn else self.end_position
        return Trimmed(f"{what} was trimmed; the first position left is {first}", first=first)


def _end_of(runs: Columns) -> int:
    return int(runs[_LSN, -1] + runs[_COUNT, -1])
