"""What servers say of their limits: each of them, and what is true."""

import asyncio
import urllib.request
from pathlib import Path
from uuid import UUID

from prometheus_client.parser import text_string_to_metric_families
from tests.runtime.echo import echo_server

from ithaca.model.limit_use import LIMITS
from ithaca.model.limits import CONNECTIONS_MAX, CONNECTIONS_RESERVED
from ithaca.model.positions import LaneId
from ithaca.model.view import Address, ClusterConfiguration
from ithaca.ordering.entries import Configure, OpenLane, OpenSession, OrderingEntry, RegisterShard
from ithaca.ordering.outcomes import ANONYMOUS
from ithaca.ordering.part_entries import OpenPart
from ithaca.ordering.state import OrderingState
from ithaca.replica.core import ReplicaCore
from ithaca.runtime.machine import descriptors_max, descriptors_open
from ithaca.server.limit_uses import aside_uses, disk_uses, leader_uses, order_uses, process_uses, replica_uses
from ithaca.sim.disk import SimDisk
from ithaca.storage.disk import OsDisk
from ithaca.testing import Cluster


async def test_every_limit_is_said_by_somebody() -> None:
    async with echo_server() as server:
        said = process_uses(server.listener) | disk_uses(SimDisk(), "/") | order_uses(OrderingState())
        said |= leader_uses(0, 0) | replica_uses(ReplicaCore(0, 0, 1, {}, now_us=0)) | aside_uses(0)
    assert said.keys() == LIMITS.keys()
    assert all(maximum > 0 for _, maximum in said.values())


async def test_what_a_process_has_used() -> None:
    async with echo_server() as server:
        assert process_uses(None).keys() == {"descriptors"}
        before = descriptors_open()
        await server.dial()
        await server.dial()
        assert descriptors_open() >= before + 4, "two connections have both their ends here"
        uses = process_uses(server.listener)
        capacity = server.listener.admission.capacity
        assert uses["clients"] == (2, capacity.clients)
        assert uses["connections"] == (2, capacity.connections)
        assert uses["descriptors"][1] == descriptors_max()


def test_what_the_order_has_used() -> None:
    state = OrderingState()
    entries: tuple[OrderingEntry, ...] = (
        Configure(ClusterConfiguration(UUID(int=1), "scalog")),
        RegisterShard(0, 0, False, ((0, Address("h", 1)),)),
        OpenLane(0, 0, 1),
        OpenSession("s", LaneId(0, 0, 1)),
        OpenSession(f"{ANONYMOUS}1", LaneId(0, 0, 1)),
        OpenPart(LaneId(0, 0, 1), bytes(16), 1_000_000),
    )
    for index, entry in enumerate(entries, 1):
        state.apply(index, entry)
    uses = order_uses(state)
    used = {name: now for name, (now, _) in uses.items()}
    assert (used["named_sessions"], used["anonymous_sessions"]) == (1, 1)
    assert (used["parts"], used["parts_unfinished"], used["replicas"]) == (1, 1, 1)
    assert used["state_bytes"] == state.size_bytes > 0
    assert used["view_bytes"] > 0


def test_how_full_disks_are(tmp_path: Path) -> None:
    used, size = OsDisk().space(str(tmp_path))
    assert 0 <= used <= size
    disk = SimDisk()
    disk.make_directory("/d")
    disk.open("/d/file", create=True).write(0, [bytes(700)])
    disk.capacity_bytes = 1000
    assert disk.space("/d") == (700, 1000)


async def test_status_and_metrics_of_a_cluster_say_the_same(tmp_path: Path) -> None:
    def families(address: Address) -> dict[tuple[str, str], float]:
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        return {
            (sample.name, sample.labels["limit"]): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if "limit" in sample.labels
        }

    with Cluster(tmp_path, aggregators=1) as cluster:
        names = set()
        for server in cluster.status().servers:
            assert server.said is not None
            limits = server.said["limits"]
            names |= limits.keys()
            role = server.place.role
            told = await asyncio.to_thread(families, server.place.address)
            assert told.keys() == {
                (f"ithaca_{role}_{kind}", name) for kind in ("limit", "limit_used") for name in limits
            }
            assert told[f"ithaca_{role}_limit", "clients"] <= CONNECTIONS_MAX - CONNECTIONS_RESERVED
        assert names == LIMITS.keys()
