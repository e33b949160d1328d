"""Asking the replicas of a shard: any of them may answer, and one that cannot is passed over for the next."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from ithaca.client.deadline import Deadline
from ithaca.engines.scalog.client.links import LeavingWatcher, Link, Links
from ithaca.engines.scalog.client.order import Order
from ithaca.model.errors import (
    Corrupt,
    IthacaError,
    NoSuchShard,
    ProtocolError,
    ShardFinalized,
    StorageError,
    Unavailable,
)
from ithaca.model.limits import ATTEMPT_TIMEOUT_S
from ithaca.model.positions import LaneId
from ithaca.model.view import Address, Replica, Shard, View
from ithaca.protocol.codec import Message, Received
from ithaca.runtime.backoff import Backoff
from ithaca.runtime.machine import rng

Answer = TypeVar("Answer")

ASK_ANOTHER = (Unavailable, StorageError, ProtocolError)
"""What says something of the replica that was asked, and nothing of the question."""


def find_shard(view: View, shard: int) -> Shard | None:
    for each in view.shards:
        if each.shard == shard:
            return each
    return None


def find_replica(view: View, lane: LaneId) -> Replica | None:
    """The replica that writes this lane, or wrote it."""
    shard = find_shard(view, lane.shard)
    return None if shard is None else shard.find(lane.replica)


def is_open(view: View, lane: LaneId) -> bool:
    """Whether the lane may still grow."""
    replica = find_replica(view, lane)
    return replica is not None and replica.is_open and replica.incarnation == lane.incarnation


class Replicas:
    """The replicas of all shards; each shard has one that is asked first, for as long as it answers."""

    def __init__(self, links: Links, order: Order) -> None:
        self._links = links
        self._order = order
        self._preferred: dict[int, Address] = {}

    def places(self, shard: int) -> list[Address]:
        """Where the replicas of a shard are, the preferred one first."""
        found = find_shard(self._order.view, shard)
        places = [replica.address for replica in found.replicas] if found is not None else []
        first: list[Address] = []
        preferred = self._preferred.get(shard)
        if preferred in places:
            places.remove(preferred)
            first = [preferred]
        if len(places) > 1:
            rng().shuffle(places)
        return first + places

    def _usual(self, shard: int) -> Link | None:
        """The way to the replica that is asked first, if it is open and the replica is one of the shard."""
        preferred = self._preferred.get(shard)
        link = None if preferred is None else self._links.opened(preferred)
        if link is None:
            return None
        found = find_shard(self._order.view, shard)
        is_known = found is not None and any(replica.address == preferred for replica in found.replicas)
        return link if is_known else None

    def pass_over(self, shard: int, address: Address) -> None:
        """Ask another one first from now on."""
        if self._preferred.get(shard) == address:
            del self._preferred[shard]

    def watch(self, watcher: LeavingWatcher) -> None:
        """Have somebody told of shards that take nothing new."""
        self._links.watcher = watcher

    async def link(self, address: Address) -> Link:
        return await self._links.link(address)

    async def ask(
        self,
        shard: int,
        message: Message,
        deadline: Deadline,
        take: Callable[[Received], Answer],
        *,
        wait_s: float = 0,
        last: Address | None = None,
        attempt_s: float = ATTEMPT_TIMEOUT_S,
    ) -> Answer:
        """What `take` makes of a replica's answer; an answer that it refuses is asked of another replica.

        `Corrupt` when what is asked for is damaged at every one of them: time does not help then. `wait_s` is how
        long the replica itself may wait before it answers; `last` is asked when no other could answer. Each has
        `attempt_s` at first, and twice as long with each round, up to the usual; one that was silent comes last.
        """
        problems: dict[Address, IthacaError] = {}
        usual = self._usual(shard)
        if usual is not None and usual.address != last:  # the way of nearly all calls, which looks at nothing else
            try:
                return take(await usual.request(message, max(min(deadline.left_s, attempt_s), 0.001) + wait_s))
            except ASK_ANOTHER as error:
                problems[usual.address] = error
                self.pass_over(shard, usual.address)
        pauses = Backoff()
        silent = set(problems)
        clock = asyncio.get_running_loop().time
        while True:
            places = self.places(shard)
            if silent or last is not None:
                places.sort(key=lambda address: (address in silent, address == last))
            for address in places:
                within_s, began_s = max(min(deadline.left_s, attempt_s), 0.001), clock()
                try:
                    link = await self._links.link(address, within_s)
                    answer = take(await link.request(message, within_s + wait_s))
                except ASK_ANOTHER as error:
                    problems[address] = error
                    self.pass_over(shard, address)
                    (silent.add if clock() >= began_s + within_s else silent.discard)(address)
                    if deadline.passed:
                        break
                else:
                    self._preferred[shard] = address
                    return answer
            damage = damaged_everywhere(places, problems)
            if damage is not None:
                raise damage
            if deadline.passed:
                raise _nobody(shard, problems, deadline)
            await pauses.pause(deadline)
            attempt_s = min(2 * attempt_s, ATTEMPT_TIMEOUT_S)
            await self._order.refresh(deadline)
            if find_shard(self._order.view, shard) is None:
                raise no_such_shard(self._order.view, shard)

    def check_shard(self, shard: int) -> None:
        if find_shard(self._order.view, shard) is None:
            raise no_such_shard(self._order.view, shard)


def damaged_everywhere(places: Sequence[Address], problems: Mapping[Address, IthacaError]) -> Corrupt | None:
    """What one of the replicas said, if all of them are there and say that what is asked for is damaged."""
    found = [problems.get(address) for address in places]
    damage = [error for error in found if isinstance(error, Corrupt)]
    return damage[0] if damage and len(damage) == len(found) else None


def check_live(view: View, shard: int) -> None:
    """Raise unless the shard takes new records."""
    found = find_shard(view, shard)
    if found is None:
        raise no_such_shard(view, shard)
    if found.phase != "live":
        raise ShardFinalized(f"shard {shard} is {found.phase}, and takes no more records: append to another")


def no_such_shard(view: View, shard: int) -> NoSuchShard:
    numbers = ", ".join(str(each.shard) for each in view.shards) or "none"
    return NoSuchShard(f"there is no shard {shard}: the cluster has {numbers}")


def _nobody(shard: int, problems: dict[Address, IthacaError], deadline: Deadline) -> Unavailable:
    reasons = "; ".join(f"{address}: {error}" for address, error in problems.items())
    return Unavailable(f"no replica of shard {shard} could answer within {deadline.timeout_s:.3g} s ({reasons})")
