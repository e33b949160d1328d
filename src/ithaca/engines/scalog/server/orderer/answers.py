"""How an orderer answers: as the leader, or with a redirect, or later, when it is known who leads."""

from collections.abc import Callable
from uuid import UUID

from ithaca.engines.scalog.messages.order import Applied
from ithaca.engines.scalog.ordering.entries import OrderingEntry, encode_entry
from ithaca.engines.scalog.ordering.outcomes import ConsumersTold, EngineOutcome, OrderedCut, Outcome, UsersTold
from ithaca.engines.scalog.ordering.state import OrderingState
from ithaca.engines.scalog.server.orderer.leading import LeaderService
from ithaca.engines.scalog.server.orderer.machine import OrderingMachine
from ithaca.model.errors import IthacaError, Unavailable
from ithaca.model.view import Orderers
from ithaca.protocol.codec import Received
from ithaca.protocol.greeting import Redirect
from ithaca.runtime.connection import Connection
from ithaca.runtime.metrics import OrdererMetrics
from ithaca.runtime.raft.ports import Waiter
from ithaca.server.leader_waits import Held, LeaderWaits
from ithaca.server.raft_host.host import RaftHost
from ithaca.server.raft_host.orderers import agreed_orderers


class Answers:
    """What all that takes requests here has in common."""

    def __init__(self, machine: OrderingMachine, host: RaftHost, metrics: OrdererMetrics) -> None:
        self._machine = machine
        self._driver = host.driver
        self.group = host.group
        self._metrics = metrics
        self.leading: LeaderService | None = None
        """While this server leads."""
        self._waits = LeaderWaits(self._turn_away)

    @property
    def state(self) -> OrderingState:
        return self._machine.state

    @property
    def is_current(self) -> bool:
        """Whether the state has all that was agreed on before the leader that is heard began."""
        return self._driver.is_current

    @property
    def orderers(self) -> Orderers:
        """Where those are that may lead, as far as it is agreed."""
        return agreed_orderers(self.group)

    def leader_changed(self) -> list[Held]:
        """Another server leads, or this one does and is ready, or nobody does; says who waited and can be answered."""
        is_ready = self.leading is not None and self.leading.is_ready
        if not is_ready and (self.leading is not None or self.group.leader is None):
            self._waits.lost()
            return []
        return self._waits.found()

    def close(self) -> None:
        self._waits.close()

    # As the leader

    def may_lead(self, connection: Connection, request: Received) -> bool:
        """Whether this server can take a leader's requests; else whoever asks is told, soon or at once."""
        if self.leading is not None and self.leading.is_ready:
            return True
        if not self._waits.hold(connection, request):
            self._turn_away(connection, request)
        return False

    def log_to_lead(self, connection: Connection, request: Received) -> UUID | None:
        """The log, if this server leads it; else whoever asks is told."""
        if not self.may_lead(connection, request):
            return None
        assert self.state.configuration is not None
        return self.state.configuration.log

    def read(self, connection: Connection, request: Received, answer: Callable[[int], None]) -> None:
        """Answer once it is certain that this server led after the request had come."""
        if self.may_lead(connection, request):
            self._driver.submit_read(self.waiter(connection, request, answer))

    def submit(
        self, connection: Connection, request: Received, entry: OrderingEntry, done: Callable[[list[Outcome]], None]
    ) -> None:
        """Have an entry ordered on behalf of a request."""
        if self.has_room(connection, request):
            self._metrics.proposals.inc()
            self._driver.submit(encode_entry(entry), self.waiter(connection, request, done))

    def has_room(self, connection: Connection, request: Received) -> bool:
        """Whether this server's disk takes another entry; else whoever asks is told."""
        if self._driver.storage_full is not None:
            self.fail(connection, request, self._driver.storage_full)
        return self._driver.storage_full is None

    def waiter(self, connection: Connection, request: Received, done: Callable[..., None]) -> Waiter:
        """What Raft calls when what was asked for is done, or cannot be."""
        return Waiter(done, lambda error: self.failed(connection, request, error))

    # Answers

    def applied(self, connection: Connection, request: Received, outcomes: list[Outcome]) -> None:
        unsaid = OrderedCut | ConsumersTold | UsersTold | EngineOutcome
        told = tuple(outcome for outcome in outcomes if not isinstance(outcome, unsaid))
        connection.answer(request, Applied(told))

    def failed(self, connection: Connection, request: Received, error: IthacaError) -> None:
        """What was asked did not come to an end here: it may elsewhere, unless it was perhaps done."""
        if self.leading is None and not error.outcome_unknown:
            self._redirect(connection, request)
        else:
            self.fail(connection, request, error)

    def fail(self, connection: Connection, request: Received, error: IthacaError) -> None:
        self._metrics.refused(error)
        connection.fail(request, error)

    def not_configured(self, connection: Connection, request: Received) -> None:
        why = "the ordering layer is not ready yet: it has just started, or a new leader takes over"
        self.fail(connection, request, Unavailable(why))

    def _turn_away(self, connection: Connection, request: Received) -> None:
        if self.leading is None:
            self._redirect(connection, request)
        else:
            self.not_configured(connection, request)

    def _redirect(self, connection: Connection, request: Received) -> None:
        connection.answer(request, Redirect(self.group.leader, self.orderers))
