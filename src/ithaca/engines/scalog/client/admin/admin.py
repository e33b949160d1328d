"""Changing a cluster while it runs: shards, replicas and orderers come and go (design §5 "Reconfigure", Scalog §4.4).

Every change is one ordered entry that may be proposed twice. So whoever does not know what came of a call repeats
it: a shard is recognised by the addresses of its replicas, and one that is finalized stays finalized.
"""

from collections.abc import Sequence
from typing import Any

from ithaca.client.deadline import Deadline
from ithaca.client.users import UserAdmin
from ithaca.engines.scalog.client.admin.names import NameAdmin
from ithaca.engines.scalog.client.admin.orderers import OrdererAdmin
from ithaca.engines.scalog.client.admin.replicas import ReplicaAdmin
from ithaca.engines.scalog.client.context import Context
from ithaca.engines.scalog.client.replicas import find_shard, no_such_shard
from ithaca.engines.scalog.ordering.entries import Finalize, RegisterShard
from ithaca.engines.scalog.ordering.outcomes import RefusedEntry, ViewChanged
from ithaca.model.addresses import parse_address
from ithaca.model.arguments import flag, items, whole
from ithaca.model.errors import AddressInUse, DeadlineExceeded, InvalidInput, LastShard, Overloaded, ProtocolError
from ithaca.model.interface import ReplicaInfo, ShardInfo, awaited
from ithaca.model.limits import ORDERING_REPLICAS_MAX, SHARD_NUMBER_MAX, SHARD_REPLICAS_MAX
from ithaca.model.positions import LaneId
from ithaca.model.quorum import shard_f
from ithaca.model.units import Duration, optional_seconds, seconds
from ithaca.model.view import Address, Shard, View
from ithaca.protocol.codec import Message
from ithaca.runtime.backoff import Backoff


class AsyncClusterAdmin(OrdererAdmin, NameAdmin, UserAdmin, awaited.Admin):
    """The administration of one handle's cluster."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._order = context.order
        self._replicas = ReplicaAdmin(context)

    async def _ask_about_users(self, message: Message) -> Message:
        self._context.check()
        return await self._order.ask(message, Deadline(self._context.timeout_s))

    async def add_shard(self, replicas: Sequence[str], *, masking: bool = False, shard: int | None = None) -> int:
        self._context.check()
        addresses = _checked_addresses(replicas, flag(masking, "masking"))
        if shard is not None:
            whole(shard, "shard", 0, SHARD_NUMBER_MAX)
        deadline, pauses, least = Deadline(self._context.timeout_s), Backoff(), 0
        while True:
            view = await self._order.fresh_view(deadline)
            known = _same_shard(view, addresses, masking)
            if known is not None and shard in (None, known):
                return known
            self._refuse_taken(view, addresses)
            number = shard if shard is not None else max(least, *(each.shard + 1 for each in view.shards), 0)
            reason = await self._register(number, addresses, masking, deadline)
            if reason is None:
                return number
            if reason == "too many replicas":
                raise InvalidInput(f"the cluster would have more than {ORDERING_REPLICAS_MAX} replicas")
            if reason == "the state is full":
                raise Overloaded("the ordering layer has no room for another shard: trim finalized ones, or the log")
            if reason == "another shard has this number":
                if shard is not None:
                    raise InvalidInput(f"shard {shard} is another one, or was: numbers are never used again")
                least = number + 1
            if deadline.passed:
                raise DeadlineExceeded(f"the shard was not added within {deadline.timeout_s:.3g} s: {reason}")
            await pauses.pause(deadline)

    async def _register(self, number: int, addresses: list[Address], masking: bool, deadline: Deadline) -> str | None:
        """Have the shard registered; the reason why it was not."""
        f = shard_f(len(addresses), masking)
        entry = RegisterShard(number, f, masking, tuple(enumerate(addresses)))
        for outcome in await self._order.propose(entry, deadline):
            if isinstance(outcome, RefusedEntry):
                return outcome.reason
            if isinstance(outcome, ViewChanged):
                await self._order.refresh(deadline, outcome.version)
                return None
        raise ProtocolError("an orderer did not say what became of a new shard")

    def _refuse_taken(self, view: View, addresses: list[Address]) -> None:
        taken = dict.fromkeys(self._order.orderers, "an orderer")
        for shard in view.shards:
            state = " (finalized)" if shard.phase == "finalized" else ""
            taken |= {each.address: f"replica {shard.shard}/{each.replica}{state}" for each in shard.replicas}
        for address in addresses:
            if address in taken:
                raise AddressInUse(f"{address} is the address of {taken[address]}: give each replica its own")

    async def finalize_shard(
        self, shard: int, *, grace_cuts: int = 0, grace: Duration = 0.0, wait: bool = True, force: bool = False
    ) -> None:
        self._context.check()
        whole(shard, "shard", 0, SHARD_NUMBER_MAX)
        grace_s = seconds(grace, "grace")
        whole(grace_cuts, "grace_cuts")
        flag(wait, "wait")
        flag(force, "force")
        deadline = Deadline(self._context.timeout_s)
        until_us = (await self._order.tail(deadline)).time_us + int(grace_s * 1e6) if grace_s else 0
        for outcome in await self._order.propose(Finalize(shard, grace_cuts, until_us, force), deadline):
            if isinstance(outcome, RefusedEntry) and outcome.reason == "no such shard":
                raise no_such_shard(await self._order.fresh_view(deadline), shard)
            if isinstance(outcome, RefusedEntry) and outcome.reason == "no other shard is live":
                raise LastShard(
                    f"shard {shard} is the last one that takes appends: add another first, or say force to leave a "
                    "log that can only be read"
                )
        if wait:
            await self._finalized(shard, Deadline(self._context.timeout_s + grace_s))

    async def _finalized(self, shard: int, deadline: Deadline) -> None:
        """Wait until it is, or even reclaimed."""
        pauses = Backoff()
        while True:
            known = find_shard(await self._order.fresh_view(Deadline(self._context.timeout_s)), shard)
            if known is None or known.phase == "finalized":
                return
            if deadline.passed:
                raise DeadlineExceeded(f"shard {shard} is still {known.phase} after {deadline.timeout_s:.3g} s")
            await pauses.pause(deadline)

    async def remove_replica(self, shard: int, replica: int, *, force: bool = False) -> None:
        await self._replicas.remove(shard, replica, force=force)

    async def add_replica(self, shard: int, address: str, *, timeout: Duration | None = None) -> int:
        return await self._replicas.add(shard, address, optional_seconds(timeout))

    async def replace_replica(self, shard: int, replica: int, address: str, *, timeout: Duration | None = None) -> int:
        return await self._replicas.replace(shard, replica, address, optional_seconds(timeout))

    async def shards(self) -> tuple[ShardInfo, ...]:
        self._context.check()
        deadline = Deadline(self._context.timeout_s)
        view = await self._order.fresh_view(deadline)
        lengths = _lengths(await self._order.status(deadline))
        return tuple(_info(shard, lengths) for shard in view.shards)


def _lengths(status: dict[str, Any]) -> dict[str, int]:
    """The ordered length of every lane, by its name, as an orderer says it of itself."""
    return {lane["lane"]: lane["ordered"] for shard in status.get("shards", ()) for lane in shard.get("lanes", ())}


def _info(shard: Shard, lengths: dict[str, int]) -> ShardInfo:
    replicas = []
    for each in shard.replicas:
        lane = str(LaneId(shard.shard, each.replica, each.incarnation)) if each.incarnation else None
        ordered = 0 if lane is None else lengths.get(lane, 0)
        replicas.append(ReplicaInfo(each.replica, str(each.address), lane, each.is_open, ordered))
    records = sum(length for lane, length in lengths.items() if lane.startswith(f"{shard.shard}-"))
    return ShardInfo(shard.shard, shard.phase, shard.f, shard.masking, tuple(replicas), records)


def _checked_addresses(replicas: Sequence[str], masking: bool) -> list[Address]:
    wanted = 'a list of addresses, such as ["10.0.0.7:7610", "10.0.0.8:7610"]'
    addresses = [parse_address(text) for text in items(replicas, "replicas", wanted)]
    count = len(addresses)
    if not 1 <= count <= SHARD_REPLICAS_MAX:
        raise InvalidInput(f"a shard has 1 to {SHARD_REPLICAS_MAX} replicas, not {count}")
    if masking and (count < 3 or count % 2 == 0):
        raise InvalidInput(f"{count} replicas with masking, which works by majority: use 3, 5, 7, ...")
    if len(set(addresses)) < count:
        raise InvalidInput("two replicas have one address: give each its own")
    return addresses


def _same_shard(view: View, addresses: list[Address], masking: bool) -> int | None:
    """The shard that was registered like this, by a call before this one."""
    for shard in view.shards:
        is_same = shard.masking == masking and [each.address for each in shard.replicas] == addresses
        if is_same and shard.phase != "finalized":
            return shard.shard
    return None
