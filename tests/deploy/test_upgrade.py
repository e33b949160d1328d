"""A cluster gets another version server by server, while clients of both versions append and read."""

import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.cli.command import COMMAND, environment

import ithaca
from ithaca.cluster.ports import free_ports

ROOT = Path(__file__).parents[2]
HEALTHY_S = 60.0
SERVERS = {f"orderer-{number}": ["--orderer", str(number)] for number in (1, 2, 3)} | {
    f"replica-{number}": ["--replica", f"0/{number}"] for number in (0, 1)
}


def git(*arguments: str) -> str:
    ran = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True)
    if ran.returncode:
        pytest.skip(f"git has no history to take an earlier version from: {ran.stderr.strip() or arguments}")
    return ran.stdout.strip()


def last_release() -> str:
    """The newest tag; while there is none, what was there 50 commits ago."""
    tags = git("tag", "--merged", "HEAD", "--sort=-creatordate").splitlines()
    return tags[0] if tags else git("rev-parse", "HEAD~50")


def last_protocol() -> str:
    """The last state of the sources whose newest version of the protocol is the one before ours."""
    from ithaca.protocol.greeting import VERSION_MAX

    changes = git("log", f"-SVERSION_MAX = {VERSION_MAX}", "--format=%H", "--", "src").splitlines()
    if not changes:
        pytest.skip("git's history does not reach back to the protocol before")
    return git("rev-parse", f"{changes[-1]}^")


@dataclass
class Fleet:
    """The servers of a cluster, each of either version."""

    earlier: Path
    directory: Path
    addresses: dict[str, str]
    running: dict[str, subprocess.Popen[bytes]]

    @property
    def bootstrap(self) -> str:
        return ",".join(address for name, address in self.addresses.items() if name.startswith("orderer"))

    def start(self, name: str, sources: Path) -> None:
        command = ["serve", "--config", "cluster.toml", "--dir", name, *SERVERS[name]]
        with (self.directory / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                [*COMMAND, *command], cwd=self.directory, env=environment() | {"PYTHONPATH": str(sources)}, stderr=log
            )

    def stop(self, name: str) -> None:
        server = self.running.pop(name)
        server.send_signal(signal.SIGTERM)
        assert server.wait(60) == 0, (self.directory / f"{name}.log").read_text()[-2000:]

    def append_with(self, sources: Path, value: str) -> None:
        """By the command of a version."""
        self.ran(sources, "append", "-b", self.bootstrap, value)

    def ran(self, sources: Path, *command: str) -> str:
        ran = subprocess.run(
            [*COMMAND, *command],
            cwd=self.directory,
            env=environment() | {"PYTHONPATH": str(sources)},
            capture_output=True,
            text=True,
            timeout=90,
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout


@pytest.fixture(params=["release", "protocol"])
def fleet(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Fleet]:
    commit = last_release() if request.param == "release" else last_protocol()
    archive = subprocess.run(["git", "-C", str(ROOT), "archive", commit, "src"], capture_output=True, check=True)
    subprocess.run(["tar", "-x", "-C", str(tmp_path)], input=archive.stdout, check=True)
    ports = free_ports(len(SERVERS))
    addresses = {name: f"127.0.0.1:{port}" for name, port in zip(SERVERS, ports, strict=True)}
    orderers = [
        f'[[orderer]]\nserver = {number}\naddress = "{addresses[f"orderer-{number}"]}"\n' for number in (1, 2, 3)
    ]
    shard = f'[[shard]]\nshard = 0\nreplicas = ["{addresses["replica-0"]}", "{addresses["replica-1"]}"]\n'
    (tmp_path / "cluster.toml").write_text("\n".join(['[cluster]\nname = "upgraded"\n', *orderers, shard]))
    fleet = Fleet(tmp_path / "src", tmp_path, addresses, {})
    try:
        for name in SERVERS:
            fleet.start(name, fleet.earlier)
        yield fleet
    finally:
        for server in fleet.running.values():
            server.kill()


def wait_healthy(log: ithaca.ClusterLog) -> None:
    deadline = time.monotonic() + HEALTHY_S
    while not (status := log.status()).healthy:
        assert time.monotonic() < deadline, status.problems
        time.sleep(0.1)


@pytest.mark.campaign
def test_servers_of_two_versions_make_one_cluster(fleet: Fleet) -> None:
    ours = ROOT / "src"
    expected = []
    with ithaca.connect(fleet.bootstrap, timeout="90s") as log:
        wait_healthy(log)
        for name in [None, *SERVERS]:
            if name is not None:
                fleet.stop(name)
                fleet.start(name, ours)
                wait_healthy(log)
            for sources, version in ((ours, "ours"), (fleet.earlier, "earlier")):
                expected.append(f"{version} after {name}")
                fleet.append_with(sources, expected[-1])
            expected.append(f"the same handle after {name}")
            log.append(expected[-1].encode())
        assert [record.value.decode() for record in log.read_range("earliest")] == expected
        with log.subscribe("earliest") as subscription:
            assert len([next(subscription) for _ in expected]) == len(expected)
    lines = fleet.ran(fleet.earlier, "read", "-b", fleet.bootstrap).splitlines()
    assert [line.rpartition("\t")[2] for line in lines] == expected
    for name in list(fleet.running):
        fleet.stop(name)
