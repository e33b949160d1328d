"""Replicas that are removed, added and replaced (Scalog §4.4.2 "Remove & replace").

Each step may be repeated: a replica is known by its number, which is never given again, and a server by its address.
The leader does the work and is asked how far it is, so that a new leader goes on where the last one ended.
"""

import asyncio

from ithaca.client.deadline import Deadline
from ithaca.engines.scalog.client.admin.status import ask_server
from ithaca.engines.scalog.client.context import Context
from ithaca.engines.scalog.client.replicas import find_shard, no_such_shard
from ithaca.engines.scalog.messages.order import AdmissionIs
from ithaca.engines.scalog.ordering.entries import RemoveReplica
from ithaca.engines.scalog.ordering.outcomes import RefusedEntry
from ithaca.model.addresses import parse_address
from ithaca.model.arguments import flag, whole
from ithaca.model.errors import AddressInUse, DeadlineExceeded, InvalidInput, NoSuchReplica, ProtocolError, Unavailable
from ithaca.model.health import ServerStatus
from ithaca.model.server_place import ServerPlace
from ithaca.model.view import Address, Shard
from ithaca.runtime.backoff import Backoff

_WHOLE = ("serving", "finalized")
"""States of a replica that has every lane."""


class ReplicaAdmin:
    """The part of a handle's administration that changes who belongs to a shard."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._order = context.order

    async def remove(self, shard: int, replica: int, *, force: bool = False) -> None:
        _check_numbers(shard, replica)
        flag(force, "force")
        await self._remove(shard, replica, None, force=force)

    async def _remove(self, shard: int, replica: int, successor: Address | None, *, force: bool) -> None:
        """One that is to be replaced is not removed for a successor that stands in for another already."""
        deadline, pauses = Deadline(self._context.timeout_s), Backoff()
        while True:
            known = await self._shard(shard)
            if known.find(replica) is None and replica <= known.replica_last:
                return  # it was removed before
            if known.find(replica) is None:
                raise NoSuchReplica(f"there is no replica {replica} of shard {shard}: {_listed(known)}")
            if known.phase != "finalized" and any(each.address == successor for each in known.replicas):
                raise AddressInUse(
                    f"the server at {successor} has become a replica of shard {shard} in the place of another than "
                    f"replica {replica} ({_listed(known)}): replace that one by another spare"
                )
            if not force and not await self._others_suffice(known, replica, is_last=deadline.passed):
                await pauses.pause(deadline)
                continue
            outcomes = await self._order.propose(RemoveReplica(shard, known.epoch, replica), deadline)
            refusal = next((each.reason for each in outcomes if isinstance(each, RefusedEntry)), None)
            if refusal is None:
                await self._order.fresh_view(deadline)
                return
            if refusal == "too few replicas would remain":
                raise InvalidInput(
                    f"shard {shard} has {len(known.replicas)} replicas left, and may lose {known.f} of {known.size}: "
                    "what is ordered would be nowhere; add one first, or finalize the shard"
                )
            if deadline.passed:
                raise DeadlineExceeded(
                    f"replica {replica} was not removed within {deadline.timeout_s:.3g} s: {refusal}"
                )
            await pauses.pause(deadline)

    async def add(self, shard: int, address: str, timeout: float | None) -> int:
        at = parse_address(address)
        _check_numbers(shard)
        _check_room(await self._shard(shard), at)
        return (await self._until(shard, at, ("added",), timeout)).replica

    async def replace(self, shard: int, replica: int, address: str, timeout: float | None) -> int:
        at = parse_address(address)
        _check_numbers(shard, replica)
        known = await self._shard(shard)
        if known.find(replica) is None and (replica > known.replica_last or not _has_room(known, at)):
            raise NoSuchReplica(f"there is no replica {replica} of shard {shard}: {_listed(known)}")
        admission = await self._until(shard, at, ("learning", "whole", "added"), timeout)
        if admission.state == "learning" and await self._is_joined(shard, replica):
            # As long as the old one is there the shard goes on, and the rest of the copying costs nobody anything.
            admission = await self._until(shard, at, ("whole", "added"), timeout)
        await self._remove(shard, replica, at, force=False)
        return (await self._until(shard, at, ("added",), timeout)).replica

    async def _until(self, shard: int, at: Address, states: tuple[str, ...], timeout: float | None) -> AdmissionIs:
        """Ask until the server at the address is so far; one that nobody sees is waited for as any answer is."""
        pauses = Backoff()
        deadline = None if timeout is None else Deadline(timeout)
        absent = Deadline(self._context.timeout_s)
        while True:
            admission = await self._order.admission(shard, at, Deadline(self._context.timeout_s))
            if admission.state in states:
                await self._order.fresh_view(Deadline(self._context.timeout_s))
                return admission
            if admission.state != "absent":
                absent = Deadline(self._context.timeout_s)
            elif absent.passed:
                raise Unavailable(
                    f"no spare waits at {at}: start one there with ithaca serve --spare {at}, in a directory of its own"
                )
            if admission.state == "whole":
                _check_room(await self._shard(shard), at)  # another may have taken the place meanwhile
            if deadline is not None and deadline.passed:
                raise DeadlineExceeded(
                    f"the server at {at} is still {admission.state} after {timeout:.3g} s: ask again"
                )
            await pauses.pause(absent)

    async def _shard(self, shard: int) -> Shard:
        self._context.check()
        view = await self._order.fresh_view(Deadline(self._context.timeout_s))
        known = find_shard(view, shard)
        if known is None:
            raise no_such_shard(view, shard)
        return known

    async def _others_suffice(self, shard: Shard, replica: int, *, is_last: bool) -> bool:
        """What is ordered is on f+1 replicas, so that all but f must lack nothing if this one goes.

        False while others catch up; `InvalidInput` when that does not help, or there was enough time for it.
        """
        others = [each for each in shard.replicas if each.replica != replica]
        places = [ServerPlace("replica", each.replica, each.address, shard.shard) for each in others]
        answers = await asyncio.gather(*(ask_server(self._context.links, place) for place in places))
        lacking = shard.size - shard.f - sum(map(_is_complete, answers))
        if lacking > 0:
            if not is_last and lacking <= sum(answer.state == "catching up" for answer in answers):
                return False
            pairs = zip(others, answers, strict=True)
            states = ", ".join(f"{each.replica} is {answer.state}" for each, answer in pairs) or "there are none"
            raise InvalidInput(
                f"replica {replica} of shard {shard.shard} may have what the others lack ({states}): wait until they "
                "have all, or say force"
            )
        return True

    async def _is_joined(self, shard: int, replica: int) -> bool:
        """Whether the leader has a connection to the replica; whoever does not know the shard has none."""
        answer = await self._order.status(Deadline(self._context.timeout_s))
        try:
            replicas = [one for each in answer["shards"] if each["shard"] == shard for one in each["replicas"]]
            return any(each["replica"] == replica and each["joined"] for each in replicas)
        except (KeyError, TypeError) as error:
            raise ProtocolError(f"an orderer does not say who has joined: {error!r}") from error


def _check_numbers(shard: int, replica: int = 0) -> None:
    whole(shard, "shard")
    whole(replica, "replica")


def _is_complete(answer: ServerStatus) -> bool:
    """Whether a replica says that it lacks nothing that is ordered of its shard."""
    lanes = (answer.status or {}).get("lanes", ())
    return answer.state in _WHOLE and all(lane["durable"] >= lane["ordered"] for lane in lanes)


def _has_room(shard: Shard, address: Address) -> bool:
    """Whether the server at this address is a replica of the shard, or may become one."""
    is_there = any(each.address == address for each in shard.replicas)
    return is_there or shard.phase == "finalized" or len(shard.replicas) < shard.size


def _check_room(shard: Shard, address: Address) -> None:
    if not _has_room(shard, address):
        raise InvalidInput(
            f"shard {shard.shard} has all its {shard.size} replicas ({_listed(shard)}): replace one, or remove one "
            "first"
        )


def _listed(shard: Shard) -> str:
    return ", ".join(f"{each.replica} at {each.address}" for each in shard.replicas)
