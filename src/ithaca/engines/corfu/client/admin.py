"""What changes a cluster of this engine: its units, and who hands out rows."""

import asyncio
import math
from collections.abc import Sequence
from typing import Any

from ithaca.client.asking import ask_status
from ithaca.client.deadline import Deadline
from ithaca.engines.corfu.client.driving import Driver
from ithaca.engines.corfu.client.enlisting import enlisted
from ithaca.engines.corfu.client.links import Links
from ithaca.engines.corfu.sequencing.flows.flow import Steps
from ithaca.engines.corfu.sequencing.flows.knowledge import fetched
from ithaca.engines.corfu.sequencing.flows.reconfiguring import reconfigured
from ithaca.engines.corfu.sequencing.projection import Projection, UnitMember
from ithaca.model.addresses import parse_address
from ithaca.model.arguments import items, whole
from ithaca.model.errors import (
    AddressInUse,
    DeadlineExceeded,
    InvalidInput,
    IthacaError,
    NoSuchOrderer,
    NoSuchUnit,
    Unavailable,
)
from ithaca.model.interface import UnitInfo
from ithaca.model.interface.awaited import Admin
from ithaca.model.security.tls import TLS
from ithaca.model.units import Duration, optional_seconds
from ithaca.model.view import Address
from ithaca.runtime.backoff import Backoff
from ithaca.runtime.checks import too_late


class CorfuAdmin(Admin):
    """Every call may be repeated: it says what shall be so."""

    def __init__(self, links: Links, driver: Driver, timeout_s: float) -> None:
        self._links = links
        self._driver = driver
        self._timeout_s = timeout_s

    async def units(self) -> tuple[UnitInfo, ...]:
        projection = await self._projection()
        orderers = [address for _, address in self._driver.knowledge.known.sequencers]
        addresses = [*orderers, *(unit.address for unit in projection.units)]
        answers = await asyncio.gather(*(_status(address, self._links.tls) for address in addresses))
        said = dict(zip(addresses, answers, strict=True))
        copying: dict[str, Any] = next((found for each in orderers if (found := said[each].get("copying"))), {})
        return tuple(_info(projection, unit, said[unit.address], copying) for unit in projection.units)

    async def add_unit(self, address: str) -> int:
        return (await self._enlisted(parse_address(address))).number

    async def add_units(self, addresses: Sequence[str]) -> int:
        wanted = 'a list of addresses, head first, such as ["10.0.0.7:7605", "10.0.0.8:7605"]'
        places = [parse_address(address) for address in items(addresses, "addresses", wanted)]
        if not places or len(set(places)) < len(places):
            raise InvalidInput("a set needs units at addresses of their own: name one or more, each once")
        chain = tuple([(await self._enlisted(place)).number for place in places])
        deadline, pauses = Deadline(self._timeout_s), Backoff()
        while True:
            projection = await self._projection()
            active = projection.ranges[-1].sets
            if chain in active:
                return active.index(chain)
            taken = {unit for each in projection.chains() for unit in each}.intersection(chain)
            if taken:
                raise AddressInUse(f"unit {min(taken)} has rows already: a set needs units that have none")
            reason = await self._change(reconfigured(self._driver.knowledge, projection, added=chain))
            await _again(deadline, pauses, f"the units were enlisted, and are no set yet: {reason or 'one is silent'}")

    async def replace_unit(self, unit: int, address: str | None = None, *, timeout: Duration | None = None) -> int:
        deadline, pauses = _deadline(timeout), Backoff()
        whole(unit, "unit")
        at = None if address is None else parse_address(address)
        projection = await self._projection()
        if projection.member(unit) is None:
            raise NoSuchUnit(f"there is no unit {unit}: ithaca unit list names them")
        successor = await self._successor(projection, unit, at)
        while (projection := await self._projection()).member(unit) is not None:
            moved = ((unit, successor),) if any(unit in chain for chain in projection.ranges[-1].sets) else ()
            is_left = any(unit in chain for chain in projection.chains())
            if moved or not is_left:
                # Whatever it had is elsewhere: nobody counts on it any more.
                without = frozenset() if is_left else frozenset({unit})
                change = reconfigured(self._driver.knowledge, projection, moved=moved, without=without)
                reason = await self._change(change)
                if reason:
                    await _again(deadline, pauses, f"unit {unit} cannot be replaced yet: {reason}")
            else:
                await _again(deadline, pauses, f"what unit {unit} has is still copied: repeat the call to wait on")
        return successor

    async def rebuild_units(self, *, timeout: Duration | None = None) -> None:
        deadline, pauses = _deadline(timeout), Backoff()
        while True:
            projection = await self._projection()
            sizes, active = self._driver.knowledge.known.sizes, projection.ranges[-1].sets
            if not projection.short_chains(sizes) and not _is_moving(projection):
                return
            used = {unit for chain in projection.chains() for unit in chain}
            is_short = any(len(chain) < size for chain, size in zip(active, sizes, strict=True))
            if is_short and not any(unit.number not in used for unit in projection.units):
                raise Unavailable("a chain has fewer units than it should, and there is no spare: add a unit")
            await _again(deadline, pauses, "units still copy what they lack: repeat the call to wait on")

    async def replace_sequencer(self, sequencer: int | None = None) -> int:
        deadline, pauses = Deadline(self._timeout_s), Backoff()
        if sequencer is not None:
            whole(sequencer, "sequencer")
        projection = await self._projection()
        knowledge = self._driver.knowledge
        wanted = knowledge.sequencer_after(projection.sequencer) if sequencer is None else sequencer
        if wanted and wanted not in knowledge.sequencers:
            raise NoSuchOrderer(f"there is no orderer {wanted} that could hand out positions: ithaca status names them")
        while projection.sequencer != wanted:
            reason = await self._change(reconfigured(knowledge, projection, sequencer=wanted))
            projection = knowledge.projection
            if reason:
                await _again(deadline, pauses, f"the sequencer cannot be replaced yet: {reason}")
                projection = await self._projection()
        return wanted

    async def _change(self, steps: Steps[str]) -> str:
        """Says why the cluster cannot be changed like this now, or nothing if it was, or has changed otherwise."""
        return await self._driver.run(steps, by_administrator=True)

    async def _projection(self) -> Projection:
        """As it is now."""
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._driver.run(fetched(self._driver.knowledge))
        except TimeoutError as error:
            raise too_late(self._timeout_s) from error
        return self._driver.knowledge.projection

    async def _enlisted(self, address: Address) -> UnitMember:
        await self._projection()
        if any(address == other for _, other in self._driver.knowledge.known.sequencers):
            raise AddressInUse(f"an orderer has the address {address}")
        try:
            return await enlisted(self._links, self._driver, address, may_renew=False)
        except Unavailable as error:
            raise Unavailable(f"no unit is enlisted at {address}: start it first ({error})") from error

    async def _successor(self, projection: Projection, unit: int, address: Address | None) -> int:
        """The unit that takes the place of this one, or has taken it before and copies."""
        number = None if address is None else (await self._enlisted(address)).number
        active = projection.ranges[-1].sets
        if not any(unit in chain for chain in active):
            for each in projection.ranges[:-1]:
                for at, chain in enumerate(each.sets):
                    copying = [other for other in active[at] if other not in chain]
                    if unit in chain and copying and number in (None, *copying):
                        return copying[0]
        used = {other for chain in projection.chains() for other in chain}
        if number is not None:
            if number in used or number == unit:
                raise AddressInUse(f"unit {number} has a place in a chain already: name a spare")
            return number
        spares = [each.number for each in projection.units if each.number not in used and each.number != unit]
        if not spares:
            raise Unavailable("there is no spare to take the place: name the address at which one waits")
        return spares[0]


def _is_moving(projection: Projection) -> bool:
    """Whether a closed range has units that have left the active one."""
    active = projection.ranges[-1].sets
    return any(
        set(chain) - set(active[number]) for each in projection.ranges[:-1] for number, chain in enumerate(each.sets)
    )


def _info(projection: Projection, unit: UnitMember, said: dict[str, Any], copying: dict[str, Any]) -> UnitInfo:
    number = unit.number
    at, place = next(
        ((at, chain.index(number)) for at, chain in enumerate(projection.ranges[-1].sets) if number in chain),
        (None, None),
    )
    ranges = sum(any(number in chain for chain in each.sets) for each in projection.ranges)
    copied = copying.get("done") if copying.get("unit") == number else None
    return UnitInfo(number, str(unit.address), at, place, ranges, str(said["state"]), said.get("rows"), copied)


async def _status(address: Address, tls: TLS | None) -> dict[str, Any]:
    try:
        return await ask_status(address, tls)
    except IthacaError as error:
        return {"state": "unreachable", "error": str(error)}


def _deadline(timeout: Duration | None) -> Deadline:
    """None has no end."""
    timeout_s = optional_seconds(timeout)
    return Deadline(math.inf if timeout_s is None else timeout_s)


async def _again(deadline: Deadline, pauses: Backoff, reason: str) -> None:
    if deadline.passed:
        raise DeadlineExceeded(f"not done within {deadline.timeout_s:.3g} s: {reason}")
    await pauses.pause(deadline)
