"""Orderers come and go under load, as processes: nothing is lost, doubled or out of order."""

import os
import signal
from pathlib import Path

import pytest
from tests.cluster.supervising import eventually
from tests.cluster.test_shards import load

import ithaca
from ithaca.cluster.layout import local_cluster
from ithaca.cluster.local import FILE, cluster_file, take_down
from ithaca.cluster.orderers import add_local_orderer, remove_local_orderer, remove_orderer_table
from ithaca.cluster.running import start_detached
from ithaca.cluster.state import load_state
from ithaca.cluster.temporary import Shape, TemporaryCluster, temporary_cluster
from ithaca.model.config.cluster import load_cluster
from ithaca.model.config.text import dump_cluster


def add(cluster: TemporaryCluster) -> int:
    return add_local_orderer(cluster.directory, lambda text: None)


def numbers(log: ithaca.ClusterLog) -> list[int]:
    return [each.orderer for each in log.admin.orderers() if each.votes]


def leader(log: ithaca.ClusterLog) -> int:
    return next(each.orderer for each in log.admin.orderers() if each.leads)


def running(cluster: TemporaryCluster) -> set[str]:
    state = load_state(cluster.directory)
    assert state is not None
    return {child.name for child in state.children if child.phase == "running"}


@pytest.mark.campaign
def test_three_become_five_and_three_others_under_load_and_the_cluster_starts_again(tmp_path: Path) -> None:
    with temporary_cluster(tmp_path / "data", Shape(shards=1, replicas=2, orderers=3), lambda text: None) as cluster:
        with load(cluster.bootstrap) as working, ithaca.connect(cluster.bootstrap) as log:
            working.grown()
            assert [add(cluster), add(cluster)] == [4, 5]
            working.grown()
            assert numbers(log) == [1, 2, 3, 4, 5]
            gone = leader(log)
            for orderer in (gone, 1 if gone != 1 else 2):
                remove_local_orderer(cluster.directory, orderer)
                working.grown()
            left = numbers(log)
            assert len(left) == 3
            assert gone not in left
            eventually(lambda: f"orderer-{gone}" not in running(cluster), "the process of the removed one has ended")
        file = cluster_file(cluster.directory)
        assert [place.server for place in file.orderers] == left
        now = ",".join(str(place.address) for place in file.orderers)
        working.check(now)
        take_down(cluster.directory)
        start_detached(cluster.directory, lambda text: None)
        working.check(now)
        with ithaca.connect(str(file.orderers[-1].address)) as log:
            assert numbers(log) == left
            log.append(b"more")


def test_an_orderer_that_is_gone_for_good_is_replaced(tmp_path: Path) -> None:
    with temporary_cluster(tmp_path / "data", Shape(shards=1, replicas=1, orderers=3), lambda text: None) as cluster:
        with load(cluster.bootstrap) as working, ithaca.connect(cluster.bootstrap) as log:
            working.grown()
            lost = leader(log)
            directory = cluster.directory / f"orderer-{lost}"
            log_file = directory / "raft.log"
            log_file.write_bytes(b"nothing" + log_file.read_bytes()[7:])
            state = load_state(cluster.directory)
            assert state is not None
            pid = next(child.pid for child in state.children if child.name == f"orderer-{lost}")
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            working.grown()
            remove_local_orderer(cluster.directory, lost)
            assert add(cluster) == 4
            working.grown()
            assert numbers(log) == sorted({1, 2, 3, 4} - {lost})
            remove_local_orderer(cluster.directory, lost)  # again: it stays removed
            with pytest.raises(ithaca.NoSuchOrderer):
                log.admin.remove_orderer(9)
        working.check(",".join(str(place.address) for place in cluster_file(cluster.directory).orderers))


def test_the_last_orderer_stays(tmp_path: Path) -> None:
    with (
        temporary_cluster(tmp_path / "data", Shape(shards=1, replicas=1, orderers=1), lambda text: None) as cluster,
        ithaca.connect(cluster.bootstrap) as log,
    ):
        with pytest.raises(ithaca.LastOrderer):
            remove_local_orderer(cluster.directory, 1)
        with pytest.raises(ithaca.AddressInUse):
            log.admin.add_orderer(log.admin.shards()[0].replicas[0].address)
        assert log.admin.add_orderer(log.admin.orderers()[0].address) == 1
        assert add(cluster) == 2
        remove_local_orderer(cluster.directory, 1)
        assert numbers(log) == [2]
        log.append(b"a")
        assert add(cluster) == 3


def test_only_the_table_of_the_removed_orderer_goes(tmp_path: Path) -> None:
    path = tmp_path / FILE
    text = dump_cluster(local_cluster(shards=1, replicas=1, orderers=3, ports=[1, 2, 3, 4], durability="fsync"))
    path.write_text("# mine\n" + text + "# this stays\n")
    file = remove_orderer_table(path, load_cluster(path), 2)
    assert [place.server for place in file.orderers] == [1, 3]
    assert load_cluster(path) == file
    assert path.read_text().startswith("# mine\n")
    assert path.read_text().endswith("# this stays\n")
    with pytest.raises(ithaca.ConfigError, match="by hand"):
        remove_orderer_table(path, file, 2)
