"""The entries that a server holds in memory: a list with an offset, and where each term begins in it."""

from bisect import bisect_right
from collections.abc import Callable, Sequence

from ithaca.raft.messages import Entry

ENTRY_OVERHEAD_BYTES = 32
"""What an entry counts beside its data, so that empty ones are bounded too."""


def entry_bytes(entry: Entry) -> int:
    return ENTRY_OVERHEAD_BYTES + len(entry.data)


Weigh = Callable[[Entry], int]
"""What an entry counts in bytes: itself, and what belongs to it and lies or travels elsewhere."""


class Log:
    """Entries `first_index..last_index`; of the entry before them only the term is known.

    >>> log = Log(previous_index=4, previous_term=1)
    >>> log.append([Entry(5, 2, 0, b""), Entry(6, 3, 0, b"")])
    >>> log.term_at(4), log.term_at(6), log.term_at(3), log.last_at_most(6, 2)
    (1, 3, None, 5)
    """

    __slots__ = ("_entries", "_run_starts", "_run_terms", "_weigh", "first_index", "last_index", "previous_term")

    def __init__(self, previous_index: int = 0, previous_term: int = 0, weigh: Weigh = entry_bytes) -> None:
        self._weigh = weigh
        self.reset(previous_index, previous_term)

    def reset(self, previous_index: int, previous_term: int) -> None:
        """Start again behind a snapshot."""
        self.first_index = previous_index + 1
        self.last_index = previous_index
        self.previous_term = previous_term
        self._entries: list[Entry] = []
        self._run_starts: list[int] = []  # where each term begins, ...
        self._run_terms: list[int] = []  # ... and which it is

    @property
    def last_term(self) -> int:
        return self._entries[-1].term if self._entries else self.previous_term

    def term_at(self, index: int) -> int | None:
        """The term at `index`; None when it is compacted away or beyond the end."""
        offset = index - self.first_index
        if 0 <= offset < len(self._entries):
            return self._entries[offset].term
        return self.previous_term if offset == -1 else None

    def slice(self, start: int, stop: int) -> tuple[Entry, ...]:
        """The entries of `[start, stop)`, all of which are here."""
        assert self.first_index <= start <= stop <= self.last_index + 1, (start, stop, self.first_index)
        return tuple(self._entries[start - self.first_index : stop - self.first_index])

    def batch(self, start: int, entries_max: int, bytes_max: int) -> tuple[Entry, ...]:
        """As many entries from `start` on as the bounds allow, and at least one if there is one."""
        stop = min(self.last_index + 1, start + entries_max)
        total = 0
        for index in range(start, stop):
            total += self._weigh(self._entries[index - self.first_index])
            if total > bytes_max and index > start:
                stop = index
                break
        return self.slice(start, stop)

    def last_at_most(self, index: int, term: int) -> int:
        """The last place up to `index` whose term is at most `term`.

        Terms never fall along a log, so beyond it no log whose term at `index` is `term` can agree with
        this one: rejections skip a whole term at once (§5.3, last paragraph).
        """
        run = bisect_right(self._run_terms, term)
        end = self._run_starts[run] - 1 if run < len(self._run_starts) else self.last_index
        return max(self.first_index - 1, min(index, end))

    def append(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            assert entry.index == self.last_index + 1, (entry.index, self.last_index)
            assert entry.term >= self.last_term, (entry.term, self.last_term)
            if not self._run_terms or self._run_terms[-1] != entry.term:
                self._run_starts.append(entry.index)
                self._run_terms.append(entry.term)
            self._entries.append(entry)
            self.last_index = entry.index

    def truncate(self, index: int) -> None:
        """Drop `index` and everything after it."""
        assert index >= self.first_index, (index, self.first_index)
        del self._entries[index - self.first_index :]
        self.last_index = min(self.last_index, index - 1)
        while self._run_starts and self._run_starts[-1] >= index:
            self._run_starts.pop()
            self._run_terms.pop()

    def compact(self, index: int) -> None:
        """Drop everything up to `index`, which is here; does nothing if it is dropped already."""
        if index < self.first_index:
            return
        term = self.term_at(index)
        assert term is not None, index
        del self._entries[: index + 1 - self.first_index]
        self.first_index = index + 1
        self.previous_term = term
        gone = bisect_right(self._run_starts, index + 1) - 1
        if gone > 0:
            del self._run_starts[:gone]
            del self._run_terms[:gone]
        if not self._entries:
            self._run_starts.clear()
            self._run_terms.clear()
