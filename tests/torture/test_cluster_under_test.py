"""The cluster that is tormented, as far as that can be told without starting it."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from ithaca.cluster.layout import servers_of
from ithaca.cluster.status import ClusterStatus
from ithaca.cluster.temporary import Shape
from ithaca.model.config.cluster import load_cluster
from ithaca.model.errors import InvalidInput
from ithaca.model.health import ServerStatus
from ithaca.torture.cluster_under_test import ClusterUnderTest, is_running, process_state, server_names
from ithaca.torture.faults.catalogue import INJECTORS, chosen
from ithaca.torture.faults.process import Clock


def made(directory: Path, shape: Shape) -> ClusterUnderTest:
    data = {name: directory / "data" / name for name in server_names(shape)}
    cluster = ClusterUnderTest(directory / "cluster", shape, data)
    cluster.make()
    return cluster


def test_others_are_sent_to_the_proxies(tmp_path: Path) -> None:
    cluster = made(tmp_path, Shape(shards=1, replicas=3, orderers=1, masking=True))
    file = load_cluster(cluster.directory / "cluster.toml")
    assert [(shard.f, shard.masking) for shard in file.shards] == [(1, True)]
    assert [place.name for place in servers_of(file)] == server_names(cluster.shape)
    assert cluster.bootstrap == str(file.orderers[0].address)
    for place in servers_of(file):
        public, private = cluster.routes[place.name]
        assert place.address == public
        assert cluster.places[place.name].address == private != public


def test_each_server_listens_where_only_its_proxy_goes(tmp_path: Path) -> None:
    cluster = made(tmp_path, Shape(shards=2))
    programs = (cluster.directory / "programs.json").read_text()
    for name, (_, private) in cluster.routes.items():
        assert f'"--listen","{private}"' in programs
        assert str(cluster.data[name]) in programs


def test_variables_are_set_for_one_server(tmp_path: Path) -> None:
    cluster = made(tmp_path, Shape(shards=2))
    cluster.environment("orderer-1", {"FAKETIME": "+1h 'quoted'"})
    command = ["sh", "-c", 'if [ -f "$0" ]; then . "$0"; fi; exec "$@"', str(cluster.directory / "orderer-1.env")]
    shown = [*command, sys.executable, "-c", "import os; print(os.environ.get('FAKETIME'))"]
    assert subprocess.run(shown, capture_output=True, text=True).stdout == "+1h 'quoted'\n"
    cluster.environment("orderer-1", {})
    assert subprocess.run(shown, capture_output=True, text=True).stdout == "None\n"


def test_processes_that_are_gone_do_not_run() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        assert is_running(process.pid)
        process.kill()
        process.wait()
        assert not is_running(process.pid)
        assert process_state(process.pid) == ""


@pytest.mark.parametrize(
    ("names", "complaint"),
    [([], "no fault is named"), (["kil"], "did you mean kill"), (["all", "kill"], "there is no fault 'all'")],
)
def test_faults_that_are_not_known(names: list[str], complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        chosen(names)


def test_faults_that_are_not_possible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(InvalidInput, match="eio is not possible here: strace is not installed"):
        chosen(["eio"])
    assert set(chosen(["all"])) == set(INJECTORS) - {"eio", "clock", "full", "power"}


def test_clocks_are_off_by_more_than_any_age_or_time_to_live() -> None:
    hours = {"h": 1, "d": 24}
    off_h = sorted(int(jump[:-1]) * hours[jump[-1]] for jump in Clock.fault.variants)
    assert off_h[0] <= -24 * 365
    assert off_h[-1] >= 24 * 365
    assert {25, -25} <= set(off_h)
    assert all(jump[0] in "+-" for jump in Clock.fault.variants), "faketime takes one without a sign for a date"


@pytest.mark.skipif(Clock.unavailable() is not None, reason=f"{Clock.unavailable()}")
@pytest.mark.parametrize("jump", Clock.fault.variants)
def test_faketime_takes_the_jumps(jump: str) -> None:
    shown = subprocess.run(["faketime", "-f", jump, "date", "+%s"], capture_output=True, text=True, check=True)
    assert (int(shown.stdout) > time.time()) == (jump[0] == "+")


def test_links_between_parties_are_not_broken_where_tls_hides_who_dialled() -> None:
    assert not {"partition", "oneway", "slow", "loss"} & set(chosen(["all"], tls=True))
    assert {"kill", "reset"} <= set(chosen(["all"], tls=True))
    with pytest.raises(InvalidInput, match="partition needs to know who has dialled"):
        chosen(["kill", "partition"], tls=True)


def test_faults_are_chosen_once() -> None:
    assert chosen(["kill", "pause", "kill"]) == ["kill", "pause"]


async def test_a_target_that_leads_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another fault may have ended the last leader's term a moment ago."""
    monkeypatch.setattr("ithaca.torture.cluster_under_test.POLL_S", 0.0)
    cluster = made(tmp_path, Shape(engine="raft", shards=0, replicas=0))
    asked = 0

    async def status() -> ClusterStatus:
        nonlocal asked
        asked += 1
        leads = {"state": "leader", "engine": "raft"}
        servers = [ServerStatus(place, leads if asked > 2 else None) for place in cluster.places.values()]
        return ClusterStatus(servers[1:2])

    monkeypatch.setattr(cluster, "status", status)
    assert await cluster.resolved("leader") == "orderer-2"
    assert asked == 3
    assert await cluster.resolved("follower-1") == "orderer-1"
