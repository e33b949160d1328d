"""`ithaca shard replicas`: on a cluster of this machine, and on one whose spare was started by hand."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.command import COMMAND, environment, ithaca, json_lines
from tests.cluster.free_base import free_base
from tests.cluster.supervising import eventually

from ithaca.cluster.layout import bootstrap_of
from ithaca.cluster.local import cluster_file
from ithaca.cluster.state import load_state


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "data"
    options = ["--shards", "1", "--orderers", "1", "--replicas", "2", "--port", str(free_base(8))]
    ithaca("up", "--dir", path, *options, "--detach")
    yield path
    ithaca("down", "--dir", path)


def replicas(*where: str | Path) -> list[str]:
    return [each["replica"] for each in json_lines(ithaca("shard", "replicas", "list", *where, "--json").stdout)]


def running(directory: Path) -> set[str]:
    state = load_state(directory)
    assert state is not None
    return {child.name for child in state.children}


def test_replicas_of_a_local_cluster(directory: Path) -> None:
    here: list[str | Path] = ["--dir", directory]
    bootstrap = bootstrap_of(cluster_file(directory))
    ithaca("append", "-b", bootstrap, "one", "two")
    assert replicas(*here) == ["0/0", "0/1"]
    done = ithaca("shard", "replicas", "replace", "0/0", *here).stdout
    assert done == b"replica 0/2 has taken the place of 0/0\n"
    eventually(lambda: running(directory) == {"orderer-1", "shard-0-replica-1", "spare-1"}, "0/0 is stopped")
    ithaca("shard", "replicas", "remove", "0/1", *here)
    eventually(lambda: running(directory) == {"orderer-1", "spare-1"}, "0/1 is stopped")
    assert "short of 1 of its replicas" in ithaca("status", *here, status=1).stdout.decode()
    assert ithaca("shard", "replicas", "add", "0", *here).stdout == b"replica 0/3 was added\n"
    assert "0/3" in ithaca("shard", "replicas", "list", "0", *here).stdout.decode()
    ithaca("append", "-b", bootstrap, "three")
    ithaca("down", *here)
    up = ithaca("up", *here, "--detach")
    assert up.stdout.startswith(b"The cluster is up: 3 servers")
    told = up.stderr.splitlines()
    assert len(told) == len(set(told)), "the same line again tells nothing"
    assert replicas(*here) == ["0/2", "0/3"]
    status = ithaca("status", *here).stdout.decode()
    assert "healthy" in status
    assert "shard-0-replica-2 (spare-1)" in status
    (report,) = json_lines(ithaca("status", *here, "--json").stdout)
    assert [each["name"] for each in report["servers"]] == ["orderer-1", "shard-0-replica-2", "shard-0-replica-3"]
    read = ithaca("read", "-b", bootstrap).stdout.decode()
    assert [line.split()[-1] for line in read.splitlines()] == ["one", "two", "three"]


def test_a_spare_that_was_started_by_hand(directory: Path, tmp_path: Path) -> None:
    file = cluster_file(directory)
    port = max(address.port for address in file.addresses()) + 1
    remote = ["-b", bootstrap_of(file), "--spare", f"127.0.0.1:{port}"]
    command: list[str | Path] = [
        *COMMAND,
        "serve",
        "--config",
        directory / "cluster.toml",
        "--spare",
        f"127.0.0.1:{port}",
    ]
    spare = subprocess.Popen([*command, "--dir", tmp_path / "spare"], env=environment(), stderr=subprocess.DEVNULL)
    try:
        done = ithaca("shard", "replicas", "replace", "0/1", *remote).stdout
        assert done == b"replica 0/2 has taken the place of 0/1\n"
        assert replicas("-b", bootstrap_of(file)) == ["0/0", "0/2"]
    finally:
        spare.kill()
        spare.wait()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["remove", "7"], "'7' is not of the form SHARD/REPLICA"),
        (["add", "0", "--spare", "127.0.0.1:1"], "name it with --bootstrap"),
        (["replace", "0/1", "-b", "127.0.0.1:1"], "name the spare with --spare"),
    ],
)
def test_bad_arguments_are_named(arguments: list[str], said: str) -> None:
    assert said in " ".join(ithaca("shard", "replicas", *arguments, status=2).stderr.decode().replace("│", "").split())
