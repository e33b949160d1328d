"""The runs of a lane on disk: the newest in one of two slots of `runs`, full pages of older ones in files of their own.

`runs_format` has the bytes.

Each sync is a *generation*: it writes and syncs the pages that became full, then writes all newer runs into the slot
that the last generation does not use, and syncs that. So the last generation stays whole whatever a crash does to
the next. After the sync, and without another, the mark says that it came through. Pages that were trimmed are dead; a
file of dead pages alone is removed once a generation says so. Nothing is ever rewritten to become smaller.

**Torn or damaged?** A generation is written only when the one before is synced. So of two slots the older is
synced for certain; the newer is, if the mark says so. Recovery takes the newest generation whose slot and
new pages check out. It may fall back to the one before only where the mark does not rule that out: what the
mark vouches for and is not there, or is bad, is `Corrupt`, like any page from before. Only a power loss that
takes back the mark leaves damage to the newest generation looking like a torn one.

**A restart cannot launder a failed sync**: a generation that is there and not vouched for is written again in
its place and synced before it counts; without any mark the name itself may not be durable, and the file is
copied into a new one. Every opening then starts a generation of its own, so that a page which an unsynced
generation of an earlier life left behind never passes for one of the next.

**Version 1** had its pages in `runs`. It is read, and becomes version 2 when it is opened. Which of versions 2 and 3 a
new file gets depends on whether positions are dense (`runs_format`); a file stays what it is.
"""

import errno
from collections.abc import Iterable, Sequence
from contextlib import suppress

import numpy as np

from ithaca.engines.scalog.storage.limits import RUNS_FILE_PAGES
from ithaca.engines.scalog.storage.runs_format import (
    BLOCK_HEAD_BYTES,
    DENSE,
    FOLLOWING,
    HEAD_BYTES,
    MARK_AT,
    MARK_BYTES,
    NOTHING,
    SLOTS_AT,
    VERSION,
    Columns,
    Generation,
    Run,
    block_bytes,
    columns,
    encode_head,
    encode_mark,
    encode_page,
    encode_slot,
    page_head,
    parse_head,
    parse_mark,
    parse_page,
    parse_slot,
    width_of,
)
from ithaca.model.errors import Corrupt, Fenced, FormatTooNew, StorageError, StorageFull
from ithaca.storage.disk import Disk, File

NAME = "runs"
_NEW = NAME + ".new"
_PAGES_PREFIX = NAME + "-"
_PAGE_FILES_OPEN_MAX = 2
"""Of one lane: the one that is written, and one that is read."""


def is_runs_file(name: str) -> bool:
    """Whether a file of a lane's directory is one of its runs."""
    return name == NAME or name.startswith(_PAGES_PREFIX)


class RunsFile:
    """The open files. One thread at a time."""

    def __init__(
        self, disk: Disk, directory: str, page_entries: int, *, is_dense: bool = True, is_sound: bool = False
    ) -> None:
        """`is_dense` is what new files are for; those that are there say it themselves."""
        self._disk = disk
        self._directory = directory
        self._path = f"{directory}/{NAME}"
        self._page_entries = page_entries
        self._file_pages = RUNS_FILE_PAGES
        self._have_width(DENSE if is_dense else FOLLOWING)
        self._page_files: dict[int, File] = {}
        """Those that were used last, by number."""
        self._first_file = 0
        """Files of pages before this one were removed."""
        self._named_files = 0
        """The names of files of pages before this one are durable."""
        self._is_version_1 = False
        self.last = NOTHING
        self.fenced: Fenced | None = None
        if not is_sound and disk.exists(f"{directory}/{_NEW}"):
            disk.remove(f"{directory}/{_NEW}")
        if disk.exists(self._path):
            self._file: File = disk.open(self._path)
            if is_sound:
                self._check_head()
                self._find_last()
            else:
                self._recover()
            self._named_files = -(-self.last.pages // self._file_pages)
            self._drop_dead_found()
        else:
            self.replace()

    def _have_width(self, width: int) -> None:
        self._width = width
        self._block_bytes = block_bytes(self._page_entries, width)

    # Writing

    def store(self, pages: int, entries: Sequence[Run], dead_pages: int, end_lsn: int) -> int:
        """A generation with `entries` behind the first `pages` pages; returns how many pages there are now."""
        self._check_fence()
        size = self._page_entries
        fresh = max(0, len(entries) - 1) // size
        tail = tuple(entries[fresh * size :])
        last = Generation(self.last.number + 1, pages + fresh, pages, dead_pages, end_lsn, tail)
        chunks = (columns(entries[at * size : (at + 1) * size]) for at in range(fresh))
        self._write_pages(pages, last.number, chunks)
        try:
            self._write_slot(self._file, last)
        except OSError as error:
            raise _translated(error, self._path) from error
        self._sync(self._file)
        self.last = last
        self._mark()
        return last.pages

    def replace(self) -> None:
        """Write `runs` again, and give the new file the name."""
        self._check_fence()
        last = self.last._replace(number=self.last.number + 1, pages_before=self.last.pages)
        try:
            file = self._disk.open(f"{self._directory}/{_NEW}", create=True)
            file.truncate(0)
            head = encode_head(self._page_entries, self._file_pages, self._width)
            file.write(0, [head, bytes(SLOTS_AT + 2 * self._block_bytes - len(head))])
            self._write_slot(file, last)
            file.sync()  # a failure costs nothing: the old file still has the name
        except OSError as error:
            raise _translated(error, self._path) from error
        try:
            self._disk.rename(f"{self._directory}/{_NEW}", self._path)
            self._disk.sync_directory(self._directory)
        except OSError as error:
            raise self._fence(error) from error
        self._file, self.last = file, last
        self._mark()

    def drop_dead(self) -> None:
        """Remove the files whose pages are all dead, as the last generation says."""
        while self._first_file < self._first_live_file:
            self._remove_pages(self._first_file)
            self._first_file += 1

    def _drop_dead_found(self) -> None:
        """The same after an opening: of those that are there, since only damage would name very many others."""
        for at in map(_file_number, self._page_names()):
            if at < self._first_live_file:
                self._remove_pages(at)
        self._first_file = self._first_live_file

    @property
    def _first_live_file(self) -> int:
        return self.last.dead_pages // self._file_pages

    def _remove_pages(self, at: int) -> None:
        self._page_files.pop(at, None)
        path = self._pages_path(at)
        with suppress(OSError):  # nobody reads it any more; the next opening tries again
            if self._disk.exists(path):
                self._disk.remove(path)

    def _write_pages(self, start: int, generation: int, chunks: Iterable[Columns]) -> None:
        """Make pages durable, from number `start` on, and the names of their files."""
        written: dict[int, File] = {}
        try:
            for number, runs in enumerate(chunks, start):
                at = number // self._file_pages
                file = written[at] = self._pages_file(at, create=True)
                self._write_page(file, number, generation, runs)
        except OSError as error:
            raise _translated(error, self._path) from error
        for file in written.values():
            self._sync(file)
        if max(written, default=-1) >= self._named_files:
            try:
                self._disk.sync_directory(self._directory)
            except OSError as error:
                raise self._fence(error) from error
            self._named_files = max(written) + 1

    def _pages_file(self, at: int, *, create: bool = False) -> File:
        file = self._page_files.pop(at, None)
        if file is None:
            file = self._disk.open(self._pages_path(at), create=create)
        self._page_files[at] = file
        while len(self._page_files) > _PAGE_FILES_OPEN_MAX:
            del self._page_files[next(iter(self._page_files))]
        return file

    def _page_names(self) -> list[str]:
        return [name for name in self._disk.list(self._directory) if name.startswith(_PAGES_PREFIX)]

    def _pages_path(self, at: int) -> str:
        return f"{self._directory}/{_PAGES_PREFIX}{at:012d}"

    def _write_page(self, file: File, number: int, generation: int, runs: Columns) -> None:
        file.write(self._at(number), encode_page(number, generation, runs, self._width))

    def _write_slot(self, file: File, last: Generation) -> None:
        file.write(self._slot_at(last.number), encode_slot(last, self._width))

    def _mark(self) -> None:
        with suppress(OSError):  # it is sooner or later written again
            self._file.write(MARK_AT, encode_mark(self.last.number))

    def _sync(self, file: File) -> None:
        try:
            file.sync()
        except OSError as error:
            raise self._fence(error) from error

    def _check_fence(self) -> None:
        if self.fenced is not None:
            raise self.fenced

    def _fence(self, error: OSError) -> Fenced:
        self.fenced = Fenced(
            f"syncing {self._path} failed ({error.strerror}), so nothing is accepted any more; what was synced "
            "is safe: look after the disk, then open it again"
        )
        return self.fenced

    # Reading

    def load_page(self, number: int) -> Columns:
        """The runs of a page; raises `Corrupt`."""
        found = self._parsed_page(number)
        if found is None:
            raise self._page_damaged(number, f"page {number} of the runs")
        return found[1]

    def _parsed_page(self, number: int) -> tuple[int, Columns] | None:
        return parse_page(number, self._read_page(number, self._block_bytes), self._block_bytes, self._width)

    def heads(self) -> Columns:
        """LSN, position and time of the first run of each page that is not dead, as three rows."""
        heads: list[tuple[int, ...]] = []
        for number in range(self.last.dead_pages, self.last.pages):
            head = page_head(number, self._read_page(number, BLOCK_HEAD_BYTES))
            if head is None:
                raise self._page_damaged(number, f"the head of page {number} of the runs")
            heads.append(head[2:5])
        return np.array(heads, np.int64).reshape(-1, 3).T

    def _read_page(self, number: int, count: int) -> bytes:
        if self._is_version_1:
            return self._file.read(SLOTS_AT + self._block_bytes * (2 + number), count)
        try:
            return self._pages_file(number // self._file_pages).read(self._at(number), count)
        except FileNotFoundError:
            return b""

    # Recovery

    def _recover(self) -> None:
        version = self._check_head()
        if version == 1:
            self._adopt_version_1()
            return
        marked = self._find_last()
        if not marked or marked < self.last.number:
            self._store_again(self.last)
        if not marked:
            self.replace()
            return
        self.store(self.last.pages, self.last.tail, self.last.dead_pages, self.last.end_lsn)

    def _find_last(self) -> int:
        """Find the newest generation that counts; returns the one that is marked as synced, 0 if none is."""
        read = self._file.read
        marked = parse_mark(read(MARK_AT, MARK_BYTES))
        parsed = [parse_slot(read(self._slot_at(slot), self._block_bytes), self._width) for slot in (0, 1)]
        found = sorted((slot for slot in parsed if slot is not None), key=lambda slot: -slot.number)
        if not found or marked > found[0].number:
            raise self._damaged(self._slot_at(marked), "the newest generation of runs")
        bad = self._torn_page(found[0])
        if bad is not None:
            if marked >= found[0].number or len(found) < 2:
                raise self._page_damaged(bad, f"page {bad} of the runs")
            del found[0]
        self.last = found[0]
        return marked

    def _adopt_version_1(self) -> None:
        """Move the pages out of `runs`, which stays as it is until they are durable."""
        self._is_version_1 = True
        self._find_last()
        last = self.last
        if SLOTS_AT + self._block_bytes * (2 + last.pages) > self._file.size():
            raise self._damaged(self._file.size(), f"the end of {last.pages} pages of runs")
        pages = (self.load_page(number) for number in range(last.dead_pages, last.pages))
        self._write_pages(last.dead_pages, last.number + 1, pages)
        self.replace()
        self._is_version_1 = False

    def _check_head(self) -> int:
        """The version of the file."""
        head = parse_head(self._file.read(0, HEAD_BYTES))
        if head is None:
            raise self._damaged(0, "the head of the file")
        version, page_entries, file_pages = head
        if version > VERSION:
            raise FormatTooNew(
                f"{self._path} has format version {version}, and this Ithaca knows {VERSION}: use a newer Ithaca",
                found=version,
                supported=VERSION,
            )
        if page_entries != self._page_entries:
            raise Corrupt(f"pages hold {page_entries} runs, not {self._page_entries}", file=self._path, offset=12)
        if version > 1:
            self._file_pages = file_pages
        self._have_width(width_of(version))
        return version

    def _torn_page(self, last: Generation) -> int | None:
        """The first page of a generation that did not come through with it."""
        for number in range(last.pages_before, last.pages):
            found = self._parsed_page(number)
            if found is None or found[0] != last.number:
                return number
        return None

    def _store_again(self, last: Generation) -> None:
        """Make a generation durable that may be in the page cache only."""
        fresh = range(last.pages_before, last.pages)
        self._write_pages(fresh.start, last.number, [self.load_page(number) for number in fresh])
        self._write_slot(self._file, last)
        self._sync(self._file)

    def _at(self, number: int) -> int:
        """Where a page is in its file."""
        return self._block_bytes * (number % self._file_pages)

    def _slot_at(self, generation: int) -> int:
        return SLOTS_AT + self._block_bytes * (generation % 2)

    def inconsistent(self, what: str) -> Corrupt:
        """The parts of the file check out one by one, and not together."""
        return Corrupt(what, file=self._path)

    def _page_damaged(self, number: int, what: str) -> Corrupt:
        path = self._pages_path(number // self._file_pages)
        return Corrupt(f"{what} does not check out, though it was synced", file=path, offset=self._at(number))

    def _damaged(self, offset: int, what: str) -> Corrupt:
        return Corrupt(f"{what} does not check out, though it was synced", file=self._path, offset=offset)


def _file_number(name: str) -> int:
    return int(name.removeprefix(_PAGES_PREFIX))


def _translated(error: OSError, path: str) -> StorageError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StorageFull(f"no space is left for {path}: nothing was lost; free some space and repeat it")
    kind = Fenced if error.errno == errno.EIO else StorageError  # it may have been a sync that failed
    return kind(f"writing {path} failed: {error.strerror}")
