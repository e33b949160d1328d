"""Servers are killed with -9 under load: the run finishes by itself, nothing acknowledged is lost or doubled."""

import hashlib
import multiprocessing
import os
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.survivors import Acknowledged, Progress, Seen, follow, id_of, produce

import ithaca
from ithaca.cluster.local import supervisor_pid
from ithaca.cluster.running import start_detached
from ithaca.cluster.temporary import Shape, TemporaryCluster, temporary_cluster

STALL_S = 120.0


def pid_of(cluster: TemporaryCluster, name: str) -> int:
    return next(child.pid for child in cluster.state().children if child.name == name and child.pid is not None)


def orderers(cluster: TemporaryCluster) -> tuple[str, str]:
    """The leader, and one that follows it."""
    with ithaca.connect(cluster.bootstrap) as log:
        said = {
            server["state"]: f"orderer-{server['server']}"
            for server in log.status().servers
            if server.get("role") == "orderer"
        }
    return said["leader"], said["follower"]


class Crowd:
    """The processes, and what they have said."""

    def __init__(self) -> None:
        self._spawn = multiprocessing.get_context("spawn")
        self._processes: dict[Connection, tuple[str, BaseProcess]] = {}
        self.progress: dict[str, int] = {}
        self.acknowledged: dict[str, list[tuple[int, int, int]]] = {}
        self.seen: list[Seen] = []

    def start(self, name: str, target: Callable[..., None], *arguments: Any) -> None:
        ours, theirs = self._spawn.Pipe()
        process = self._spawn.Process(target=target, args=(theirs, *arguments), name=name, daemon=True)
        process.start()
        theirs.close()
        self._processes[ours] = (name, process)

    def listen(self, until: Callable[[], bool]) -> None:
        while not until():
            heard = wait(list(self._processes), timeout=STALL_S)
            assert heard, f"nobody said anything for {STALL_S} s; so far {self.progress}"
            for connection in heard:
                assert isinstance(connection, Connection)
                self._hear(connection)

    def _hear(self, connection: Connection) -> None:
        name, process = self._processes[connection]
        try:
            said = connection.recv()
        except EOFError:
            process.join()
            assert process.exitcode == 0, f"{name} ended with status {process.exitcode}"
            del self._processes[connection]
            return
        if isinstance(said, Progress):
            self.progress[name] = said.records
        elif isinstance(said, Acknowledged):
            self.acknowledged[name] = said.batches
        else:
            self.seen.append(said)

    def end(self) -> None:
        for _, process in self._processes.values():
            process.kill()
            process.join()


def read_everything(bootstrap: str) -> list[tuple[int, int]]:
    """The ids of all records, in the order of their positions, which must be dense."""
    with ithaca.connect(bootstrap) as log:
        records = [(record.position, id_of(record.value)) for record in log.read_range(1)]
    assert [position for position, _ in records] == list(range(1, len(records) + 1))
    return [who for _, who in records]


def digest_of(ids: list[tuple[int, int]]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for position, who in enumerate(ids, 1):
        digest.update(b"%d=%d:%d;" % (position, *who))
    return digest.hexdigest()


@pytest.mark.parametrize(
    ("producers", "followers", "records"),
    [(3, 2, 6_000), pytest.param(8, 4, 200_000, marks=pytest.mark.campaign)],
)
@pytest.mark.timeout(900)
def test_kills_under_load(tmp_path: Path, producers: int, followers: int, records: int) -> None:
    each = records // producers
    crowd = Crowd()
    with temporary_cluster(tmp_path / "cluster", Shape(shards=2), print) as cluster:
        try:
            for number in range(producers):
                crowd.start(f"producer {number}", produce, cluster.bootstrap, number, each)
            for number in range(followers):
                crowd.start(f"follower {number}", follow, cluster.bootstrap, producers * each)

            def reached(share: float) -> Callable[[], bool]:
                return lambda: sum(crowd.progress.values()) >= share * producers * each

            leader, other = orderers(cluster)
            for share, victim in ((0.25, leader), (0.45, other), (0.65, "shard-0-replica-1")):
                crowd.listen(reached(share))
                os.kill(pid_of(cluster, victim), signal.SIGKILL)
            crowd.listen(lambda: len(crowd.acknowledged) == producers and len(crowd.seen) == followers)
        finally:
            crowd.end()
        assert sum(child.restarts for child in cluster.state().children) >= 3, "the supervisor restarts what died"
        ids = read_everything(cluster.bootstrap)
        assert sorted(ids) == [(producer, number) for producer in range(producers) for number in range(each)]
        for name, batches in crowd.acknowledged.items():
            producer = int(name.split()[1])
            for first, count, position in batches:
                expected = [(producer, number) for number in range(first, first + count)]
                assert ids[position - 1 : position - 1 + count] == expected, "a batch stands where its receipt says"
        assert {seen.problem for seen in crowd.seen} == {""}
        assert {seen.digest for seen in crowd.seen} == {digest_of(ids)}
        kill_all(cluster)
        start_detached(cluster.directory, print)
        assert read_everything(cluster.bootstrap) == ids
        with ithaca.connect(cluster.bootstrap) as log:
            assert log.append(b"more").position == len(ids) + 1


def kill_all(cluster: TemporaryCluster) -> None:
    """Every process with -9, at once; the supervisor first, so that it restarts none."""
    pids = [child.pid for child in cluster.state().children if child.pid is not None]
    supervisor = supervisor_pid(cluster.directory)
    assert supervisor is not None
    for pid in (supervisor, *pids):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            assert pid != supervisor, "the supervisor ran"
    os.waitpid(supervisor, 0)
