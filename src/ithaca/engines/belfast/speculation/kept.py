"""Windows that are kept until they are trimmed, so that the owner of a position can say that it is empty.

Windows that follow each other and share out their slots alike are kept as one: a log whose shards do not change keeps
a single span, however long it is.
"""

from bisect import bisect_right
from typing import Generic, NamedTuple, Protocol, TypeVar

from ithaca.engines.belfast.speculation.windows import LaneShare, Layout, Window
from ithaca.model.positions import LaneId


class _Rounds(Protocol):
    @property
    def slots(self) -> int: ...


R = TypeVar("R", bound=_Rounds)


class Span(NamedTuple, Generic[R]):
    """Whole rounds of one kind, at the positions `[base, end)`."""

    base: int
    end: int
    rounds: R


class Spans(Generic[R]):
    """Spans in order, found by bisection."""

    def __init__(self, spans: list[Span[R]] | None = None) -> None:
        self.spans: list[Span[R]] = spans or []

    def add(self, base: int, end: int, rounds: R) -> None:
        """The next span, behind all that are here."""
        assert not self.spans or base >= self.spans[-1].end, f"{base} is not behind {self.spans[-1].end}"
        if self.spans and self.spans[-1].end == base and self.spans[-1].rounds == rounds:
            self.spans[-1] = self.spans[-1]._replace(end=end)
        else:
            self.spans.append(Span(base, end, rounds))

    def find(self, position: int) -> Span[R] | None:
        """The span that has this position; None where there are no slots, or none any more."""
        row = bisect_right(self.spans, position, key=_base) - 1
        return self.spans[row] if row >= 0 and position < self.spans[row].end else None

    def offset(self, position: int) -> tuple[R, int] | None:
        """The kind of round that this position is in, and its place there."""
        span = self.find(position)
        return None if span is None else (span.rounds, (position - span.base) % span.rounds.slots)

    def trim(self, first: int) -> None:
        """Nothing before this position is asked for any more."""
        row = bisect_right(self.spans, first, key=_end)
        del self.spans[:row]


class KeptWindows(Spans[Layout]):
    """What orderers keep: who owns a position."""

    def keep(self, window: Window) -> None:
        self.add(window.base, window.end, window.layout)

    def is_another(self, layout: Layout, base: int) -> bool:
        """Whether a window of this layout that begins there would be a span of its own."""
        return not self.spans or self.spans[-1].end != base or self.spans[-1].rounds != layout

    def owner(self, position: int) -> LaneId | None:
        """The lane that has a slot there; None where there are no slots."""
        found = self.offset(position)
        return None if found is None else found[0].owner(found[1])[0]


class KeptShares(Spans[LaneShare]):
    """What a shard keeps of its own: whether a position is a slot of one of its lanes.

    If it is one, and no run of the shard has it although the order has passed it, then it is empty.
    """

    def owns(self, position: int) -> bool:
        found = self.offset(position)
        return found is not None and found[0].owns(found[1])


def _base(span: Span[R]) -> int:
    return span.base


def _end(span: Span[R]) -> int:
    return span.end
