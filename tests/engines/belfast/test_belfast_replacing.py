"""Replicas of the engine belfast that are replaced while somebody speculates."""

from pathlib import Path

import pytest
from tests.engines.belfast.test_belfast_cluster import Appending, Told

import ithaca
from ithaca.testing import Cluster


@pytest.mark.parametrize("replica", [0, 1], ids=["primary", "follower"])
def test_a_replica_is_replaced_while_records_are_delivered(tmp_path: Path, replica: int) -> None:
    """Then whoever is the primary is killed: what was delivered keeps its place all the while."""
    with (
        Cluster(
            tmp_path / "cluster", shards=1, replicas=3, masking=True, spares=1, engine="belfast", orderers=1
        ) as cluster,
        ithaca.connect(cluster.bootstrap) as log,
        ithaca.connect(cluster.bootstrap) as other,
    ):
        start = log.tail()
        spare = str(cluster.file.spares[0])
        with other.speculate(start) as speculation:
            told = Told(speculation)
            with Appending(log) as appending:
                told.until(lambda: len(told.records) > 20)
                cluster.kill_server(f"shard-0-replica-{replica}")
                number = log.admin.replace_replica(0, replica, spare, timeout=30)
                assert number == 3
                seen = len(told.records)
                told.until(lambda: len(told.records) > seen + 20)
                (shard,) = log.admin.shards()
                assert [each.replica for each in shard.replicas] == sorted({0, 1, 2, 3} - {replica})
                cluster.kill_server("shard-0-replica-2")
                seen = len(told.records)
                told.until(lambda: len(told.records) > seen + 20)
            told.confirms(log.append(b"last").position)
            assert [record.value for record in told.records] == [*appending.acknowledged, b"last"]
            assert told.records == list(log.read_range(start))
            assert not told.failed
