"""Where the servers of a cluster are, as its Raft group knows."""

from collections.abc import Sequence

from ithaca.engines.corfu.client.driving import first_knowledge
from ithaca.engines.corfu.client.links import Links
from ithaca.model.security.tls import TLS
from ithaca.model.server_place import ServerPlace
from ithaca.model.view import Address


async def places_of(bootstrap: Sequence[Address], tls: TLS | None) -> list[ServerPlace]:
    """The orderers, then the units by their chains in the active range, then spares; `Unavailable` if nobody
    answers.
    """
    links = Links(bootstrap, tls)
    try:
        known = (await first_knowledge(links)).known
    finally:
        links.close()
    projection = known.projection
    places = [ServerPlace("orderer", number, address) for number, address in known.sequencers]
    address_of = {unit.number: unit.address for unit in projection.units}
    for shard, chain in enumerate(projection.ranges[-1].sets):
        places += [ServerPlace("replica", at, address_of.pop(unit), shard) for at, unit in enumerate(chain)]
    return places + [ServerPlace("spare", number, address) for number, address in address_of.items()]
