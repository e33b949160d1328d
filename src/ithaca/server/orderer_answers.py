"""How an orderer answers: itself, as the leader once it is ready, or with where the leader is."""

from collections.abc import Callable

from ithaca.model.errors import IthacaError, Unavailable
from ithaca.ordering.entries import OrderingEntry, encode_entry
from ithaca.ordering.outcomes import OrderedCut, Outcome
from ithaca.ordering.state import OrderingState
from ithaca.protocol.codec import Received
from ithaca.protocol.messages import Applied, Redirect
from ithaca.runtime.connection import Connection
from ithaca.runtime.metrics import OrdererMetrics
from ithaca.runtime.raft_driver import RaftDriver, Waiter
from ithaca.server.orderer_group import Group
from ithaca.server.orderer_leading import Leading
from ithaca.server.orderer_machine import OrderingMachine
from ithaca.server.orderer_waits import LeaderWaits


class Answers:
    """What all kinds of requests have in common."""

    def __init__(self, machine: OrderingMachine, driver: RaftDriver, group: Group, metrics: OrdererMetrics) -> None:
        self._machine = machine
        self._driver = driver
        self._metrics = metrics
        self.group = group
        self.leading: Leading | None = None
        """While this server leads."""
        self.waits = LeaderWaits(self.turn_away)

    @property
    def state(self) -> OrderingState:
        """What is agreed, as far as it is applied here."""
        return self._machine.state

    def may_lead(self, connection: Connection, request: Received) -> bool:
        """Whether this server can take a leader's requests; else whoever asks is told, soon or at once."""
        if self.leading is not None and self.leading.is_ready:
            return True
        if not self.waits.hold(connection, request):
            self.turn_away(connection, request)
        return False

    def turn_away(self, connection: Connection, request: Received) -> None:
        """Say where the leader is, or that it is not ready."""
        if self.leading is None:
            self._redirect(connection, request)
        else:
            self.fail(connection, request, not_configured())

    def _redirect(self, connection: Connection, request: Received) -> None:
        connection.answer(request, Redirect(self.group.leader, self.group.orderers))

    def submit(
        self, connection: Connection, request: Received, entry: OrderingEntry, done: Callable[[list[Outcome]], None]
    ) -> None:
        """Have an entry ordered; whoever asked is told when that fails."""
        if self._driver.storage_full is not None:
            self.fail(connection, request, self._driver.storage_full)
            return
        self._metrics.proposals.inc()
        waiter = Waiter(done, lambda error: self.failed(connection, request, error))
        self._driver.submit(encode_entry(entry), waiter)

    def answer_applied(self, connection: Connection, request: Received, outcomes: list[Outcome]) -> None:
        """Say what an entry did."""
        told = tuple(outcome for outcome in outcomes if not isinstance(outcome, OrderedCut))
        connection.answer(request, Applied(told))

    def failed(self, connection: Connection, request: Received, error: IthacaError) -> None:
        """What was asked did not come to an end here: it may elsewhere, unless it was perhaps done."""
        if self.leading is None and not error.outcome_unknown:
            self._redirect(connection, request)
        else:
            self.fail(connection, request, error)

    def fail(self, connection: Connection, request: Received, error: IthacaError) -> None:
        """Refuse a request."""
        self._metrics.refused(error)
        connection.fail(request, error)

    def read(self, connection: Connection, request: Received, answer: Callable[[int], None]) -> None:
        """Answer from what is applied, once that is all that was agreed when this was asked."""
        if self.may_lead(connection, request):
            self._driver.submit_read(Waiter(answer, lambda error: self.failed(connection, request, error)))


def not_configured() -> Unavailable:
    """Nobody can be answered before the log is configured."""
    return Unavailable("the ordering layer is not ready yet: it has just started, or a new leader takes over")
