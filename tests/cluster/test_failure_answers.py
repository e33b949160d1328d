"""Processes that are paused for longer than the cluster waits: it goes on as its file says, and they notice."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.supervising import eventually
from tests.cluster.test_shards import Load, load

import ithaca
from ithaca.cluster.temporary import Shape, TemporaryCluster, temporary_cluster
from ithaca.model.config.failures import Action, FailurePolicy
from ithaca.testing import Cluster

DETECTION_MS = 700


@contextmanager
def loaded(
    tmp_path: Path, answer: Action, *, replicas: int = 2, masking: bool = False, spares: int = 0
) -> Iterator[tuple[TemporaryCluster, Load, ithaca.ClusterLog]]:
    """A cluster of one shard under load, which is checked at the end."""
    failures = FailurePolicy(answer, DETECTION_MS)
    shape = Shape(1, replicas, 1, masking=masking, spares=spares, failures=failures)
    with temporary_cluster(tmp_path / "data", shape, lambda text: None) as cluster:
        with load(cluster.bootstrap) as working, ithaca.connect(cluster.bootstrap) as log:
            working.grown()
            yield cluster, working, log
            working.grown()
        working.check(cluster.bootstrap)


@contextmanager
def paused(cluster: TemporaryCluster, name: str) -> Iterator[None]:
    pid = next(child.pid for child in cluster.state().children if child.name == name)
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def state_of(log: ithaca.ClusterLog, address: str) -> str:
    return next(str(server["state"]) for server in log.status().servers if server["address"] == address)


def test_a_paused_replica_is_replaced_and_finds_itself_removed(tmp_path: Path) -> None:
    with loaded(tmp_path, "replace", spares=1) as (cluster, working, log):
        with paused(cluster, "shard-0-replica-0"):
            eventually(lambda: [each.replica for each in log.admin.shards()[0].replicas] == [1, 2], "it is replaced")
            working.grown()
        eventually(lambda: "was removed" in _log(cluster, "shard-0-replica-0"), "it has noticed")
        assert log.status().healthy


def test_a_replica_behind_an_aggregator_is_heard_until_it_is_gone() -> None:
    failures = FailurePolicy("replace", DETECTION_MS)
    with Cluster(spares=1, aggregators=1, failures=failures) as cluster, ithaca.connect(cluster.bootstrap) as log:
        log.append(b"a")
        (aggregator,) = (each for each in cluster.status().servers if each.place.role == "aggregator")
        assert aggregator.status is not None
        assert aggregator.status["replicas"] == 2
        time.sleep(3 * DETECTION_MS / 1000)
        assert [each.replica for each in log.admin.shards()[0].replicas] == [0, 1]
        cluster.kill_replica(0, 0)
        eventually(lambda: [each.replica for each in log.admin.shards()[0].replicas] == [1, 2], "it is replaced")
        log.append(b"b")
        assert [record.value for record in log.read_range(1, 3)] == [b"a", b"b"]


def test_the_shard_of_a_paused_replica_is_finalized_and_another_takes_its_place(tmp_path: Path) -> None:
    with loaded(tmp_path, "finalize-and-add", spares=2) as (cluster, working, log):
        with paused(cluster, "shard-0-replica-1"):
            eventually(lambda: [each.phase for each in log.admin.shards()] == ["finalized", "live"], "that is so")
            working.grown()
            assert working.shards_used() == {1}
        address = log.admin.shards()[0].replicas[1].address
        eventually(lambda: state_of(log, address) == "finalized", "it has noticed, and serves")


def test_a_paused_replica_is_masked_and_gets_a_new_lane_when_it_is_back(tmp_path: Path) -> None:
    with loaded(tmp_path, "mask", replicas=3, masking=True) as (cluster, working, log):
        with paused(cluster, "shard-0-replica-2"):
            eventually(lambda: not log.admin.shards()[0].replicas[2].is_open, "its lane is closed")
            working.grown()
        eventually(lambda: log.admin.shards()[0].replicas[2].lane == "0-2-2", "it has another lane")
        eventually(lambda: log.status().healthy, "it has caught up")


def test_a_paused_orderer_calls_nobody_silent(tmp_path: Path) -> None:
    with loaded(tmp_path, "finalize-and-add", spares=2) as (cluster, working, log):
        with paused(cluster, "orderer-1"):
            time.sleep(3 * DETECTION_MS / 1000)
        working.grown()
        assert [each.phase for each in log.admin.shards()] == ["live"]


def _log(cluster: TemporaryCluster, name: str) -> str:
    return (cluster.directory / "logs" / f"{name}.log").read_text()
