"""What the Raft group of orderers agrees on: `speculation.state.BelfastState`, entry by entry."""

from collections.abc import Callable

from ithaca.engines.belfast.speculation.entries import decode_entry
from ithaca.engines.belfast.speculation.state import BelfastState
from ithaca.engines.scalog.ordering.outcomes import Outcome
from ithaca.engines.scalog.server.orderer.machine import OrderingMachine


class BelfastMachine(OrderingMachine):
    """The ordering layer's state on this server. After a snapshot came, `slots_state` is another object."""

    def __init__(self, applied: Callable[[int, list[Outcome]], None]) -> None:
        super().__init__(applied, BelfastState())

    @property
    def slots_state(self) -> BelfastState:
        assert isinstance(self.state, BelfastState)
        return self.state

    def apply(self, index: int, term: int, data: bytes) -> list[Outcome]:
        outcomes = self.slots_state.apply(index, decode_entry(data))
        self._applied(term, outcomes)
        return outcomes

    def restore(self, index: int, data: bytes) -> None:
        self.state = BelfastState.restored(data)
