"""The directory of a local cluster: made, found again, refused, locked."""

import os
import socket
from dataclasses import replace
from pathlib import Path

import pytest
from tests.cluster.free_base import free_base

from ithaca.cluster.layout import bootstrap_of, local_cluster, serve_command, servers_of, shard_notes
from ithaca.cluster.local import Wanted, cluster_file, locked_cluster, programs_of, supervisor_pid, take_down
from ithaca.cluster.ports import free_ports, refuse_taken
from ithaca.engines.registry import make_server
from ithaca.model.config.cluster import ClusterFile, load_cluster
from ithaca.model.config.text import dump_cluster
from ithaca.model.errors import ConfigError, InvalidInput, LogInUse, NoSuchLog, Unavailable
from ithaca.model.records import Retention
from ithaca.model.view import Address


@pytest.fixture
def small() -> Wanted:
    return Wanted(shards=1, replicas=2, orderers=1, port=free_base(3), durability="os")


def make(directory: Path, wanted: Wanted) -> ClusterFile:
    with locked_cluster(directory, wanted) as file:
        return file


def test_names_and_ports() -> None:
    file = local_cluster(shards=2, replicas=2, orderers=1, ports=[1, 2, 3, 4, 5], durability="fsync")
    places = servers_of(file)
    assert [(place.name, place.address.port) for place in places] == [
        ("orderer-1", 1),
        ("shard-0-replica-0", 2),
        ("shard-0-replica-1", 3),
        ("shard-1-replica-0", 4),
        ("shard-1-replica-1", 5),
    ]
    assert [shard.f for shard in file.shards] == [1, 1]
    assert bootstrap_of(file) == "127.0.0.1:1"
    command = serve_command(Path("/data"), places[4])
    assert command[1:] == [
        *("-P", "-m", "ithaca", "serve", "--config", "/data/cluster.toml"),
        *("--dir", "/data/shard-1-replica-1", "--replica", "1/1"),
    ]


def test_a_new_cluster_is_written_down_and_found_again(tmp_path: Path, small: Wanted) -> None:
    directory = tmp_path / "deep" / "data"
    file = make(directory, small)
    assert (len(file.shards), len(file.orderers), file.durability) == (1, 1, "os")
    assert [address.port - (small.port or 0) for address in file.addresses()] == [0, 1, 2]
    assert load_cluster(directory / "cluster.toml") == file
    assert directory.stat().st_mode & 0o777 == 0o700
    assert make(directory, Wanted()) == file
    assert make(directory, small) == file
    assert cluster_file(directory) == file
    assert [program.name for program in programs_of(directory, file)] == [place.name for place in servers_of(file)]


def test_an_engine_that_is_not_there_makes_no_cluster(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"the engine 'scallog' is not in this version \(did you mean scalog\?\)"):
        make(tmp_path, Wanted(engine="scallog"))
    assert not (tmp_path / "cluster.toml").exists()


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (Wanted(engine="corfu", durability="os"), "in the engine corfu units answer for what is synced, so use fsync"),
        (Wanted(engine="raft", durability="os"), "the engine raft agrees on what is synced, so use fsync"),
        (Wanted(engine="corfu", retention_bytes=1 << 30), "the engine corfu has no retention: leave it out"),
    ],
)
def test_what_an_engine_does_not_allow_is_refused_before_anything_is_started(
    tmp_path: Path, wanted: Wanted, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        make(tmp_path, replace(wanted, port=free_base(8)))
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_its_engine_does_not_allow_any_more_is_refused(tmp_path: Path) -> None:
    file = make(tmp_path, Wanted(engine="corfu", shards=1, replicas=2, orderers=1, port=free_base(3)))
    path = tmp_path / "cluster.toml"
    path.write_text(dump_cluster(replace(file, durability="os")))
    with pytest.raises(ConfigError, match="durability is 'os'"):
        make(tmp_path, Wanted())
    with pytest.raises(ConfigError, match="durability is 'os'"):
        make_server(load_cluster(path), servers_of(file)[0], str(tmp_path / "orderer-1"))
    assert not (tmp_path / "orderer-1").exists()


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (Wanted(shards=2), "made with --shards 1, not 2: leave --shards out"),
        (Wanted(replicas=3), "made with --replicas 2, not 3"),
        (Wanted(orderers=3), "made with --orderers 1, not 3"),
        (Wanted(port=1), "made with --port [0-9]+, not 1"),
        (Wanted(aggregators=2), "made with --aggregators 0, not 2"),
        (Wanted(engine="corfu"), "made with --engine scalog, not corfu"),
        (Wanted(durability="fsync"), "made with --durability os, not fsync.*another --dir"),
    ],
)
def test_what_differs_is_said(tmp_path: Path, small: Wanted, wanted: Wanted, message: str) -> None:
    make(tmp_path, small)
    with pytest.raises(InvalidInput, match=message):
        make(tmp_path, wanted)


def test_a_port_in_use_is_named_and_nothing_is_made(tmp_path: Path, small: Wanted) -> None:
    assert small.port is not None
    with (
        socket.create_server(("127.0.0.1", small.port + 1)),
        pytest.raises(Unavailable, match=f"port {small.port + 1} .*nothing was started: .*--port"),
    ):
        make(tmp_path / "data", small)
    assert not (tmp_path / "data" / "cluster.toml").exists()
    make(tmp_path / "data", small)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (Wanted(orderers=2), "2 orderers survive no more failures than 1: use 1 or 3"),
        (Wanted(engine="belfast", aggregators=1), "the engine belfast has no aggregators: leave them out"),
        (Wanted(port=65535), "7 servers need ports 65535 to 65541, and 65535 is the last"),
    ],
)
def test_clusters_that_cannot_be(tmp_path: Path, wanted: Wanted, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        make(tmp_path, wanted)
    assert not (tmp_path / "cluster.toml").exists()


def test_directories_of_others_are_left_alone(tmp_path: Path, small: Wanted) -> None:
    (tmp_path / "thesis.txt").write_text("do not touch")
    with pytest.raises(InvalidInput, match=r"not empty \(thesis.txt is in it\): choose another"):
        make(tmp_path, small)
    assert os.listdir(tmp_path) == ["thesis.txt"]
    with pytest.raises(InvalidInput, match="is a file"):
        make(tmp_path / "thesis.txt", small)


def test_a_damaged_file_is_named_by_its_line(tmp_path: Path, small: Wanted) -> None:
    make(tmp_path, small)
    with (tmp_path / "cluster.toml").open("a") as file:
        file.write("maskin = 7\n")
    with pytest.raises(ConfigError, match=r"cluster.toml:16: maskin is not known"):
        make(tmp_path, Wanted())


def test_a_cluster_of_many_machines_is_not_started_from_one(tmp_path: Path, small: Wanted) -> None:
    make(tmp_path, small)
    file = tmp_path / "cluster.toml"
    file.write_text(file.read_text().replace("127.0.0.1", "192.0.2.7"))
    with pytest.raises(InvalidInput, match="not of this machine alone: start such a cluster with ithaca serve"):
        make(tmp_path, Wanted())


def test_one_supervisor_at_a_time(tmp_path: Path, small: Wanted) -> None:
    with locked_cluster(tmp_path, small):
        assert supervisor_pid(tmp_path) == os.getpid()
        with pytest.raises(LogInUse, match=f"in use by process {os.getpid()}: .*ithaca down") as caught:
            make(tmp_path, small)
        assert caught.value.pid == os.getpid()
    assert supervisor_pid(tmp_path) is None
    make(tmp_path, small)


def test_taking_down_what_is_not_up(tmp_path: Path, small: Wanted) -> None:
    with pytest.raises(NoSuchLog, match=r"no cluster in .*: make one with ithaca up"):
        take_down(tmp_path)
    make(tmp_path, small)
    assert take_down(tmp_path) is False


def test_free_ports_are_different_and_free() -> None:
    ports = free_ports(20)
    assert len(set(ports)) == 20
    refuse_taken([Address("127.0.0.1", port) for port in ports])


def test_a_taken_port_leaves_nothing_behind(tmp_path: Path, small: Wanted) -> None:
    assert small.port is not None
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", small.port + 1))
        taken.listen()
        with pytest.raises(Unavailable, match=str(small.port + 1)):
            make(tmp_path / "new", small)
    assert not (tmp_path / "new").exists()


def test_masking_and_retention_are_written_into_the_file(tmp_path: Path) -> None:
    wanted = Wanted(
        shards=1, replicas=3, orderers=1, port=free_base(4), masking=True, retention_age_s=7 * 86_400.0,
        retention_bytes=100 << 30,
    )  # fmt: skip
    make(tmp_path, wanted)
    file = cluster_file(tmp_path)
    assert (file.shards[0].masking, file.shards[0].f) == (True, 1)
    assert file.retention == Retention("7d", "100GB")
    make(tmp_path, wanted)
    with pytest.raises(InvalidInput, match=r"change \[retention\] there"):
        make(tmp_path, Wanted(retention_age_s=60.0))
    for wrong, said in [
        (Wanted(masking=True, replicas=2), "works by majority"),
        (Wanted(retention_age_s=0.5), "at least 1s"),
        (Wanted(retention_bytes=5), "at least 65536"),
    ]:
        with pytest.raises(InvalidInput, match=said):
            make(tmp_path / "other", wrong)


def test_shards_are_as_large_as_their_engine_needs(tmp_path: Path) -> None:
    def shapes(number: int, wanted: Wanted) -> set[tuple[int, bool]]:
        with locked_cluster(tmp_path / str(number), wanted) as file:
            return {(len(shard.replicas), shard.masking) for shard in file.shards}

    port = free_base(12)
    assert shapes(1, Wanted(port=port, engine="scalog")) == {(2, False)}
    assert shapes(2, Wanted(port=port, engine="belfast")) == {(3, True)}
    assert shapes(3, Wanted(port=port, engine="belfast", replicas=2)) == {(2, False)}
    with locked_cluster(tmp_path / "2", Wanted()) as file:
        assert shard_notes(file) == [
            "Shards of 3 replicas that mask: whichever is lost, what was delivered keeps its place"
        ]
    with locked_cluster(tmp_path / "3", Wanted()) as file:
        assert "with --replicas 3 --masking the others go on" in shard_notes(file)[0]
