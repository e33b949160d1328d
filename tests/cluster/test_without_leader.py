"""While nobody leads, storage servers go on accepting; the first cut of the next leader takes all of it."""

from contextlib import ExitStack
from typing import Any

from tests.cluster.supervising import eventually

import ithaca
from ithaca.testing import Cluster

HANDLES = 3
BATCHES = 6
RECORDS = 50


def replica(cluster: Cluster) -> dict[str, Any]:
    said = next(server.status for server in cluster.status().servers if server.place.name == "shard-0-replica-0")
    assert said is not None
    return said


def durable(cluster: Cluster) -> int:
    """Records that are on the disks of all replicas, of lanes that may grow."""
    said = [server.status for server in cluster.status().servers if server.place.shard is not None]
    totals: list[int] = [
        sum(lane["durable"] for lane in each["lanes"] if lane["open"]) for each in said if each is not None
    ]
    return min(totals)


def test_the_first_cut_after_a_time_without_a_leader_takes_everything() -> None:
    with Cluster(orderers=1, replicas=2) as cluster, ExitStack() as stack:
        logs = [stack.enter_context(ithaca.connect(cluster.bootstrap)) for _ in range(HANDLES)]
        for log in logs:
            log.append(b"first")  # so that its session is open
        before, settled = replica(cluster), HANDLES
        cluster.kill_orderer(1)
        pending = [
            log.submit_many([b"%d %d %d" % (number, batch, record) for record in range(RECORDS)])
            for batch in range(BATCHES)
            for number, log in enumerate(logs)
        ]
        wanted = settled + HANDLES * BATCHES * RECORDS
        eventually(lambda: durable(cluster) == wanted, "all of it is on the disks of both replicas")
        assert not any(each.done() for each in pending), "nothing is acknowledged that is not ordered"
        assert replica(cluster)["tail"] == before["tail"]
        cluster.start_server("orderer-1")
        positions = sorted(each.result(30).position for each in pending)
        assert positions == [settled + 1 + RECORDS * number for number in range(HANDLES * BATCHES)]
        after = replica(cluster)
        assert after["tail"] == wanted + 1
        assert after["cut"] == before["cut"] + 1, "one cut took everything"
        there = [record.value for record in logs[0].read_range(settled + 1)]
        for number in range(HANDLES):
            mine = [value for value in there if value.startswith(b"%d " % number)]
            assert mine == [
                b"%d %d %d" % (number, batch, record) for batch in range(BATCHES) for record in range(RECORDS)
            ]
