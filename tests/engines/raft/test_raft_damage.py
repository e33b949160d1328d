"""Servers with damaged files: they say which, do not take part with what they lost, and are replaced by one command."""

import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.cli.command import ithaca as command
from tests.cluster.supervising import eventually
from tests.engines.raft.test_raft_cluster import asked, leader_of

import ithaca
from ithaca.cluster.temporary import Shape, temporary_cluster
from ithaca.engines.raft.messages import Found, Read
from ithaca.model.errors import Corrupt
from ithaca.model.limits import SEGMENT_BYTES_MIN
from ithaca.testing import Cluster


def segment_of(directory: Path) -> Path:
    return sorted((directory / "lane").glob("*.seg"))[-1]


def flip(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 0xFF
    path.write_bytes(data)


def lose_tail(directory: Path) -> None:
    """The last record's bytes are gone, and what vouched for them."""
    for path in (directory / "lane").iterdir():
        if path.suffix != ".seg":
            path.unlink()
    segment = segment_of(directory)
    end = segment.read_bytes().rindex(b"last")
    with segment.open("r+b") as file:
        file.truncate(end)


def rot_raft_log(directory: Path) -> None:
    flip(directory / "raft.log", 100)


@pytest.mark.parametrize(
    ("damage", "words"), [(lose_tail, "lane.* the data log ends at LSN 1"), (rot_raft_log, r"raft\.log")]
)
def test_a_server_that_lost_something_does_not_start_and_says_what(
    tmp_path: Path, damage: Callable[[Path], None], words: str
) -> None:
    with (
        Cluster(tmp_path / "cluster", engine="raft", orderers=3) as cluster,
        ithaca.connect(cluster.bootstrap, timeout=60) as log,
    ):
        log.append(b"first")
        log.append(b"last")
        assert isinstance(asked(cluster, "orderer-2", Read(2, 20_000)), Found)
        cluster.stop_server("orderer-2")
        damage(cluster.directory / "orderer-2")
        with pytest.raises(Corrupt, match=words) as told:
            cluster.start_server("orderer-2")
        assert "ithaca orderer replace" in str(told.value)
        log.append(b"more")


def test_a_record_that_is_damaged_at_one_server_is_read_at_another_and_the_server_is_named(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path / "cluster", engine="raft", orderers=3)
    cluster.file = replace(cluster.file, segment_bytes=SEGMENT_BYTES_MIN)
    values = [b"%d" % number * 20_000 for number in range(1, 9)]
    with cluster:
        with ithaca.connect(cluster.bootstrap, timeout=60) as log:
            for value in values:
                log.append(value)
        follower = next(name for name in cluster.names if name != leader_of(cluster))
        assert isinstance(asked(cluster, follower, Read(8, 20_000)), Found)
        cluster.stop_server(follower)
        segments = sorted((cluster.directory / follower / "lane").glob("*.seg"))
        assert len(segments) > 2, "the first one is not looked at by a start"
        flip(segments[0], segments[0].read_bytes().index(b"111"))
        cluster.start_server(follower)
        with pytest.raises(Corrupt):
            asked(cluster, follower, Read(1, 20_000))
        with ithaca.connect(cluster.bootstrap, timeout=60) as log:
            assert [log.read(1).value for _ in range(8)] == values[:1] * 8
            assert [record.value for record in log.read_range(1)] == values
            (problem,) = log.status().problems
        assert f"{follower} has a damaged data log" in problem
        assert f"ithaca orderer replace {follower[-1]}" in problem


@pytest.mark.parametrize("damage", [lose_tail, rot_raft_log])
def test_a_damaged_server_is_replaced_by_one_command(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    shape = Shape(1, 1, 3, engine="raft")
    with temporary_cluster(tmp_path / "data", shape, lambda text: None) as cluster:
        here: list[str | Path] = ["--dir", cluster.directory]
        with ithaca.connect(cluster.bootstrap, timeout=60) as log:
            log.append(b"first")
            log.append(b"last")
            lane = segment_of(cluster.directory / "orderer-2")
            eventually(lambda: b"last" in lane.read_bytes(), "the server has it")
            pid = next(child.pid for child in cluster.state().children if child.name == "orderer-2")
            assert pid is not None
            damage(cluster.directory / "orderer-2")
            os.kill(pid, signal.SIGKILL)
            eventually(lambda: not log.status().healthy, "it does not come back")
            assert b"there is no orderer 9" in command("orderer", "replace", "9", *here, status=1).stderr
            assert b"orderer 4 has taken the place of 2" in command("orderer", "replace", "2", *here).stdout
            log.append(b"more")
            assert [each.orderer for each in log.admin.orderers() if each.votes] == [1, 3, 4]
            assert log.status().healthy
