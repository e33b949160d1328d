"""What clients and peers ask of a replica: as in scalog; speculators come, followers say what they have synced."""

from typing import TYPE_CHECKING

from ithaca.engines.belfast.messages import LaneSynced, Speculate
from ithaca.engines.belfast.replica.events import PeerSynced
from ithaca.engines.scalog.messages.copying import FollowLane
from ithaca.engines.scalog.server.replica.gateway import GatewayPeer
from ithaca.protocol.codec import Received
from ithaca.runtime.connection import Connection

if TYPE_CHECKING:
    from ithaca.engines.belfast.server.replica.server import SlotReplicaServer


class SlotGatewayPeer(GatewayPeer):
    """One connection from outside."""

    def __init__(self, server: "SlotReplicaServer") -> None:
        super().__init__(server)
        self._slot_server = server
        self._handlers |= {LaneSynced: self._lane_synced, Speculate: self._speculate, FollowLane: self._follow_own}

    def _lane_synced(self, connection: Connection, received: Received, message: LaneSynced) -> None:
        self._slot_server.slot_step(PeerSynced(message.lane, message.ack))

    def _follow_own(self, connection: Connection, received: Received, message: FollowLane) -> None:
        self._follow(connection, received, message)
        if message.stop is None and message.lane == self._slot_server.core.own_lane:
            self._slot_server.followers.add(connection, message.lane)

    def _speculate(self, connection: Connection, received: Received, message: Speculate) -> None:
        connection.allow_slow_reader()
        self._slot_server.speculate(connection, message.lane)
