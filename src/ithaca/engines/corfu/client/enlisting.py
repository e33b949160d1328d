"""Units that shall belong to the cluster: who they are, and enlisting them as spares."""

from ithaca.engines.corfu.client.driving import Driver
from ithaca.engines.corfu.client.links import Links
from ithaca.engines.corfu.messages import Decide, GetIdentity, IdentityIs, Renew
from ithaca.engines.corfu.sequencing.calls import Known
from ithaca.engines.corfu.sequencing.commands import AddUnit, Void
from ithaca.engines.corfu.sequencing.flows.reconfiguring import reconfigured
from ithaca.engines.corfu.sequencing.projection import UnitMember
from ithaca.model.errors import InvalidInput, ProtocolError, Unavailable
from ithaca.model.view import Address


async def identity_of(links: Links, address: Address, message: GetIdentity | Renew) -> IdentityIs:
    """Which unit is there; `ProtocolError` if it is none."""
    answer = (await links.ask(address, message)).message
    if not isinstance(answer, IdentityIs):
        raise ProtocolError(f"{address} is no unit: it answers with {type(answer).__name__}")
    return answer


async def enlisted(links: Links, driver: Driver, address: Address, *, may_renew: bool) -> UnitMember:
    """The unit there, which belongs to the cluster from now on, if it did not before: as a spare.

    One that took part in an epoch and is no unit of this projection has to forget everything first. `may_renew` has it
    do so: for units of the cluster's own file, which nobody else has, and which no administrator has to ask for.
    """
    by_administrator = not may_renew
    found = await identity_of(links, address, GetIdentity())
    knowledge = driver.knowledge
    projection = knowledge.projection
    member = next((unit for unit in projection.units if unit.identity == found.identity), None)
    if member is not None:
        return member
    if found.is_used and not may_renew:
        raise InvalidInput(
            f"the unit at {address} has belonged to a cluster, and holds what that gave it: start one with an empty "
            "directory there"
        )
    gone = frozenset(unit.number for unit in projection.units if unit.address == address)
    if gone:
        reason = await driver.run(reconfigured(knowledge, projection, without=gone), by_administrator=by_administrator)
        if reason:
            raise Unavailable(f"what was at {address} before cannot be removed yet: {reason}")
    if found.is_used:
        found = await identity_of(links, address, Renew(found.identity))
    answer = await links.ask_leader(Decide(AddUnit(address, found.identity), by_administrator))
    if isinstance(answer, Void):
        raise Unavailable(f"the unit at {address} is not enlisted: {answer.reason}")
    if not isinstance(answer, Known):
        raise ProtocolError(f"the leader answered with {type(answer).__name__}, and not with the projection")
    knowledge.learn(answer)
    return next(unit for unit in answer.projection.units if unit.identity == found.identity)
