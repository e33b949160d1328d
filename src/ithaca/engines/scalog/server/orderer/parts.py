"""Prepared parts, as the leader looks after them during its term: they are sealed when durable, and expire in time."""

import logging
from collections.abc import Callable
from typing import NamedTuple

from ithaca.engines.scalog.messages.appending import FinishPart
from ithaca.engines.scalog.ordering.leader import CutProposer
from ithaca.engines.scalog.ordering.outcomes import Outcome
from ithaca.engines.scalog.ordering.prepared.entries import SealPart
from ithaca.engines.scalog.ordering.prepared.expiry import PartExpiry
from ithaca.engines.scalog.ordering.prepared.finishing import finish
from ithaca.engines.scalog.ordering.prepared.outcomes import PartDropped, PartOpened, PartSealed
from ithaca.engines.scalog.ordering.state import OrderingState
from ithaca.engines.scalog.server.orderer.ports import Plan, Submit
from ithaca.model.errors import IthacaError, Unavailable
from ithaca.model.limits import ORDERER_RETRY_S
from ithaca.model.positions import LaneId

_log = logging.getLogger("ithaca.orderer")


class _Finishing(NamedTuple):
    """A client that waits until its part is durable."""

    message: FinishPart
    done: Callable[[list[Outcome]], None]
    failed: Callable[[IthacaError], None]


class PartKeeping:
    """The leader's work for parts."""

    def __init__(self, state: OrderingState, submit: Submit, plan: Plan, time_us: Callable[[], int]) -> None:
        """`time_us` is the order's time."""
        self._state = state
        self._time_us = time_us
        self._submit = submit
        self._plan = plan
        self._finishing: dict[LaneId, _Finishing] = {}
        self._expiry = PartExpiry(state)

    def finish(
        self,
        leader: CutProposer | None,
        message: FinishPart,
        done: Callable[[list[Outcome]], None],
        failed: Callable[[IthacaError], None],
    ) -> None:
        """Seal the part, now or when a report says that it is durable."""
        former = self._finishing.pop(message.lane, None)
        if former is not None:
            former.failed(Unavailable(f"part {message.lane} is being finished by a later request"))
        self._try(leader, _Finishing(message, done, failed))

    @property
    def are_awaited(self) -> bool:
        """Whether somebody waits until a part is durable."""
        return bool(self._finishing)

    def reported(self, leader: CutProposer, shard: int) -> None:
        """Something of this shard may be durable that was not."""
        for lane, finishing in list(self._finishing.items()):
            if lane.shard == shard:
                del self._finishing[lane]
                self._try(leader, finishing)

    def applied(self, leader: CutProposer | None, outcomes: list[Outcome]) -> None:
        for outcome in outcomes:
            if isinstance(outcome, PartOpened):
                self.look_at(outcome.part.until_us)
            elif isinstance(outcome, PartSealed | PartDropped):
                finishing = self._finishing.pop(outcome.lane, None)
                if finishing is not None:
                    self._try(leader, finishing)

    def look_at(self, until_us: int | None) -> None:
        """A part expires at this time."""
        if self._expiry.expires(until_us):
            self._plan(self._expiry.look_in_s(self._time_us()), self._expire)

    def end(self) -> None:
        """Another term has begun, or the server stops."""
        finishing, self._finishing = self._finishing, {}
        for each in finishing.values():
            each.failed(Unavailable("another orderer leads, or none"))

    def _try(self, leader: CutProposer | None, finishing: _Finishing) -> None:
        message = finishing.message
        decided = finish(self._state, leader, message.lane, message.token, message.length)
        match decided:
            case PartSealed():
                finishing.done([decided])
            case SealPart():
                self._seal(leader, finishing, decided)
            case None:
                self._finishing[message.lane] = finishing
            case error:
                finishing.failed(error)

    def _seal(self, leader: CutProposer | None, finishing: _Finishing, entry: SealPart) -> None:
        def sealed(outcomes: list[Outcome]) -> None:
            self._try(leader, finishing)  # if the configuration has changed, reports of the new one are waited for

        self._submit(entry, sealed, finishing.failed)

    def _expire(self) -> None:
        entry = self._expiry.look(self._time_us())
        if entry is None:
            self.look_at(self._expiry.next_us)
            return
        self._submit(entry, self._expired, self._not_expired)

    def _expired(self, outcomes: list[Outcome]) -> None:
        _log.info("%d prepared part(s) have expired", sum(isinstance(each, PartDropped) for each in outcomes))
        self.look_at(self._expiry.next_us)

    def _not_expired(self, error: IthacaError) -> None:
        self._plan(ORDERER_RETRY_S, self._expire)
