"""Replicas that are replaced, removed and added through a handle."""

from typing import Any

import pytest

import ithaca
from ithaca.client.deadline import Deadline
from ithaca.engines.scalog.client.order import Order
from ithaca.model.errors import InvalidInput, NoSuchReplica
from ithaca.testing import Cluster


def numbers(log: ithaca.ClusterLog) -> list[int]:
    return [each.replica for each in log.admin.shards()[0].replicas]


def test_a_spare_takes_the_place_of_a_replica() -> None:
    with Cluster(replicas=2, spares=1) as cluster, ithaca.connect(cluster.bootstrap) as log:
        log.append(b"before")
        spare = str(cluster.file.spares[0])
        with pytest.raises(NoSuchReplica):
            log.admin.replace_replica(0, 7, spare)
        with pytest.raises(InvalidInput, match="has all its 2 replicas"):
            log.admin.add_replica(0, spare)
        assert log.admin.replace_replica(0, 0, spare) == 2
        assert numbers(log) == [1, 2]
        assert log.admin.replace_replica(0, 0, spare) == 2, "once more changes nothing"
        assert log.append(b"after").position == 2
        cluster.stop_server("shard-0-replica-0")
        assert [record.value for record in log.read_range(1)] == [b"before", b"after"]


def test_an_orderer_that_does_not_know_the_shard_yet_hinders_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def status(order: Order, deadline: Deadline) -> dict[str, Any]:
        return {"shards": []}

    monkeypatch.setattr(Order, "status", status)
    with Cluster(replicas=2, spares=1) as cluster, ithaca.connect(cluster.bootstrap) as log:
        assert log.admin.replace_replica(0, 0, str(cluster.file.spares[0])) == 2
        assert numbers(log) == [1, 2]


def test_a_replica_is_removed_and_another_added() -> None:
    with Cluster(replicas=2, spares=1) as cluster, ithaca.connect(cluster.bootstrap) as log:
        log.append(b"before")
        log.admin.remove_replica(0, 1)
        assert numbers(log) == [0]
        log.admin.remove_replica(0, 1)
        with pytest.raises(InvalidInput, match="what is ordered would be nowhere"):
            log.admin.remove_replica(0, 0, force=True)
        with pytest.raises(NoSuchReplica):
            log.admin.remove_replica(0, 5)
        assert log.admin.add_replica(0, str(cluster.file.spares[0])) == 2
        assert numbers(log) == [0, 2]
        assert log.append(b"after").position == 2
