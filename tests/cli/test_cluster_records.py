"""`append`, `read`, `follow`, `tail`, `trim` on a cluster: the same commands, another place."""

import subprocess
from collections.abc import Iterator

import pytest
from tests.cli.command import COMMAND, environment, ithaca, json_lines

from ithaca.cluster.ports import free_ports
from ithaca.testing import Cluster


@pytest.fixture
def bootstrap() -> Iterator[str]:
    with Cluster(shards=2, replicas=1) as cluster:
        yield cluster.bootstrap


def test_the_life_of_records(bootstrap: str) -> None:
    assert ithaca("tail", "-b", bootstrap).stdout == b"first 1\ntail 1\n"
    assert ithaca("append", "-b", bootstrap, "a", "b", "--key", "k").stdout == b"1\n2\n"
    (summary,) = json_lines(
        ithaca("append", "--json", "--compression", "lz4", stdin=b"c\nd\n", env={"ITHACA_BOOTSTRAP": bootstrap}).stdout
    )
    assert (summary["records"], summary["last"]) == (2, 4)
    assert ithaca("read", "-b", bootstrap, "--format", r"%p %k %v\n").stdout == b"1 k a\n2 k b\n3  c\n4  d\n"
    assert ithaca("read", "-b", bootstrap, "--from", "2", "--to", "4", "--raw").stdout == b"bc"
    assert ithaca("read", "-b", bootstrap, "--key", "k", "--raw").stdout == b"ab"
    assert ithaca("trim", "-b", bootstrap, "--before", "3").stdout == b"first 3\n"
    assert ithaca("tail", "-b", bootstrap).stdout == b"first 3\ntail 5\n"
    assert b"not written yet; the tail is 5" in ithaca("read", "-b", bootstrap, "--from", "9", status=1).stderr


def test_a_follower_sees_what_others_append(bootstrap: str) -> None:
    ithaca("append", "-b", bootstrap, "first")
    with subprocess.Popen(
        [*COMMAND, "follow", "-b", bootstrap, "--from", "earliest", "-n", "2", "--format", r"%p %v\n"],
        stdout=subprocess.PIPE,
        env=environment(),
    ) as follower:
        assert follower.stdout is not None
        assert follower.stdout.readline() == b"1 first\n"
        ithaca("append", "-b", bootstrap, "second")
        assert follower.stdout.read() == b"2 second\n"
        assert follower.wait(timeout=60) == 0


def test_one_address_of_several_is_enough(bootstrap: str) -> None:
    (port,) = free_ports(1)
    assert ithaca("tail", "-b", f"127.0.0.1:{port}, {bootstrap}").stdout == b"first 1\ntail 1\n"


def test_who_waits_for_a_cluster_is_told_and_says_for_how_long() -> None:
    (port,) = free_ports(1)
    done = ithaca("tail", "-b", f"127.0.0.1:{port}", "--timeout", "1500ms", status=1)
    told, failed = done.stderr.decode().splitlines()
    assert told.startswith(f"waiting for the cluster at 127.0.0.1:{port}, for up to 1.5 s: nobody answers at")
    assert failed.startswith(f"ithaca: nobody answers at 127.0.0.1:{port} within 1.5 s")
