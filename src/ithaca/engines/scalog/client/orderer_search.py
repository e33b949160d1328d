"""Where the orderers are when none of those that a handle knows answers: replicas follow them, and are asked.

A handle that had nothing to ask the orderers for a long time may know only such as were removed since.
"""

from typing import Any

import msgspec

from ithaca.client.deadline import Deadline
from ithaca.engines.scalog.client.links import Links
from ithaca.model.addresses import parse_address
from ithaca.model.decoding import UNDECODABLE
from ithaca.model.errors import IthacaError
from ithaca.model.limits import ATTEMPT_TIMEOUT_S, REPLICAS_ASKED_FOR_ORDERERS_MAX
from ithaca.model.view import Address, Orderers, View
from ithaca.protocol.greeting import GetStatus, StatusIs
from ithaca.runtime.machine import rng


async def orderers_known_to_replicas(links: Links, view: View, deadline: Deadline) -> Orderers:
    """The newest list that some of the replicas name; none when they name none."""
    addresses = [replica.address for shard in view.shards for replica in shard.replicas]
    newest = Orderers()
    for address in rng().sample(addresses, min(len(addresses), REPLICAS_ASKED_FOR_ORDERERS_MAX)):
        if deadline.passed:
            break
        named = await _named_by(links, address, deadline)
        if named.entry >= newest.entry:
            newest = named
    return newest


async def _named_by(links: Links, address: Address, deadline: Deadline) -> Orderers:
    timeout_s = max(min(deadline.left_s, ATTEMPT_TIMEOUT_S), 0.001)
    try:
        link = await links.link(address, timeout_s)
        answer = (await link.request(GetStatus(), timeout_s)).message
        if isinstance(answer, StatusIs):
            said = msgspec.json.decode(answer.json, type=dict[str, Any])
            named = said.get("orderers") or {}
            return Orderers(int(named.get("entry", 0)), tuple(map(parse_address, named.get("addresses", ()))))
    except (IthacaError, *UNDECODABLE):
        pass  # it is away, or says nothing of use: another may
    return Orderers()
