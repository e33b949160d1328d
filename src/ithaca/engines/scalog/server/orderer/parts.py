"""Prepared parts, as the leader looks after them during its term: they are sealed when durable, and expire in time."""

import logging
from collections.abc import Callable
from typing import NamedTuple

from msgspec.structs import replace

from ithaca.engines.scalog.messages.appending import FinishPart
from ithaca.engines.scalog.ordering.entries import MoveSession, OpenSession, OrderingEntry
from ithaca.engines.scalog.ordering.leader import CutProposer
from ithaca.engines.scalog.ordering.outcomes import Outcome
from ithaca.engines.scalog.ordering.prepared.entries import ExpireParts, OpenPart, Publish, RenewParts
from ithaca.engines.scalog.ordering.prepared.outcomes import PartDropped, PartOpened, PartSealed
from ithaca.engines.scalog.ordering.state import OrderingState
from ithaca.model.errors import IthacaError, PartGone, Unavailable
from ithaca.model.limits import ORDERER_RETRY_S
from ithaca.model.positions import LaneId

_log = logging.getLogger("ithaca.orderer")
_LOOK_S_MAX = 60.0
"""The order's time may pass a little slower than time does: it is looked at this often."""

Submit = Callable[[OrderingEntry, Callable[[list[Outcome]], None], Callable[[IthacaError], None]], None]
Plan = Callable[[float, Callable[[], None]], None]


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
        self._look_at_us: int | None = None

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

    def reported(self, leader: CutProposer, shard: int) -> None:
        """Something of this shard may be durable that was not."""
        for lane, finishing in list(self._finishing.items()) if self._finishing else ():
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
        if until_us is not None and (self._look_at_us is None or until_us < self._look_at_us):
            self._look_at_us = until_us
            self._plan(min(max(0.0, (until_us - self._time_us()) / 1e6), _LOOK_S_MAX), self._expire)

    def end(self) -> None:
        """Another term has begun, or the server stops."""
        finishing, self._finishing = self._finishing, {}
        for each in finishing.values():
            each.failed(Unavailable("another orderer leads, or none"))

    def _try(self, leader: CutProposer | None, finishing: _Finishing) -> None:
        message = finishing.message
        part = self._state.parts.find((message.lane, message.token))
        if part is None:
            finishing.failed(PartGone(f"part {message.lane} was aborted, has expired or was never made"))
            return
        if part.length == message.length:
            finishing.done([PartSealed(part.lane, part.length)])
            return
        try:
            entry = None if leader is None else leader.seal(part, message.length)
        except IthacaError as error:
            finishing.failed(error)
            return
        if entry is None:
            self._finishing[message.lane] = finishing
            return

        def sealed(outcomes: list[Outcome]) -> None:
            self._try(leader, finishing)  # if the configuration has changed, reports of the new one are waited for

        self._submit(entry, sealed, finishing.failed)

    def _expire(self) -> None:
        self._look_at_us = None
        time_us = self._time_us()
        due = self._state.parts.due(time_us)
        if not due:
            self.look_at(self._state.parts.next_until_us)
            return
        _log.info("%d prepared part(s) have expired", len(due))
        self._submit(ExpireParts(due, time_us), self._expired, self._not_expired)

    def _expired(self, outcomes: list[Outcome]) -> None:
        self.look_at(self._state.parts.next_until_us)

    def _not_expired(self, error: IthacaError) -> None:
        self._plan(ORDERER_RETRY_S, self._expire)


def timed(entry: OrderingEntry, time_us: int) -> OrderingEntry:
    """An entry of a client, with the order's time where it needs one."""
    if isinstance(entry, OpenPart | RenewParts | Publish | OpenSession | MoveSession):
        return replace(entry, time_us=time_us)
    return entry
