"""`ithaca shard`: on a cluster of this machine, and on one whose replicas were started by hand."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.command import COMMAND, environment, ithaca, json_lines
from tests.cluster.free_base import free_base
from tests.cluster.supervising import eventually

from ithaca.cluster.layout import bootstrap_of, servers_of
from ithaca.cluster.local import cluster_file
from ithaca.cluster.shards import append_shard
from ithaca.model.config.cluster import ReplicaPlace, ShardPlace, load_cluster
from ithaca.model.view import Address


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """A cluster of one shard, with a word of its owner in the file."""
    path = tmp_path / "data"
    options = ["--shards", "1", "--orderers", "1", "--replicas", "1", "--port", str(free_base(8))]
    ithaca("up", "--dir", path, *options, "--detach")
    with (path / "cluster.toml").open("a") as file:
        file.write("\n# this stays\n")
    yield path
    ithaca("down", "--dir", path)


def phases(*where: str | Path) -> list[tuple[int, str]]:
    shards = json_lines(ithaca("shard", "list", *where, "--json").stdout)
    return [(shard["shard"], shard["phase"]) for shard in shards]


@pytest.mark.campaign
def test_shards_of_a_local_cluster(directory: Path) -> None:
    here: list[str | Path] = ["--dir", directory]
    refused = ithaca("shard", "finalize", "0", *here, status=1).stderr.decode()
    assert "shard 0 is the last one that takes appends: add another first" in refused
    assert b"shard 1 was added" in ithaca("shard", "add", *here).stdout
    assert b"shard 2 was added" in ithaca("shard", "add", *here, "--replicas", "3", "--masking").stdout
    text = (directory / "cluster.toml").read_text()
    assert "# this stays" in text
    assert [len(shard.replicas) for shard in cluster_file(directory).shards] == [1, 1, 3]
    assert b"shard 0 is finalized" in ithaca("shard", "finalize", "0", *here, "--grace-cuts", "3").stdout
    assert ithaca("shard", "finalize", "0", *here).stdout == b"shard 0 is finalized\n"
    assert phases(*here) == [(0, "finalized"), (1, "live"), (2, "live")]
    listed = ithaca("shard", "list", *here).stdout.decode()
    assert "1 of 3 (masking)" in listed
    assert "healthy" in ithaca("status", *here).stdout.decode()
    assert "there is no shard 9" in ithaca("shard", "finalize", "9", *here, status=1).stderr.decode()
    ithaca("down", *here)
    assert "no cluster runs in" in ithaca("shard", "add", *here, status=1).stderr.decode()
    ithaca("up", *here, "--detach")
    assert phases(*here) == [(0, "finalized"), (1, "live"), (2, "live")]


def test_a_shard_that_was_left_half_added_is_completed(directory: Path) -> None:
    port = max(address.port for address in cluster_file(directory).addresses()) + 1
    append_shard(directory / "cluster.toml", ShardPlace(1, 0, False, (ReplicaPlace(0, Address("127.0.0.1", port)),)))
    assert b"shard 1 was added" in ithaca("shard", "add", "--dir", directory).stdout
    assert phases("--dir", directory) == [(0, "live"), (1, "live")]


def test_replicas_that_were_started_by_hand(directory: Path, tmp_path: Path) -> None:
    file = cluster_file(directory)
    bootstrap = bootstrap_of(file)
    port = max(address.port for address in file.addresses()) + 1
    elsewhere = tmp_path / "cluster.toml"
    elsewhere.write_bytes((directory / "cluster.toml").read_bytes())
    places = tuple(ReplicaPlace(number, Address("127.0.0.1", port + number)) for number in range(2))
    append_shard(elsewhere, ShardPlace(7, 1, False, places))
    addresses = [str(place.address) for place in places]
    options = [option for address in reversed(addresses) for option in ("--replica", address)]
    assert "Connect" in ithaca("shard", "add", "-b", bootstrap, *options, status=1).stderr.decode()
    new = [place for place in servers_of(load_cluster(elsewhere)) if place.shard == 7]
    commands = [
        [*COMMAND, "serve", "--config", str(elsewhere), "--dir", str(tmp_path / place.name), *place.arguments]
        for place in new
    ]
    servers = [subprocess.Popen(each, stderr=subprocess.DEVNULL, env=environment()) for each in commands]
    try:
        eventually(lambda: all((tmp_path / place.name / "meta").exists() for place in new), "they have started")
        eventually(
            lambda: (
                subprocess.run(
                    [*COMMAND, "shard", "add", "-b", bootstrap, *options], capture_output=True, env=environment()
                ).stdout
                == b"shard 7 was added\n"
            ),
            "it is added",
        )
        assert phases("-b", bootstrap) == [(0, "live"), (7, "live")]
        wrong = ithaca("shard", "add", "-b", bootstrap, "--replica", addresses[1], status=1).stderr.decode()
        assert "not all replicas of one new shard" in wrong
        eventually(
            lambda: (
                b"healthy"
                in subprocess.run([*COMMAND, "status", "-b", bootstrap], capture_output=True, env=environment()).stdout
            ),
            "it takes appends",
        )
        ithaca("shard", "finalize", "0", "-b", bootstrap)
        assert ithaca("append", "-b", bootstrap, stdin=b"hello\n").returncode == 0
    finally:
        for server in servers:
            server.terminate()
            server.wait()


@pytest.mark.parametrize(
    "arguments",
    [
        ["add", "--replica", "127.0.0.1:1"],
        ["add", "-b", "127.0.0.1:1"],
        ["add", "-b", "127.0.0.1:1", "--dir", "d", "--replica", "127.0.0.1:2"],
        ["finalize"],
        ["finalize", "-1"],
        ["list", "-b", "nowhere"],
    ],
)
def test_wrong_usage_is_said(arguments: list[str]) -> None:
    ithaca("shard", *arguments, status=2)
