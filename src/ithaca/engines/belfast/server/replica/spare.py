"""A storage server that waits until a shard needs it."""

from typing import ClassVar

from ithaca.engines.belfast.server.replica.server import SlotReplicaServer
from ithaca.engines.scalog.server.replica.server import ReplicaServer
from ithaca.engines.scalog.server.replica.spare import SpareServer


class SlotSpareServer(SpareServer):
    """As in scalog; what it becomes has slots."""

    replica_kind: ClassVar[type[ReplicaServer]] = SlotReplicaServer
