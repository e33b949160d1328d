"""The streams of all shards as one, by position: pure, no sockets.

Positions are dense, so without a filter the next record is the one at the next position, whichever shard it comes
from. With a filter, what lies between may have been left out, so a record is passed on only once every shard has
said that it has nothing before it. How far a shard has come is its *watermark*. It counts only when this side has a
stream from every shard of the view that holds there: a newer view may have a shard whose records come first.

What holds:

1. Records come out in the order of their positions, each once.
2. Unfiltered, no position is passed over unless a shard said that it holds a no-op.
3. Filtered, nothing is passed on, nor passed over, before every shard's watermark.
"""

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from ithaca.wire.positioned import AnyPositioned


class Piece(NamedTuple):
    """What a shard has sent of `[start, stop)`; without a batch, no-ops."""

    shard: int
    start: int
    stop: int
    batch: AnyPositioned | None
    bytes: int


class _Shard:
    __slots__ = ("marks", "pieces", "up_to")

    def __init__(self, position: int) -> None:
        self.pieces: deque[Piece] = deque()
        self.up_to = position
        """The watermark that counts."""
        self.marks: deque[tuple[int, int]] = deque()
        """Watermarks of views that are not known yet, with their views."""


class Merge:
    """Where the streams stand."""

    def __init__(self, position: int, stop: int | None, *, is_filtered: bool) -> None:
        self.position = position
        """Everything below was passed on."""
        self._stop = stop
        self._is_filtered = is_filtered
        self._view = 0
        self._shards: dict[int, _Shard] = {}

    @property
    def is_finished(self) -> bool:
        return self._stop is not None and self.position >= self._stop

    def know(self, view: int, shards: Iterable[int]) -> tuple[list[int], list[int]]:
        """This view has these shards: returns the ones to stream from `position` on, and the ones to end."""
        listed = set(shards)
        if view < self._view:
            return [], []
        self._view = view
        added = sorted(listed - self._shards.keys())
        removed = sorted(self._shards.keys() - listed)
        for shard in added:
            self._shards[shard] = _Shard(self.position)
        for shard in removed:
            del self._shards[shard]
        for state in self._shards.values():
            while state.marks and state.marks[0][1] <= view:
                state.up_to = max(state.up_to, state.marks.popleft()[0])
        return added, removed

    def nothing_left(self) -> None:
        """No shard has, or will have, anything more of the range."""
        if self._stop is not None:
            self.position = max(self.position, self._stop)

    @property
    def wanted_view(self) -> int:
        """The version that some shard has named and that is not known; 0 for none."""
        newest = max((state.marks[-1][1] for state in self._shards.values() if state.marks), default=0)
        return newest if newest > self._view else 0

    def laggards(self) -> list[int]:
        """The shards that the next record waits for."""
        least = min((state.up_to for state in self._shards.values()), default=0)
        return [shard for shard, state in self._shards.items() if not state.pieces and state.up_to == least]

    def receive(self, shard: int, pieces: list[Piece], up_to: int, view: int) -> None:
        """A shard has sent these, in order, and has nothing else below `up_to`, where this view holds."""
        state = self._shards.get(shard)
        if state is None:
            return
        state.pieces += pieces
        if view <= self._view:
            state.up_to = max(state.up_to, up_to)
        else:
            state.marks.append((up_to, view))

    def take(self, bytes_max: int) -> list[Piece]:
        """The next pieces in order, about so many bytes of them; empty when they are not there yet."""
        taken: list[Piece] = []
        size = 0
        while size < bytes_max:
            found = self._next()
            if found is None:
                if self._is_filtered:
                    self.position = max(self.position, self._watermark())
                break
            piece = found.pieces.popleft()
            self.position = max(self.position, piece.stop)
            size += piece.bytes
            taken.append(piece)
        return taken

    def _next(self) -> _Shard | None:
        """The shard that has what comes next."""
        best: _Shard | None = None
        for state in self._shards.values():
            if state.pieces and (best is None or state.pieces[0].start < best.pieces[0].start):
                best = state
        if best is None:
            return None
        start = best.pieces[0].start
        if self._is_filtered:
            return best if start < self._watermark() else None
        return best if start <= self.position else None

    def _watermark(self) -> int:
        return min((state.up_to for state in self._shards.values()), default=self.position)
