"""What the cluster's file asks for and is not agreed yet."""

from uuid import UUID

from msgspec.structs import replace

from ithaca.engines.scalog.ordering.entries import Configure, OrderingEntry, RegisterShard
from ithaca.engines.scalog.ordering.state import OrderingState
from ithaca.model.config.cluster import ClusterFile
from ithaca.model.view import ClusterConfiguration


def missing(file: ClusterFile, state: OrderingState, log: UUID) -> list[OrderingEntry]:
    """The entries that make the agreed state follow the file, as far as a file can say it.

    `log` is what the log is called if it has no name yet.
    """
    entries: list[OrderingEntry] = []
    known = state.configuration
    if known is None:
        entries.append(Configure(ClusterConfiguration(log, file.engine, file.order_interval_us)))
    elif known.order_interval_us != file.order_interval_us:
        entries.append(Configure(replace(known, order_interval_us=file.order_interval_us)))
    for shard in file.shards:
        if shard.shard not in state.shards.by_number and not state.shards.was_reclaimed(shard.shard):
            replicas = tuple((place.replica, place.address) for place in shard.replicas)
            entries.append(RegisterShard(shard.shard, shard.f, shard.masking, replicas))
    return entries
