"""A cluster of real processes: `up`, `status`, `logs`, `down`, and what is left of it. Nothing, ever."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.cli.command import COMMAND, environment, ithaca, json_lines
from tests.cluster.free_base import free_base
from tests.cluster.supervising import child_of, eventually, is_running, running_pids, state_of

SMALL = ["--shards", "1", "--orderers", "1"]
SERVERS = ["orderer-1", "shard-0-replica-0", "shard-0-replica-1"]


def up(directory: Path, *more: str) -> list[str]:
    return ["up", "--dir", str(directory), *more]


def new(directory: Path, *more: str) -> list[str]:
    """The options of a small cluster on free ports."""
    return up(directory, *SMALL, "--port", str(free_base(3)), *more)


def status(directory: Path, expected: int = 0) -> dict[str, Any]:
    (report,) = json_lines(ithaca("status", "--dir", directory, "--json", status=expected).stdout)
    return report


@contextmanager
def foreground(arguments: list[str]) -> Iterator["subprocess.Popen[bytes]"]:
    """`ithaca up` in the foreground, once it says that the cluster is up; killed at the end if it is still there."""
    process = subprocess.Popen(
        [*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
    )
    with process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().startswith(b"The cluster is up: 3 servers")
            yield process
        finally:
            process.kill()


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """Where a test may leave a cluster running; none does afterwards."""
    path = tmp_path / "data"
    yield path
    if (path / "cluster.toml").exists():
        ithaca("down", "--dir", path)


def test_a_detached_cluster_from_up_to_down(directory: Path) -> None:
    said = ithaca(*new(directory, "--detach")).stdout.decode()
    file = (directory / "cluster.toml").read_text()
    assert "bootstrap  127.0.0.1:" in said
    assert f"ithaca down --dir {directory}" in said

    report = status(directory)
    assert (report["healthy"], report["problems"], report["tail"]) == (True, [], 1)
    assert [server["name"] for server in report["servers"]] == SERVERS
    assert [server["state"] for server in report["servers"]] == ["leader", "serving", "serving"]
    pids = running_pids(directory, 3)
    assert [server["pid"] for server in report["servers"]] == pids
    assert [lane["lane"] for lane in report["lanes"]] == ["0-0-1", "0-1-1"]
    bootstrap = report["servers"][0]["address"]
    text = ithaca("status", "-b", bootstrap).stdout.decode()
    assert "healthy" in text
    for name in SERVERS:
        assert name in text

    supervisor = state_of(directory).pid
    refused = ithaca(*up(directory, "--detach"), status=1).stderr.decode()
    assert f"is in use by process {supervisor}: stop it with ithaca down --dir {directory}" in refused
    assert status(directory)["healthy"]

    assert b"joined the order" in ithaca("logs", "--dir", directory, "shard-0-replica-0").stdout
    assert ithaca("down", "--dir", directory).stdout == b"stopped: no server is left\n"
    assert not any(map(is_running, [*pids, supervisor]))
    assert "no cluster runs" in status(directory, 1)["problems"][0]

    ithaca(*up(directory, "--detach"))
    assert (directory / "cluster.toml").read_text() == file
    assert status(directory)["log"] == report["log"]


def test_aggregators_are_started_used_and_told_of(directory: Path) -> None:
    base = str(free_base(5))
    ithaca(*up(directory, *SMALL, "--port", base, "--aggregators", "2", "--detach"))
    report = status(directory)
    servers = {server["name"]: server for server in report["servers"]}
    assert list(servers) == [*SERVERS, "aggregator-1", "aggregator-2"]
    assert report["healthy"]
    leader, aggregators = servers["orderer-1"], [servers["aggregator-1"], servers["aggregator-2"]]
    assert [each["state"] for each in aggregators] == ["attached", "attached"]
    assert [each["aggregator"] for each in leader["says"]["aggregators"]] == [1, 2]
    assert sum(each["says"]["replicas"] for each in aggregators) == 2
    assert "aggregator-2" in ithaca("status", "-b", leader["address"]).stdout.decode()
    assert not (directory / "aggregator-1").exists(), "it keeps nothing"
    assert ithaca("append", "-b", leader["address"], "x").stdout == b"1\n"


def test_a_killed_server_comes_back_and_is_told_of(directory: Path) -> None:
    ithaca(*new(directory, "--detach"))
    victim = child_of(directory, "shard-0-replica-1").pid
    assert victim is not None
    os.kill(victim, signal.SIGKILL)
    eventually(lambda: child_of(directory, "shard-0-replica-1").restarts == 1, "the supervisor has noticed")
    eventually(lambda: _is_healthy(directory), "it is back")
    (server,) = [each for each in status(directory)["servers"] if each["name"] == "shard-0-replica-1"]
    assert (server["restarts"], server["says"]["lane"]) == (1, "0-1-2")
    assert server["pid"] != victim
    log = ithaca("logs", "--dir", directory, "supervisor").stdout.decode()
    assert "shard-0-replica-1 ended (killed by SIGKILL); it is started again in 0.1 s" in log


def _is_healthy(directory: Path) -> bool:
    done = subprocess.run(
        [*COMMAND, "status", "--dir", str(directory), "--json"], capture_output=True, env=environment(), timeout=60
    )
    return bool(json.loads(done.stdout)["healthy"])


def test_ctrl_c_leaves_nothing_behind(directory: Path) -> None:
    with foreground(new(directory)) as process:
        pids = running_pids(directory, 3)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0
        assert process.stderr is not None
        assert b"Traceback" not in (said := process.stderr.read())
        assert b"stopped: no server is left" in said
    assert not any(map(is_running, pids))
    for name in SERVERS:
        assert b"Traceback" not in (directory / "logs" / f"{name}.log").read_bytes()


@pytest.mark.campaign
def test_a_killed_supervisor_leaves_nothing_behind_and_the_cluster_starts_again(directory: Path) -> None:
    with foreground(new(directory)) as process:
        pids = running_pids(directory, 3)
        process.kill()
        process.wait(timeout=60)
    eventually(lambda: not any(map(is_running, pids)), "the servers are gone")
    assert "no cluster runs" in status(directory, 1)["problems"][0]
    ithaca(*up(directory, "--detach"))
    report = status(directory)
    assert report["healthy"]
    assert report["servers"][1]["says"]["lane"] == "0-0-2", "its second start"


def test_down_stops_a_cluster_in_the_foreground(directory: Path) -> None:
    with foreground(new(directory)) as process:
        assert ithaca("down", "--dir", directory).stdout == b"stopped: no server is left\n"
        assert process.wait(timeout=60) == 0


@pytest.mark.campaign
def test_ctrl_c_while_a_detached_cluster_starts_leaves_nothing_behind(directory: Path) -> None:
    """One server is kept from answering, so that the start never ends by itself."""
    ithaca(*new(directory, "--detach"))
    ithaca("down", "--dir", directory)
    (directory / "orderer-1" / "lock").unlink(missing_ok=True)
    (directory / "orderer-1").rename(directory / "hidden")
    (directory / "orderer-1").write_text("in the way")
    process = subprocess.Popen([*COMMAND, *up(directory, "--detach")], stderr=subprocess.PIPE, env=environment())
    with process:
        eventually(lambda: child_of(directory, "orderer-1").restarts > 0, "the supervisor tries")
        supervisor = state_of(directory).pid
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130
    assert not is_running(supervisor)
    assert {child.pid for child in state_of(directory).children} == {None}
