"""What servers say of their limits: each of them, and what is true."""

import asyncio
import urllib.request
from pathlib import Path
from uuid import UUID

from prometheus_client.parser import text_string_to_metric_families
from tests.raft.cluster import Cluster as RaftCluster
from tests.runtime.echo import echo_server

from ithaca.engines.scalog.ordering.entries import Configure, OpenLane, OpenSession, OrderingEntry, RegisterShard, cut
from ithaca.engines.scalog.ordering.prepared.entries import OpenPart
from ithaca.engines.scalog.ordering.state import OrderingState
from ithaca.engines.scalog.replica.core import ReplicaCore
from ithaca.engines.scalog.server.limit_uses import (
    aside_uses,
    disk_uses,
    leader_uses,
    member_uses,
    order_uses,
    process_uses,
    replica_uses,
)
from ithaca.model.cut import LaneLengths
from ithaca.model.limit_use import LIMITS
from ithaca.model.limits import (
    CONNECTIONS_MAX,
    CONNECTIONS_RESERVED,
    ORDERING_RUNS_UNSYNCED_MAX,
    RAFT_MEMBERS_MAX,
    RAFT_NUMBER_MAX,
    REPLICA_NUMBER_MAX,
    SHARD_NUMBER_MAX,
    SPARES_MAX,
)
from ithaca.model.positions import LaneId
from ithaca.model.view import Address, ClusterConfiguration
from ithaca.raft.events import Propose, ReadIndex
from ithaca.raft.leader import LeaderTerm
from ithaca.raft.limits import RAFT_READS_MAX, RAFT_UNCOMMITTED_ENTRIES_MAX
from ithaca.raft.messages import Configuration
from ithaca.runtime.machine import descriptors_max, descriptors_open
from ithaca.sim.disk import SimDisk
from ithaca.storage.disk import OsDisk
from ithaca.testing import Cluster
from ithaca.users.names import ANONYMOUS


async def test_every_limit_is_said_by_somebody() -> None:
    async with echo_server() as server:
        said = process_uses(server.listener) | disk_uses(SimDisk(), "/") | order_uses(OrderingState())
        said |= member_uses(Configuration((1,))) | leader_uses(0, leading(1))
        said |= replica_uses(ReplicaCore(0, 0, 1, {}, now_us=0)) | aside_uses(0)
    assert said.keys() == LIMITS.keys() - {"users"}, "which are said where a cluster has some"
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
    assert (used["part_numbers"], used["replica_numbers"], used["shard_numbers"]) == (1, 0, 0)
    assert used["state_bytes"] == state.size_bytes > 0
    assert used["view_bytes"] > 0


def test_numbers_that_were_skipped_or_given_up_are_used_as_well() -> None:
    state = OrderingState()
    state.apply(1, Configure(ClusterConfiguration(UUID(int=1), "scalog")))
    state.apply(2, RegisterShard(7, 0, False, ((5, Address("h", 1)),)))
    state.apply(3, RegisterShard(3, 0, False, ((2, Address("h", 2)),)))
    uses = order_uses(state)
    assert uses["shard_numbers"] == (7, SHARD_NUMBER_MAX)
    assert uses["replica_numbers"] == (5, REPLICA_NUMBER_MAX)
    members = member_uses(Configuration((2, 4), (5,), removed_last=9))
    assert members == {"orderers": (3, RAFT_MEMBERS_MAX), "orderer_numbers": (9, RAFT_NUMBER_MAX)}


def test_runs_that_wait_are_counted_over_all_cuts() -> None:
    state = OrderingState()
    lanes = [LaneId(0, replica, 1) for replica in range(2)]
    entries: tuple[OrderingEntry, ...] = (
        Configure(ClusterConfiguration(UUID(int=1), "scalog")),
        RegisterShard(0, 1, False, tuple((lane.replica, Address("h", 1 + lane.replica)) for lane in lanes)),
        *(OpenLane(0, lane.replica, 1) for lane in lanes),
    )
    for index, entry in enumerate(entries, 1):
        state.apply(index, entry)
    state.apply(9, cut(LaneLengths.of(dict.fromkeys(lanes, 3)), time_us=0, view=state.shards.version))
    state.apply(10, cut(LaneLengths.of({lanes[0]: 4}), time_us=0, view=state.shards.version))
    uses = order_uses(state)
    assert (uses["cuts_unsynced"][0], uses["cut_runs_unsynced"]) == (2, (3, ORDERING_RUNS_UNSYNCED_MAX))


def test_what_a_leader_has_under_way() -> None:
    cluster = RaftCluster(1, 2)
    cluster.elect(1)
    cluster.settle()
    leadership = cluster.cores[1].leadership
    assert leadership is not None
    assert {now for now, _ in leader_uses(0, leadership).values()} == {0}
    cluster.step(1, Propose(1, (bytes(500), bytes(500))))
    cluster.step(1, ReadIndex(2))
    uses = leader_uses(3, leadership)
    assert uses["spares"] == (3, SPARES_MAX)
    assert uses["uncommitted_entries"] == (2, RAFT_UNCOMMITTED_ENTRIES_MAX)
    assert 1000 < uses["uncommitted_bytes"][0] < 1200
    assert uses["reads_waiting"] == (1, RAFT_READS_MAX)
    cluster.settle()
    assert {name: now for name, (now, _) in leader_uses(0, leadership).items() if now} == {}


def leading(server: int) -> LeaderTerm:
    """Of a group of one."""
    cluster = RaftCluster(server)
    cluster.elect(server)
    leadership = cluster.cores[server].leadership
    assert leadership is not None
    return leadership


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
            assert server.status is not None
            limits = server.status["limits"]
            names |= limits.keys()
            role = server.place.role
            told = await asyncio.to_thread(families, server.place.address)
            assert told.keys() == {
                (f"ithaca_{role}_{kind}", name) for kind in ("limit", "limit_used") for name in limits
            }
            assert told[f"ithaca_{role}_limit", "clients"] <= CONNECTIONS_MAX - CONNECTIONS_RESERVED
        assert names == LIMITS.keys() - {"users"}
