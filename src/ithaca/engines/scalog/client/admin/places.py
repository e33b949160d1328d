"""Where all servers of a cluster are, asked of an orderer: also while no orderer leads."""

from collections.abc import Sequence

from ithaca.client.asking import ask_once, ask_status
from ithaca.engines.scalog.messages.order import GetView, ViewIs
from ithaca.model.addresses import parse_address
from ithaca.model.errors import IthacaError, ProtocolError, Unavailable
from ithaca.model.security.tls import TLS
from ithaca.model.server_place import ServerPlace
from ithaca.model.view import Address


async def places_of(bootstrap: Sequence[Address], tls: TLS | None) -> list[ServerPlace]:
    """Every server of the cluster that the first orderer which answers belongs to."""
    failures = []
    for address in bootstrap:
        try:
            view = await _ask_view(address, tls)
        except IthacaError as error:
            failures.append(f"{address}: {error}")
            continue
        replicas = [
            ServerPlace("replica", replica.replica, replica.address, shard.shard)
            for shard in view.view.shards
            for replica in shard.replicas
        ]
        return (
            [await _orderer_place(each, tls) for each in view.orderers]
            + replicas
            + await _aggregators(view.leader, tls)
        )
    raise Unavailable(f"no orderer answers: {'; '.join(failures)}")


async def _orderer_place(address: Address, tls: TLS | None) -> ServerPlace:
    """A view tells where orderers are, and they themselves what their numbers are; 0 for one that is silent."""
    try:
        status = await ask_status(address, tls)
    except IthacaError:
        return ServerPlace("orderer", 0, address)
    return ServerPlace("orderer", status.get("server", 0), address)


async def _aggregators(leader: Address | None, tls: TLS | None) -> list[ServerPlace]:
    """Those that have attached, which only the leader knows."""
    try:
        status = {} if leader is None else await ask_status(leader, tls)
        return [
            ServerPlace("aggregator", each["aggregator"], parse_address(each["address"]))
            for each in status.get("aggregators", ())
        ]
    except IthacaError:
        return []


async def _ask_view(address: Address, tls: TLS | None) -> ViewIs:
    answer = await ask_once(address, GetView(), tls)
    if not isinstance(answer, ViewIs):
        raise ProtocolError(f"{address} answered a question about the view with {type(answer).__name__}")
    return answer
