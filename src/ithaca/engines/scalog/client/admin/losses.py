"""Records that are ordered and gone, as a handle asks for them: they are listed, and declared lost."""

import asyncio
from collections.abc import Sequence

from ithaca.client.deadline import Deadline
from ithaca.engines.scalog.client.admin.admin import AsyncClusterAdmin
from ithaca.engines.scalog.client.admin.status import ask_server, replicas_of
from ithaca.engines.scalog.messages.losing import DeclareLoss
from ithaca.engines.scalog.messages.order import Applied
from ithaca.engines.scalog.missing import missing_records
from ithaca.engines.scalog.ordering.outcomes import RangeLost, RefusedEntry
from ithaca.model.arguments import items, whole
from ithaca.model.errors import InvalidInput, Overloaded, ProtocolError
from ithaca.model.interface import MissingInfo
from ithaca.model.limits import (
    INCARNATION_MAX,
    LANE_RECORDS_MAX,
    ORDERING_LOST_RANGES_MAX,
    REPLICA_NUMBER_MAX,
    SHARD_NUMBER_MAX,
)
from ithaca.model.positions import LaneId


class LossAdmin(AsyncClusterAdmin):
    """The administration of a cluster in which records can be declared lost."""

    async def missing(self) -> tuple[MissingInfo, ...]:
        self._context.check()
        deadline = Deadline(self._context.timeout_s)
        view = await self._order.fresh_view(deadline)
        servers = await asyncio.gather(*(ask_server(self._context.links, place) for place in replicas_of(view)))
        return tuple(missing_records(servers, await self._order.status(deadline)))

    async def declare_lost(self, lane: str, start: int, stop: int, *, without: Sequence[int] = ()) -> None:
        self._context.check()
        lsns = (whole(start, "start", 0, LANE_RECORDS_MAX), whole(stop, "stop", 0, LANE_RECORDS_MAX))
        message = DeclareLoss(_checked_lane(lane), *lsns, _checked_numbers(without))
        answer = await self._order.ask(message, Deadline(self._context.timeout_s))
        for outcome in answer.outcomes if isinstance(answer, Applied) else ():
            if isinstance(outcome, RangeLost):
                return
            if isinstance(outcome, RefusedEntry) and outcome.reason == "too many lost ranges":
                raise Overloaded(
                    f"the log has {ORDERING_LOST_RANGES_MAX} ranges of lost records, and takes no more: trim what is "
                    "before them, or declare one range instead of many"
                )
            if isinstance(outcome, RefusedEntry):
                raise InvalidInput(f"lane {lane} has changed meanwhile: {outcome.reason}")
        raise ProtocolError(f"an orderer answered DeclareLoss with {answer!r}")


def _checked_lane(lane: str) -> LaneId:
    numbers = lane.split("-") if isinstance(lane, str) else []
    if len(numbers) != 3 or not all(each.isdecimal() and each.isascii() for each in numbers):
        raise InvalidInput(f"{lane!r} is no lane: write it as it is listed, SHARD-REPLICA-INCARNATION, such as 0-1-3")
    found = LaneId(*map(int, numbers))
    if found.shard > SHARD_NUMBER_MAX or found.replica > REPLICA_NUMBER_MAX or not 1 <= found[2] <= INCARNATION_MAX:
        raise InvalidInput(f"there can be no lane {lane}")
    return found


def _checked_numbers(without: Sequence[int]) -> tuple[int, ...]:
    numbers = items(without, "without", "the numbers of replicas, such as [1]")
    return tuple(sorted({whole(number, "without", 0, REPLICA_NUMBER_MAX) for number in numbers}))
