"""Founding the log: the first leader asks every unit of the file who it is, and has the first projection decided."""

import asyncio
import logging

from ithaca.engines.corfu.client.links import Links
from ithaca.engines.corfu.messages import GetIdentity, IdentityIs
from ithaca.engines.corfu.sequencing.commands import FoundLog
from ithaca.engines.corfu.sequencing.limits import GRANT_ROWS
from ithaca.engines.corfu.sequencing.projection import UnitMember
from ithaca.model.config.cluster import ClusterFile
from ithaca.model.errors import ConfigError, IthacaError, ProtocolError
from ithaca.model.view import Address
from ithaca.runtime import machine
from ithaca.runtime.backoff import Backoff

_log = logging.getLogger("ithaca.orderer")


async def founding(file: ClusterFile, sequencer: int, links: Links) -> FoundLog:
    """The first entry, once every unit of the file has answered; asks until then.

    A shard is a chain of units, and its replicas are the units, head first. Spares are units that nobody writes to yet.
    """
    chains = [[replica.address for replica in shard.replicas] for shard in file.shards]
    if not chains:
        raise ConfigError("the cluster's file has no shards: the engine corfu needs a chain of units to begin with")
    addresses = [*(address for chain in chains for address in chain), *file.spares]
    identities = await asyncio.gather(*(_identity(links, address) for address in addresses))
    units = tuple(
        UnitMember(number, address, identity.identity)
        for number, (address, identity) in enumerate(zip(addresses, identities, strict=True), 1)
    )
    number_of = {unit.address: unit.number for unit in units}
    sets = tuple(tuple(number_of[address] for address in chain) for chain in chains)
    sequencers = tuple((place.server, place.address) for place in file.orderers if not place.joining)
    return FoundLog(machine.new_uuid(), units, sets, sequencer, GRANT_ROWS, sequencers)


async def _identity(links: Links, address: Address) -> IdentityIs:
    pauses = Backoff()
    while True:
        try:
            answer = (await links.ask(address, GetIdentity())).message
            if not isinstance(answer, IdentityIs):
                raise ProtocolError(f"{address} is no unit: it answers with {type(answer).__name__}")
            return answer
        except IthacaError as error:
            _log.info("the log waits for the unit at %s before it is founded: %s", address, error)
        await pauses.pause()
