"""The streams of all shards as one, by position: pure, no sockets.

Each piece says where the record before it, in the whole order, ends (`follows`): without a filter it is passed on once
that was. So nothing is waited for, whether positions are dense or some of them are empty. With a filter, what lies
between may have been left out, so a record is passed on only once every shard has said that it has nothing before it.
How far a shard has come is its *watermark*, which also tells where a range ends. It counts only when this side has a
stream from every shard of the view that holds there: a newer view may have a shard whose records come first.

What holds:

1. Records come out in the order of their positions, each once.
2. Unfiltered, no record is passed over: what comes out follows what came out before.
3. Filtered, nothing is passed on, nor passed over, before every shard's watermark.
4. A loss is told in its place, and nothing that is behind it comes out.

A shard that has lost records may not know any more where they stood, only between which positions: they are *strewn*
there. Without a filter they are where no shard has a record, although each has said that it has nothing before that.
With one nobody can tell, so that all of these positions count as lost.
"""

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from ithaca.model.errors import Lost
from ithaca.wire.positioned import AnyPositioned


class Piece(NamedTuple):
    """What a shard has sent of `[start, stop)`; without a batch, no-ops, or what is lost."""

    shard: int
    start: int
    stop: int
    batch: AnyPositioned | None
    bytes: int
    follows: int
    """Where the record before it ends, in whatever shard."""
    lost: Lost | None = None


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
        """Everything below was passed on, or is nowhere."""
        self._passed = position
        """Where the last piece ends that was passed on, or where it began."""
        self._stop = stop
        self._is_filtered = is_filtered
        self._view = 0
        self._strewn: list[tuple[int, int]] = []
        """Between which positions records were lost, in order."""
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

    def receive(
        self,
        shard: int,
        pieces: list[Piece],
        up_to: int,
        view: int,
        strewn: Iterable[tuple[int, int]] = (),
    ) -> None:
        """A shard has sent these, in order, and has nothing else below `up_to`, where this view holds; but between the
        positions that are `strewn` it has lost records, and does not know where they stood."""
        state = self._shards.get(shard)
        if state is None:
            return
        self._strewn = sorted({*self._strewn, *strewn})
        state.pieces += pieces
        if view <= self._view:
            state.up_to = max(state.up_to, up_to)
        else:
            state.marks.append((up_to, view))

    def take(self, bytes_max: int) -> list[Piece]:
        """The next pieces in order, about so many bytes of them; empty when they are not there yet, and at a loss."""
        taken: list[Piece] = []
        size = 0
        while size < bytes_max:
            found = self._nearest()
            if self._strewn and (gone := self._gone(found)) is not None:
                self.position = max(self.position, gone[0])
                break
            if found is None or not self._is_next(found.pieces[0]):
                if found is None or found.pieces[0].start >= self._watermark():
                    self.position = max(self.position, self._watermark())
                break
            if found.pieces[0].lost is not None:
                break
            piece = found.pieces.popleft()
            self._passed = piece.stop
            self.position = max(self.position, piece.stop)
            size += piece.bytes
            taken.append(piece)
        return taken

    @property
    def loss(self) -> Lost | None:
        """What is lost where the next record should be."""
        found = self._nearest()
        if self._strewn and (gone := self._gone(found)) is not None:
            return Lost.among(*gone) if self._is_filtered else Lost.at(*gone)
        return found.pieces[0].lost if found is not None and self._is_next(found.pieces[0]) else None

    def _gone(self, nearest: _Shard | None) -> tuple[int, int] | None:
        """The positions that are lost, or may be, if they come before the next record."""
        while self._strewn and self._strewn[0][1] <= self.position:
            del self._strewn[0]
        stop = self._watermark()
        if nearest is not None:
            piece = nearest.pieces[0]
            stop = min(stop, piece.start if self._is_filtered or piece.lost is not None else piece.follows)
        for low, high in self._strewn:
            start = max(low, self.position)
            if start < stop:
                return start, (high if self._is_filtered else min(high, stop))
        return None

    def _nearest(self) -> _Shard | None:
        """The shard that has the first of the pieces that are here."""
        best: _Shard | None = None
        for state in self._shards.values():
            if state.pieces and (best is None or state.pieces[0].start < best.pieces[0].start):
                best = state
        return best

    def _is_next(self, piece: Piece) -> bool:
        """Whether nothing comes before the first of the pieces."""
        if self._is_filtered:
            return piece.start < self._watermark()
        return piece.follows <= self._passed or (piece.lost is not None and piece.start < self._watermark())

    def _watermark(self) -> int:
        return min((state.up_to for state in self._shards.values()), default=self.position)
