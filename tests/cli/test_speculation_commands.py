"""`ithaca follow --speculate` and `ithaca demo speculation`."""

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.command import COMMAND, environment, ithaca, json_lines
from tests.cli.processes import left_behind

import ithaca as library
from ithaca.model.interface import ClusterLog
from ithaca.testing import Cluster

MARKER = "SPECULATION_TEST"
"""A variable that every process of a demo inherits, so that those which are left can be found."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(replicas=1, durability="os", engine="belfast") as cluster:
        yield cluster


@pytest.fixture
def log(cluster: Cluster) -> Iterator[ClusterLog]:
    with library.connect(cluster.bootstrap) as log:
        yield log


def confirmed(lines: list[str]) -> int:
    """Up to where the newest line says that all is final."""
    return max((int(line[2:]) for line in lines if line.startswith("= ")), default=0)


def test_a_follower_that_speculates_is_told_what_is_final(cluster: Cluster, log: ClusterLog) -> None:
    """Its line of a record comes before the line that says so, and Ctrl-C ends it."""
    first = log.append(b"first").position
    command = ["follow", "-b", cluster.bootstrap, "--speculate", "--from", str(first), "--format", r"%p %v\n"]
    with subprocess.Popen([*COMMAND, *command], stdout=subprocess.PIPE, text=True, env=environment()) as follower:
        assert follower.stdout is not None
        lines: list[str] = []
        while confirmed(lines) < first:
            lines.append(follower.stdout.readline())
        second = log.append(b"second").position
        while confirmed(lines) < second:
            lines.append(follower.stdout.readline())
        follower.send_signal(signal.SIGINT)
        follower.wait(timeout=60)
    records = [line for line in lines if not line.startswith("= ")]
    assert records == [f"{first} first\n", f"{second} second\n"]
    for at, line in enumerate(lines):
        if not line.startswith("= "):
            assert confirmed(lines[:at]) < int(line.split()[0]), "a record is delivered before its place is final"


def test_records_are_objects_with_json(cluster: Cluster, log: ClusterLog) -> None:
    position = log.append(b"more").position
    command = ["follow", "-b", cluster.bootstrap, "--speculate", "--from", str(position), "-n", "1", "--json"]
    told = json_lines(ithaca(*command).stdout)
    assert [each["position"] for each in told if "position" in each] == [position]
    assert told[-1]["confirmed"] >= position, "it ends when they are final"


def test_an_engine_that_has_none_is_refused_by_name(tmp_path: Path) -> None:
    with library.open(tmp_path / "log") as log:
        log.append(b"x")
    refused = ithaca("follow", "-p", tmp_path / "log", "--speculate", status=1)
    assert b"belfast" in refused.stderr


@pytest.mark.campaign
@pytest.mark.timeout(300)
def test_the_demo_holds_and_leaves_nothing_behind(tmp_path: Path) -> None:
    command = [*COMMAND, "demo", "speculation", "--records", "1000", "--dir", str(tmp_path)]
    env = environment() | {MARKER: str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=250)
    assert done.returncode == 0, done.stdout + done.stderr
    assert left_behind(tmp_path) == []
    assert list(tmp_path.iterdir()) == []
