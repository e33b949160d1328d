"""Shards come and go under load: nothing is lost, doubled or out of order, and nobody who appends notices."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.cluster.supervising import eventually

import ithaca
from ithaca.cluster.layout import local_cluster
from ithaca.cluster.local import take_down
from ithaca.cluster.running import start_detached
from ithaca.cluster.shards import add_local_shard, append_shard
from ithaca.cluster.temporary import Shape, TemporaryCluster, temporary_cluster
from ithaca.model.config.cluster import ReplicaPlace, ShardPlace, load_cluster
from ithaca.model.config.text import dump_cluster
from ithaca.model.view import Address
from ithaca.testing import Cluster

Appended = dict[int, tuple[bytes, int]]
"""Values and shards by position, as receipts said."""


class Load:
    """Two who append, one plainly and one by a session, and one who follows."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._stop = threading.Event()
        self.plain: Appended = {}
        self.named: Appended = {}
        self.followed: list[tuple[int, bytes]] = []
        self._failures: list[BaseException] = []
        works = (self._append_plainly, self._append_by_session, self._follow)
        self._threads = [threading.Thread(target=self._guarded, args=(work,)) for work in works]
        for thread in self._threads:
            thread.start()

    def grown(self) -> None:
        """Wait until both have appended more, and the follower has seen it."""
        plain, named = len(self.plain) + 20, len(self.named) + 20
        self._until(lambda: len(self.plain) >= plain and len(self.named) >= named)
        wanted = max(max(self.plain), max(self.named))
        self._until(lambda: self.followed[-1][0] >= wanted)

    def shards_used(self) -> set[int]:
        """By the last appends of both."""
        return {shard for each in (self.plain, self.named) for _, shard in list(each.values())[-5:]}

    def end(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        assert not self._failures, self._failures

    def check(self, bootstrap: str) -> None:
        """What was appended is there once, in order, for the follower and for whoever reads later."""
        appended = {position: value for each in (self.plain, self.named) for position, (value, _) in each.items()}
        assert len(appended) == len(self.plain) + len(self.named), "two records have one position"
        with ithaca.connect(bootstrap) as log:
            there = [(record.position, record.value) for record in log.read_range(1)]
        assert [position for position, _ in there] == list(range(1, len(there) + 1))
        assert dict(there) == appended, "each append was acknowledged once, and there is nothing else"
        assert self.followed == there[: len(self.followed)]
        for prefix in (b"plain", b"named"):
            mine = [value for _, value in there if value.startswith(prefix)]
            assert mine == [b"%s %d" % (prefix, number) for number in range(1, len(mine) + 1)]

    def _until(self, condition: Callable[[], bool]) -> None:
        eventually(lambda: bool(self._failures) or condition(), "the load goes on")
        assert not self._failures, self._failures

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            self._failures.append(error)

    def _append_plainly(self) -> None:
        number = 0
        with ithaca.connect(self._bootstrap) as log:
            while not self._stop.is_set():
                number += 1
                value = b"plain %d" % number
                receipt = log.append(value)
                self.plain[receipt.position] = (value, receipt.shard)

    def _append_by_session(self) -> None:
        with ithaca.connect(self._bootstrap) as log:
            session = log.session("load")
            while not self._stop.is_set():
                seq = session.next_seq
                value = b"named %d" % seq
                receipt = session.append(value, seq=seq)
                self.named[receipt.position] = (value, receipt.shard)

    def _follow(self) -> None:
        with ithaca.connect(self._bootstrap) as log, log.subscribe(start="earliest") as subscription:
            while not self._stop.is_set():
                self.followed += [(record.position, record.value) for record in subscription.poll(timeout=0.1)]


@contextmanager
def load(bootstrap: str) -> Iterator[Load]:
    working = Load(bootstrap)
    try:
        yield working
    finally:
        working.end()


def add(cluster: TemporaryCluster, replicas: int | None = None, *, masking: bool = False) -> int:
    return add_local_shard(cluster.directory, replicas, masking=masking, progress=lambda text: None)


@pytest.mark.campaign
def test_shards_are_added_and_finalized_under_load_and_the_cluster_starts_again(tmp_path: Path) -> None:
    shape = Shape(shards=1, replicas=2, orderers=1)
    with temporary_cluster(tmp_path / "data", shape, lambda text: None) as cluster:
        with load(cluster.bootstrap) as working, ithaca.connect(cluster.bootstrap) as log:
            working.grown()
            assert add(cluster) == 1
            assert add(cluster, 3, masking=True) == 2
            working.grown()
            log.admin.finalize_shard(0)
            working.grown()
            assert 0 not in working.shards_used()
            log.admin.finalize_shard(1, grace_cuts=20, grace=0.2)
            working.grown()
            assert working.shards_used() == {2}
            with pytest.raises(ithaca.LastShard):
                log.admin.finalize_shard(2)
        working.check(cluster.bootstrap)
        phases = ["finalized", "finalized", "live"]
        with ithaca.connect(cluster.bootstrap) as log:
            shards = log.admin.shards()
            assert [each.phase for each in shards] == phases
            assert sum(each.records for each in shards) == log.tail() - 1
        take_down(cluster.directory)
        start_detached(cluster.directory, lambda text: None)
        working.check(cluster.bootstrap)
        with ithaca.connect(cluster.bootstrap) as log:
            assert [each.phase for each in log.admin.shards()] == phases
            assert log.append(b"more").shard == 2


def test_a_shard_that_was_trimmed_whole_is_reclaimed(tmp_path: Path) -> None:
    with Cluster(tmp_path / "data") as cluster, ithaca.connect(cluster.bootstrap, timeout=10) as log:
        assert cluster.add_shard() == 1
        old = [log.append_to_shard(0, b"%d" % number).position for number in range(5)]
        log.admin.finalize_shard(0)
        new = log.append_to_shard(1, b"new").position
        log.trim(new)
        eventually(lambda: [each.shard for each in log.admin.shards()] == [1], "shard 0 is gone")
        with pytest.raises(ithaca.Trimmed):
            log.read(old[0])
        assert log.read(new).value == b"new"
        states = {server.place.name: server.state for server in cluster.status().servers}
        assert states["shard-0-replica-0"] == "reclaimed"
        lanes = cluster.directory / "shard-0-replica-0" / "lanes"
        eventually(lambda: not list(lanes.iterdir()), "its lanes are removed")
        for name in ("shard-0-replica-0", "orderer-1"):
            cluster.stop_server(name)
            cluster.start_server(name)
        cluster.wait_healthy()
        assert cluster.add_shard() == 2


def test_a_shard_that_cannot_be_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "cluster.toml"
    path.write_text(dump_cluster(local_cluster(shards=1, replicas=1, orderers=1, ports=[1, 2], durability="fsync")))
    before = path.read_bytes()
    taken = ShardPlace(1, 0, False, (ReplicaPlace(0, Address("127.0.0.1", 2)),))
    with pytest.raises(ithaca.ConfigError, match="the address of replica 0 of shard 0, too"):
        append_shard(path, taken)
    assert path.read_bytes() == before
    free = ShardPlace(1, 0, False, (ReplicaPlace(0, Address("127.0.0.1", 3)),))
    assert append_shard(path, free).shards == load_cluster(path).shards
    assert path.read_bytes().startswith(before)


def test_a_replica_that_was_away_when_its_shard_was_finalized_serves_what_it_has(tmp_path: Path) -> None:
    with Cluster(tmp_path / "data") as cluster:
        cluster.add_shard(replicas=1)
        name = "shard-1-replica-0"
        cluster.kill_server(name)
        with ithaca.connect(cluster.bootstrap) as log:
            log.admin.finalize_shard(1)
            assert log.append(b"a").shard == 0
        cluster.start_server(name)
        cluster.wait_healthy()
        assert {server.place.name: server.state for server in cluster.status().servers}[name] == "finalized"
