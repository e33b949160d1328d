"""`ithaca orderer`: on a cluster of this machine, and with an orderer that was started by hand."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.command import COMMAND, environment, ithaca, json_lines
from tests.cluster.free_base import free_base
from tests.cluster.supervising import eventually

from ithaca.cluster.layout import bootstrap_of
from ithaca.cluster.local import cluster_file
from ithaca.cluster.shards import append_text
from ithaca.model.config.cluster import OrdererPlace
from ithaca.model.config.text import dump_orderer
from ithaca.model.view import Address


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "data"
    options = ["--shards", "1", "--orderers", "1", "--replicas", "1", "--port", str(free_base(8))]
    ithaca("up", "--dir", path, *options, "--detach")
    yield path
    ithaca("down", "--dir", path)


def roles(*where: str | Path) -> list[tuple[int, bool]]:
    return [(each["orderer"], each["votes"]) for each in json_lines(ithaca("orderer", "list", *where, "--json").stdout)]


@pytest.mark.campaign
def test_orderers_of_a_local_cluster(directory: Path) -> None:
    here: list[str | Path] = ["--dir", directory]
    refused = ithaca("orderer", "remove", "1", *here, status=1).stderr.decode()
    assert "orderer 1 is the last one that votes: add another first" in refused
    assert b"orderer 2 was added" in ithaca("orderer", "add", *here).stdout
    assert b"orderer 3 was added" in ithaca("orderer", "add", *here).stdout
    assert b"orderer 1 was removed" in ithaca("orderer", "remove", "1", *here).stdout
    assert ithaca("orderer", "remove", "1", *here).stdout == b"orderer 1 was removed\n"
    assert roles(*here) == [(2, True), (3, True)]
    assert "leader" in ithaca("orderer", "list", *here).stdout.decode()
    eventually(lambda: "healthy" in ithaca("status", *here).stdout.decode(), "healthy without the one that is gone")
    assert "there is no orderer 9" in ithaca("orderer", "remove", "9", *here, status=1).stderr.decode()
    ithaca("down", *here)
    assert "no cluster runs in" in ithaca("orderer", "add", *here, status=1).stderr.decode()
    ithaca("up", *here, "--detach")
    assert roles(*here) == [(2, True), (3, True)]
    assert b"orderer 4 was added" in ithaca("orderer", "add", *here).stdout


def test_an_orderer_that_was_left_half_added_is_completed(directory: Path) -> None:
    port = max(address.port for address in cluster_file(directory).addresses()) + 1
    append_text(directory / "cluster.toml", dump_orderer(OrdererPlace(2, Address("127.0.0.1", port), joining=True)))
    assert b"orderer 2 was added" in ithaca("orderer", "add", "--dir", directory).stdout
    assert roles("--dir", directory) == [(1, True), (2, True)]


def test_an_orderer_that_was_started_by_hand(directory: Path, tmp_path: Path) -> None:
    file = cluster_file(directory)
    bootstrap = bootstrap_of(file)
    elsewhere = tmp_path / "cluster.toml"
    elsewhere.write_bytes((directory / "cluster.toml").read_bytes())
    address = Address("127.0.0.1", max(each.port for each in file.addresses()) + 1)
    append_text(elsewhere, dump_orderer(OrdererPlace(7, address, joining=True)))
    assert "name the address" in ithaca("orderer", "add", "-b", bootstrap, status=2).stderr.decode()
    command = [*COMMAND, "serve", "--config", str(elsewhere), "--dir", str(tmp_path / "seven"), "--orderer", "7"]
    server = subprocess.Popen(command, stderr=subprocess.DEVNULL, env=environment())
    try:
        assert b"orderer 7 was added" in ithaca("orderer", "add", "-b", bootstrap, str(address)).stdout
        assert roles("-b", str(address)) == [(1, True), (7, True)]
        assert b"orderer 7 was removed" in ithaca("orderer", "remove", "7", "-b", str(address)).stdout
        assert roles("-b", bootstrap) == [(1, True)]
    finally:
        server.terminate()
        server.wait()
