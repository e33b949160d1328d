"""Prepared appends while servers come and go: what was finished is publishable, what was not is gone, and said so."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import ithaca
from ithaca.model.errors import DeadlineExceeded, PartGone, ShardFinalized, Unavailable
from ithaca.model.interface import ClusterLog
from ithaca.model.parts import Part
from ithaca.testing import Cluster


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path / "cluster", shards=2, orderers=3) as cluster:
        yield cluster


@pytest.fixture
def log(cluster: Cluster) -> Iterator[ClusterLog]:
    with ithaca.connect(cluster.bootstrap, timeout=20) as log:
        yield log


def values(log: ClusterLog, start: int) -> list[bytes]:
    return [record.value for record in log.read_range(start)]


def writer_of(part: Part) -> str:
    return f"shard-{part.shard}-replica-{part.lane.replica}"


def leader_of(cluster: Cluster) -> str:
    leader = cluster.status().leader
    assert leader is not None
    return leader.place.name


def lanes_of(cluster: Cluster, name: str) -> set[str]:
    return {path.name for path in (cluster.directory / name / "lanes").iterdir()}


def test_a_writer_says_how_many_records_it_has_taken(log: ClusterLog) -> None:
    with log.open_part(shard=0) as writer:
        assert writer.length == 0
        writer.append_many([b"a", b"b"])
        assert writer.length == 2


def test_a_record_goes_to_the_shard_that_is_named(log: ClusterLog) -> None:
    receipts = [log.append_to_shard(shard, b"%d" % shard) for shard in (1, 0)]
    assert [receipt.shard for receipt in receipts] == [1, 0]
    assert [log.read(receipt.position).value for receipt in receipts] == [b"1", b"0"]


def test_an_empty_part_goes_with_what_is_published_once(log: ClusterLog) -> None:
    empty, part = log.open_part(shard=0).finish(), log.prepare([b"x"], shard=1)
    published = log.publish_once([empty, part])
    assert values(log, published.position) == [b"x"]
    with pytest.raises(PartGone):
        log.publish(1, [empty], writer="w")


def test_a_finished_part_outlives_every_server(cluster: Cluster, log: ClusterLog) -> None:
    parts = [log.prepare([b"%d-%d" % (shard, n) for n in range(3)], shard=shard) for shard in (1, 0)]
    for name in cluster.names:
        cluster.kill_server(name)
    for name in cluster.names:
        cluster.start_server(name)
    cluster.wait_healthy()
    published = log.publish(1, parts, writer="w")
    assert values(log, published.position) == [b"1-0", b"1-1", b"1-2", b"0-0", b"0-1", b"0-2"]


def test_a_finished_part_is_published_and_read_while_its_writer_is_down(cluster: Cluster, log: ClusterLog) -> None:
    part = log.prepare([b"a", b"b"], shard=0)
    cluster.kill_server(writer_of(part))
    published = log.publish(1, [part], writer="w")
    assert values(log, published.position) == [b"a", b"b"]
    cluster.start_server(writer_of(part))
    cluster.wait_healthy()
    other = f"shard-0-replica-{1 - part.lane.replica}"
    cluster.kill_server(other)
    assert log.read(published.position + 1).value == b"b"


def test_an_unfinished_part_ends_with_its_writers_start(cluster: Cluster, log: ClusterLog) -> None:
    writer = log.open_part(shard=0)
    writer.append_many([b"a"])
    writer.append_many([b"b"], timeout=5)
    tail = log.tail()
    for replica in (0, 1):
        cluster.kill_replica(0, replica)
        cluster.start_server(f"shard-0-replica-{replica}")
    cluster.wait_healthy()

    def go_on() -> None:
        writer.append_many([b"c"])
        writer.finish()

    with pytest.raises(PartGone, match="prepare it again"):
        go_on()
    with pytest.raises(PartGone):
        writer.append_many([b"d"])
    assert log.tail() == tail


def test_a_copy_that_was_lost_is_fetched_again(cluster: Cluster, log: ClusterLog) -> None:
    part = log.prepare([b"x" * 1000] * 100, shard=0)
    name = writer_of(part)
    cluster.stop_server(name)
    for path in (cluster.directory / name / "lanes" / str(part.lane)).iterdir():
        path.unlink()
    (cluster.directory / name / "lanes" / str(part.lane)).rmdir()
    cluster.start_server(name)
    cluster.wait_healthy()
    assert str(part.lane) in lanes_of(cluster, name)
    published = log.publish(1, [part], writer="w")
    cluster.kill_server(f"shard-0-replica-{1 - part.lane.replica}")
    assert log.read(published.position + 99).value == b"x" * 1000


def test_leaders_change_between_all_steps(cluster: Cluster, log: ClusterLog) -> None:
    def change_leader() -> None:
        leader = leader_of(cluster)
        cluster.kill_server(leader)
        cluster.start_server(leader)
        cluster.wait_healthy()

    writer = log.open_part()
    change_leader()
    writer.append_many([b"a"])
    change_leader()
    part = writer.finish()
    change_leader()
    published = log.publish(1, [part], writer="w")
    change_leader()
    assert log.publish(1, [part], writer="w") == published
    assert values(log, published.position) == [b"a"]


def test_parts_expire_and_leave_nothing_behind(cluster: Cluster, log: ClusterLog) -> None:
    part = log.prepare([b"late"], ttl=1, shard=0)
    kept = log.prepare([b"kept"], ttl=3600, shard=0)
    deadline = time.monotonic() + 20
    while str(part.lane) in lanes_of(cluster, "shard-0-replica-0") | lanes_of(cluster, "shard-0-replica-1"):
        assert time.monotonic() < deadline, "an expired part is still there"
        time.sleep(0.05)
    with pytest.raises(PartGone):
        log.publish(1, [kept, part], writer="w")
    published = log.publish(1, [kept], writer="w")
    assert values(log, published.position) == [b"kept"]


def test_parts_of_a_client_that_went_away_expire(cluster: Cluster, log: ClusterLog) -> None:
    with ithaca.connect(cluster.bootstrap) as other:
        writer = other.open_part(ttl=1, shard=0)
        writer.append_many([b"x"])
    names = ["shard-0-replica-0", "shard-0-replica-1"]
    deadline = time.monotonic() + 20
    while any(len(lanes_of(cluster, name)) > 2 for name in names):
        assert time.monotonic() < deadline, "the part of a client that went away is still there"
        time.sleep(0.05)


def test_finalizing_a_shard_expires_its_parts(cluster: Cluster, log: ClusterLog) -> None:
    lost, kept = log.prepare([b"0"], shard=0), log.prepare([b"1"], shard=1)
    log.admin.finalize_shard(0)
    with pytest.raises(PartGone):
        log.publish(1, [kept, lost], writer="w")
    with pytest.raises(ShardFinalized):
        log.prepare([b"x"], shard=0)
    assert log.publish(1, [kept], writer="w").count == 1


def test_a_replica_that_is_down_keeps_a_part_from_being_finished(cluster: Cluster, log: ClusterLog) -> None:
    writer = log.open_part(shard=0)
    writer.append_many([b"x"])
    part_of = writer.finish()
    cluster.kill_replica(0, 1 - part_of.lane.replica)
    with pytest.raises((Unavailable, DeadlineExceeded)):
        log.prepare([b"y"], shard=0, timeout=2)
    assert log.prepare([b"z"], shard=1).length == 1
