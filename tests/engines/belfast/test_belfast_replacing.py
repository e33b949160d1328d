"""Replicas of the engine belfast that are replaced while somebody speculates."""

from pathlib import Path

import pytest
from tests.engines.belfast.test_belfast_cluster import Appending, Told

import ithaca
from ithaca.model.interface import ClusterLog
from ithaca.testing import Cluster

UNORDERED = 12
"""Records that are delivered while nobody can order them."""


def primary_of(log: ClusterLog) -> int:
    """The replica that has the shard's lane."""
    (shard,) = log.admin.shards()
    (primary,) = [each.replica for each in shard.replicas if each.is_open]
    return primary


@pytest.mark.parametrize("replica", [0, 1], ids=["primary", "follower"])
def test_a_replica_is_replaced_while_records_are_delivered(tmp_path: Path, replica: int) -> None:
    """It is lost with records that are delivered and that nobody has ordered yet. Once it is replaced whoever is the
    primary then is killed. What was delivered keeps its place all the while."""
    with (
        Cluster(
            tmp_path / "cluster", shards=1, replicas=3, masking=True, spares=1, engine="belfast", orderers=3
        ) as cluster,
        ithaca.connect(cluster.bootstrap) as log,
        ithaca.connect(cluster.bootstrap) as other,
    ):
        start = log.append(b"first").position
        assert primary_of(log) == 0
        spare = str(cluster.file.spares[0])
        with other.speculate(start) as speculation:
            told = Told(speculation)
            told.confirms(start)
            for server in (1, 2):
                cluster.kill_orderer(server)
            appended = [log.submit(b"unordered %d" % number) for number in range(UNORDERED)]
            told.until(lambda: len(told.records) == 1 + UNORDERED)
            assert told.confirmed < told.records[1].position, "they are delivered, and none is ordered"
            cluster.kill_server(f"shard-0-replica-{replica}")
            for server in (1, 2):
                cluster.start_server(f"orderer-{server}")
            assert log.admin.replace_replica(0, replica, spare, timeout=60) == 3
            assert [each.result(60).position for each in appended] == [each.position for each in told.records[1:]]
            with Appending(log) as appending:
                seen = len(told.records)
                told.until(lambda: len(told.records) > seen + 20)
                (shard,) = log.admin.shards()
                assert [each.replica for each in shard.replicas] == sorted({0, 1, 2, 3} - {replica})
                primary = primary_of(log)
                assert (primary == 0) == (replica != 0), "the primary stays where a follower is replaced"
                cluster.kill_server("spare-1" if primary == 3 else f"shard-0-replica-{primary}")
                seen = len(told.records)
                told.until(lambda: len(told.records) > seen + 20)
                assert primary_of(log) != primary
            told.confirms(log.append(b"last").position)
            values = [b"unordered %d" % number for number in range(UNORDERED)]
            expected = [b"first", *values, *appending.acknowledged, b"last"]
            assert [record.value for record in told.records] == expected
            assert told.records == list(log.read_range(start))
            assert not told.failed
