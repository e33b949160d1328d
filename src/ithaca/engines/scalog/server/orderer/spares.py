"""Speaks with spares and learners for `ordering.decisions.spares`, during one term."""

import logging
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from ithaca.engines.scalog.messages.order import AdmissionIs
from ithaca.engines.scalog.messages.reporting import Enlisted
from ithaca.engines.scalog.ordering.decisions.spares import (
    Appoint,
    Learner,
    SpareEffect,
    Spares,
    Supersede,
    Warn,
    WatchLearners,
)
from ithaca.engines.scalog.ordering.leader import CutProposer
from ithaca.engines.scalog.ordering.reports import Report
from ithaca.engines.scalog.ordering.state import OrderingState
from ithaca.engines.scalog.server.orderer.ports import Plan, Submit, Warnings
from ithaca.model.errors import IthacaError
from ithaca.model.limits import LEARNERS_LOOK_S
from ithaca.model.view import Address, Shard
from ithaca.protocol.codec import Received
from ithaca.runtime.connection import Connection
from ithaca.runtime.machine import monotonic_s
from ithaca.runtime.raft.ports import Waiter

_log = logging.getLogger("ithaca.orderer")


class SpareService:
    """Those that wait to be somebody, with their connections."""

    def __init__(
        self,
        state: OrderingState,
        submit: Submit,
        submit_read: Callable[[Waiter], None],
        plan: Plan,
        warnings: Warnings,
    ) -> None:
        """`submit_read` tells once it is certain that this server leads."""
        self.core: Spares[Connection] = Spares(state)
        self._submit = submit
        self._submit_read = submit_read
        self._plan = plan
        self._warnings = warnings
        self._requests: dict[Address, tuple[Connection, Received]] = {}
        """Of those that wait: how they are told."""
        self._is_over = False

    def __len__(self) -> int:
        return len(self.core)

    def close(self) -> None:
        """The term is over: who waits looks for another leader."""
        self._is_over = True
        waiting, self._requests = self._requests, {}
        for connection, _ in waiting.values():
            connection.close()

    def connections(self) -> Iterator[Connection]:
        """Those over which somebody waits."""
        return (connection for connection, _ in self._requests.values())

    # What they ask

    def enlist(self, connection: Connection, request: Received, address: Address) -> None:
        """A spare is there: it is told who it is, as soon as somebody says so."""
        decided = self.core.enlist(address, connection, monotonic_s())
        if isinstance(decided, IthacaError):
            connection.fail(request, decided)
        else:
            self._requests[address] = connection, request
            self._perform(decided)

    def lost(self, connection: Connection) -> None:
        """The connection has ended."""
        self.core.lost(connection)
        self._requests = {address: each for address, each in self._requests.items() if each[0] is not connection}

    def joins(self, shard: Shard, replica: int, address: Address | None, connection: Connection) -> IthacaError | None:
        """A replica that the shard does not have wants to learn; why it cannot."""
        decided = self.core.join(shard, replica, address, connection, monotonic_s())
        if isinstance(decided, IthacaError):
            return decided
        self._perform(decided)
        return None

    def admission(self, number: int, address: Address) -> AdmissionIs | IthacaError:
        """Have the server at this address learn the shard, if it does not yet; how far it is."""
        decided = self.core.admit(number, address, monotonic_s())
        if isinstance(decided, IthacaError):
            return decided
        admission, effects = decided
        self._perform(effects)
        return AdmissionIs(admission.state, admission.replica)

    # What the term tells

    def view_changed(self) -> None:
        """Spares may have become replicas by the view."""
        self._perform(self.core.view_changed())

    def complete(self, shards: Iterable[Shard], *, forgets_absent: bool) -> None:
        """Have spares learn what these shards are short of."""
        self._perform(self.core.complete(shards, monotonic_s(), forgets_absent=forgets_absent))

    @property
    def has_learners(self) -> bool:
        """Whether anybody learns who may be added by what he reports."""
        return self.core.has_learners

    def reported(self, leader: CutProposer, report: Report) -> None:
        """Add whoever has reported, if it is a learner that has caught up."""
        entry = self.core.reported(leader, report)
        if entry is not None:
            _log.info("replica %d has all of shard %d, and is added", entry.replica, entry.shard)
            over = partial(self._added, entry.shard)
            self._submit(entry, over, over)

    # Parts

    def _perform(self, effects: list[SpareEffect]) -> None:
        for effect in effects:
            match effect:
                case Appoint(address, shard, replica):
                    _log.info("the spare at %s is, or is to be, replica %d of shard %d", address, replica, shard)
                    connection, request = self._requests.pop(address)
                    connection.answer(request, Enlisted(shard, replica))
                case Supersede(link):
                    assert isinstance(link, Connection)
                    link.close()
                case WatchLearners():
                    self._look_at_learners()
                case Warn(text):
                    self._warnings.tell(text)

    def _added(self, shard: int, _: object) -> None:
        self.core.added(shard)

    def _look_at_learners(self) -> None:
        """Let go of learners that nobody asks for any more, once it is certain that this server leads."""
        if self._is_over:
            return
        now_s = monotonic_s()
        for address, learner in self.core.unasked(now_s):
            self._submit_read(Waiter(partial(self._let_go, address, learner), lambda _: None))
        left_s = self.core.unasked_in_s(monotonic_s())
        if left_s is not None:
            self._plan(max(left_s, LEARNERS_LOOK_S), self._look_at_learners)

    def _let_go(self, address: Address, learner: Learner[Connection], _: int) -> None:
        if self._is_over:
            return
        told = self.core.let_go(address, learner, monotonic_s())
        if told is not None:
            _log.warning("the server at %s is a spare again: %s", address, told)
            if learner.link is not None:
                learner.link.refuse(told)
