"""The cluster for tests of users: healthy, broken on purpose, healthy again, gone without a trace."""

import shutil
import threading
import time
from pathlib import Path

import pytest

import ithaca
from ithaca.model.errors import DeadlineExceeded, InvalidInput
from ithaca.runtime.machine import Machine
from ithaca.testing import Cluster
from ithaca.testing.mortal_disk import MortalDisk


def test_a_cluster_is_healthy_when_entered_and_gone_when_left() -> None:
    threads = set(threading.enumerate())
    with Cluster() as cluster:
        directory = cluster.directory
        assert directory.is_dir()
        assert cluster.bootstrap == str(cluster.file.orderers[0].address)
        status = cluster.status()
        assert status.problems() == []
        assert status.health.tail == 1
    assert not directory.exists()
    assert [thread.name for thread in set(threading.enumerate()) - threads if not thread.daemon] == []
    cluster.close()


def test_the_shape_that_was_asked_for(tmp_path: Path) -> None:
    with Cluster(tmp_path / "data", shards=2, replicas=1, orderers=3, durability="os") as cluster:
        assert cluster.names == ["orderer-1", "orderer-2", "orderer-3", "shard-0-replica-0", "shard-1-replica-0"]
        assert cluster.bootstrap.count(",") == 2
        assert cluster.file.durability == "os"
        assert (tmp_path / "data" / "orderer-2").is_dir()


def test_servers_stop_and_start_by_name() -> None:
    with Cluster() as cluster:
        cluster.stop_server("shard-0-replica-1")
        cluster.stop_server("shard-0-replica-1")
        silent, short = cluster.status().problems()
        assert silent.startswith("shard-0-replica-1 does not answer")
        assert short.startswith("shard 0 orders nothing: replica 0/1 is silent")
        with pytest.raises(DeadlineExceeded, match=r"not healthy after 0.2 s: .*shard-0-replica-1"):
            cluster.wait_healthy(timeout=0.2)
        cluster.start_server("shard-0-replica-1")
        cluster.wait_healthy()
        with pytest.raises(InvalidInput, match="shard-0-replica-1 runs already"):
            cluster.start_server("shard-0-replica-1")
        with pytest.raises(InvalidInput, match="no server shard-0-replica-7: there are orderer-1, "):
            cluster.stop_server("shard-0-replica-7")


def test_killed_servers_come_back() -> None:
    with Cluster(orderers=3) as cluster:
        cluster.kill_replica(0, 0)
        cluster.kill_orderer(2)
        with pytest.raises(InvalidInput, match="shard-0-replica-0 does not run"):
            cluster.kill_replica(0, 0)
        assert len(cluster.status().problems()) >= 2
        cluster.start_server("shard-0-replica-0")
        cluster.start_server("orderer-2")
        cluster.wait_healthy()
        said = next(each.status for each in cluster.status().servers if each.place.name == "shard-0-replica-0")
        assert said is not None
        assert said["lane"] == "0-0-2", "its second start"


def test_an_aggregator_that_is_killed_costs_no_record() -> None:
    with Cluster(shards=2, orderers=3, aggregators=2) as cluster, ithaca.connect(cluster.bootstrap) as log:
        assert cluster.names[-2:] == ["aggregator-1", "aggregator-2"]
        appended = [log.append(b"%d" % number).position for number in range(10)]
        cluster.kill_server("aggregator-1")
        appended += [log.append(b"%d" % number).position for number in range(10, 20)]
        cluster.kill_server("aggregator-2")
        appended += [log.append(b"%d" % number).position for number in range(20, 30)]
        cluster.start_server("aggregator-1")
        cluster.start_server("aggregator-2")
        cluster.wait_healthy()
        appended += [log.append(b"%d" % number).position for number in range(30, 40)]
        assert appended == list(range(1, 41))
        assert [bytes(record.value) for record in log.read_range(1, 41)] == [b"%d" % number for number in range(40)]


def test_a_directory_is_gone_on_with(tmp_path: Path) -> None:
    with Cluster(tmp_path) as cluster:
        log = cluster.status().health.log
        assert log is not None
        bootstrap = cluster.bootstrap
    with Cluster(tmp_path) as cluster:
        assert (cluster.status().health.log, cluster.bootstrap) == (log, bootstrap)
    with pytest.raises(InvalidInput, match="made with --shards 1, not 2"):
        Cluster(tmp_path, shards=2)


def test_a_disk_that_was_cut_off_keeps_what_it_has(tmp_path: Path) -> None:
    disk = MortalDisk()
    file = disk.open(str(tmp_path / "file"), create=True)
    file.write(0, [b"before"])
    disk.cut_off()
    for change in (
        lambda: file.write(0, [b"after!"]),
        lambda: file.write_durably(0, [b"after!"]),
        lambda: file.truncate(0),
        file.sync,
        lambda: disk.open(str(tmp_path / "new"), create=True),
        lambda: disk.rename(str(tmp_path / "file"), str(tmp_path / "new")),
        lambda: disk.remove(str(tmp_path / "file")),
        lambda: disk.make_directory(str(tmp_path / "new")),
    ):
        with pytest.raises(OSError, match="the server was killed"):
            change()
    assert disk.list(str(tmp_path)) == ["file"]
    assert disk.open(str(tmp_path / "file"), writable=False).read(0, 10) == b"before"


def test_a_wiped_replica_joins_although_its_clock_went_back(monkeypatch: pytest.MonkeyPatch) -> None:
    with Cluster() as cluster:
        cluster.kill_replica(0, 0)
        shutil.rmtree(cluster.directory / "shard-0-replica-0")
        monkeypatch.setattr(Machine, "wall_us", lambda machine: 1_000_000)
        cluster.start_server("shard-0-replica-0")
        deadline_s = time.monotonic() + 60
        while "shard-0-replica-0" in cluster._running:  # it learns which boot is known, and ends
            assert time.monotonic() < deadline_s
            time.sleep(0.05)
        cluster.start_server("shard-0-replica-0")
        cluster.wait_healthy()
