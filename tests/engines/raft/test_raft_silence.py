"""A server that is stopped, and whose kernel goes on to take connections: nobody waits for it for long."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import ithaca
from ithaca.cluster.temporary import Shape, TemporaryCluster, temporary_cluster

SOON_S = 3.0
"""Less than any attempt at a server that does not answer takes, and far from the 20 s after which a kernel gives up."""


def leader_of(log: ithaca.ClusterLog) -> str:
    (leader,) = (each for each in log.admin.orderers() if each.leads)
    return f"orderer-{leader.orderer}"


@contextmanager
def stopped(cluster: TemporaryCluster, name: str) -> Iterator[None]:
    pid = next(child.pid for child in cluster.state().children if child.name == name)
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_leader_that_says_nothing_is_given_up_for_the_next_one(tmp_path: Path) -> None:
    shape = Shape(1, 1, 3, engine="raft")
    with (
        temporary_cluster(tmp_path / "data", shape, lambda text: None) as cluster,
        ithaca.connect(cluster.bootstrap, timeout=60) as log,
        ithaca.connect(cluster.bootstrap, timeout=60) as other,
    ):
        session = log.session("importer")
        session.append(b"1")
        other.append(b"2")
        with stopped(cluster, leader_of(log)):
            begun = time.monotonic()
            assert session.append(b"3").position == 3
            assert other.tail() == 4
            with ithaca.connect(cluster.bootstrap, timeout=60) as third:
                third.append(b"4")
            assert time.monotonic() - begun < SOON_S
        assert [record.value for record in log.read_range(1)] == [b"1", b"2", b"3", b"4"]
