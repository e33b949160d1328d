"""What a Raft group of orderers agrees on, as its state machine: `ordering.OrderingState`, entry by entry."""

from collections.abc import Callable, Iterator

from ithaca.engines.scalog.ordering.entries import decode_entry
from ithaca.engines.scalog.ordering.outcomes import Outcome
from ithaca.engines.scalog.ordering.state import OrderingState


class OrderingMachine:
    """The ordering layer's state on this server. After a snapshot came, `state` is another object."""

    def __init__(self, applied: Callable[[int, list[Outcome]], None], state: OrderingState | None = None) -> None:
        """`applied` is told each entry's term and outcomes, before whoever proposed it."""
        self.state = state or OrderingState()
        self._applied = applied

    def apply(self, index: int, term: int, data: bytes) -> list[Outcome]:
        outcomes = self.state.apply(index, decode_entry(data))
        self._applied(term, outcomes)
        return outcomes

    def snapshot(self) -> Iterator[bytes]:
        return self.state.snapshot_pieces()

    def restore(self, index: int, data: bytes) -> None:
        self.state = OrderingState.restored(data)
