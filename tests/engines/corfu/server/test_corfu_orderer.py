"""An orderer by itself."""

from pathlib import Path

from ithaca.cluster.ports import free_ports
from ithaca.engines.corfu.engine import ENGINE
from ithaca.engines.corfu.sequencing.limits import COMMIT_TOLD_MS
from ithaca.engines.corfu.server.orderer import OrdererServer
from ithaca.model.config.cluster import ClusterFile, OrdererPlace, ReplicaPlace, ShardPlace
from ithaca.model.server_place import ServerPlace
from ithaca.model.view import Address
from ithaca.server.options import ServerOptions


async def test_whoever_may_be_the_next_sequencer_hears_of_its_turn_before_the_next_heartbeat(tmp_path: Path) -> None:
    addresses = [Address("127.0.0.1", port) for port in free_ports(2)]
    file = ClusterFile(
        name="c",
        engine="corfu",
        orderers=(OrdererPlace(1, addresses[0]),),
        shards=(ShardPlace(0, 0, False, (ReplicaPlace(0, addresses[1]),)),),
        durability="fsync",
        order_interval_us=0,
        segment_bytes=1 << 20,
    )
    server = ENGINE.make_server(file, ServerPlace("orderer", 1, addresses[0]), str(tmp_path), ServerOptions())
    assert isinstance(server, OrdererServer)
    await server.start()
    try:
        settings = server.host.driver._core.node.settings
        assert settings.commit_told_ms == COMMIT_TOLD_MS < settings.heartbeat_ms / 10
    finally:
        await server.stop()
