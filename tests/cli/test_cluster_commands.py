"""`up`, `down`, `status`, `logs`, `serve` and `--bootstrap`: whatever can be told without a running cluster."""

import signal
import socket
import subprocess
from pathlib import Path

import pytest
from tests.cli.command import COMMAND, environment, ithaca, json_lines

from ithaca.cluster.layout import local_cluster
from ithaca.cluster.local import Wanted, locked_cluster
from ithaca.cluster.ports import free_ports
from ithaca.cluster.state import ChildState, SupervisorState, save_state
from ithaca.model.config.text import dump_cluster

LOCATED = ["append", "read", "follow", "tail", "trim"]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A cluster that was made and does not run, with a few lines of log."""
    path = tmp_path / "data"
    (path / "logs").mkdir(parents=True)
    file = local_cluster(shards=1, replicas=2, orderers=1, ports=free_ports(3), durability="fsync")
    (path / "cluster.toml").write_text(dump_cluster(file))
    line = (
        '{"time":"2026-01-31T12:00:0%d.000123Z","level":"info","role":"%s","name":"%s","logger":"ithaca.x",'
        '"event":"%s"}\n'
    )
    (path / "logs" / "orderer-1.log").write_text(line % (1, "orderer", "1", "leads") + "Traceback\n")
    (path / "logs" / "shard-0-replica-1.log").write_text(line % (2, "replica", "0/1", r"joined\u001b[2J"))
    return path


def arguments(command: str, *more: str) -> list[str]:
    return [command, *(["--before", "1"] if command == "trim" else []), *more]


@pytest.mark.parametrize("command", LOCATED)
def test_one_log_must_be_named(command: str) -> None:
    message = ithaca(*arguments(command), status=2).stderr.decode()
    for word in ("--path", "ITHACA_PATH", "--bootstrap", "ITHACA_BOOTSTRAP"):
        assert word in message
    message = ithaca(*arguments(command, "-p", "x", "-b", "h:1"), status=2).stderr.decode()
    assert "give one of them" in message


@pytest.mark.parametrize("command", LOCATED)
def test_a_wrong_address_is_wrong_usage(command: str) -> None:
    assert "is not an address" in ithaca(*arguments(command, "-b", "h:1,nonsense"), status=2).stderr.decode()


def test_the_command_line_wins_over_the_environment(tmp_path: Path) -> None:
    env = {"ITHACA_BOOTSTRAP": "nonsense"}
    assert ithaca("append", "-p", tmp_path / "log", "x", env=env).stdout == b"1\n"
    assert ithaca("tail", "-p", tmp_path / "log", env=env).stdout == b"first 1\ntail 2\n"
    both = {"ITHACA_BOOTSTRAP": "nonsense", "ITHACA_PATH": str(tmp_path / "log")}
    assert "give one of them" in ithaca("tail", env=both, status=2).stderr.decode()


@pytest.mark.parametrize(
    ("command", "said"), [("stats", "Embedded logs only"), ("verify", "Embedded logs and backups only")]
)
def test_what_works_on_embedded_logs_only_says_so(command: str, said: str) -> None:
    text = ithaca(command, "--help").stdout.decode()
    assert said in text
    assert "--bootstrap" not in text


def test_a_cluster_keeps_its_durability() -> None:
    message = ithaca("append", "-b", "127.0.0.1:1", "--durability", "os", "x", status=2).stderr.decode()
    assert "leave --durability out" in message


def test_a_port_in_use_starts_nothing(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = ithaca("up", "--dir", tmp_path / "data", "--port", str(port), status=1)
    (line,) = [line for line in done.stderr.decode().splitlines() if line.startswith("ithaca: ")]
    assert f"port {port} on 127.0.0.1 is in use" in line
    assert "--port" in line
    assert list(tmp_path.iterdir()) == []  # neither a lock nor the directory


@pytest.mark.parametrize("more", [[], ["--detach"]])
def test_a_start_that_differs_is_refused(directory: Path, more: list[str]) -> None:
    done = ithaca("up", "--dir", directory, "--shards", "7", *more, status=1)
    assert "was made with --shards 1, not 7: leave --shards out" in done.stderr.decode()
    assert not (directory / "supervisor.json").exists()


@pytest.mark.parametrize("command", ["down", "status", "logs"])
def test_where_there_is_no_cluster(tmp_path: Path, command: str) -> None:
    done = ithaca(command, "--dir", tmp_path, status=1)
    assert done.stderr.decode() == (
        f"ithaca: there is no cluster in {tmp_path}: make one with ithaca up --dir {tmp_path}\n"
    )


def test_down_without_a_running_cluster(directory: Path) -> None:
    assert b"nothing to stop" in ithaca("down", "--dir", directory).stdout


def test_status_of_a_cluster_that_does_not_run(directory: Path) -> None:
    text = ithaca("status", "--dir", directory, status=1).stdout.decode()
    assert f"- no cluster runs in {directory}: start it with ithaca up --dir {directory}" in text
    assert "unreachable" in text
    (report,) = json_lines(ithaca("status", "--dir", directory, "--json", status=1).stdout)
    assert report["healthy"] is False
    assert [server["name"] for server in report["servers"]] == ["orderer-1", "shard-0-replica-0", "shard-0-replica-1"]


def test_status_tells_of_a_fenced_server(directory: Path) -> None:
    with locked_cluster(directory, Wanted()):
        fenced = ChildState("shard-0-replica-1", phase="fenced", restarts=2, status=3)
        save_state(directory, SupervisorState(1, 0, [fenced]))
        (report,) = json_lines(ithaca("status", "--dir", directory, "--json", status=1).stdout)
    assert [server["state"] for server in report["servers"]] == ["unreachable", "unreachable", "fenced"]
    assert report["servers"][2]["restarts"] == 2
    assert any(problem.startswith("shard-0-replica-1 has fenced itself") for problem in report["problems"])


def test_status_where_nobody_answers() -> None:
    (port,) = free_ports(1)
    done = ithaca("status", "-b", f"127.0.0.1:{port}", status=1)
    assert done.stderr.decode().startswith(f"ithaca: nobody answers at 127.0.0.1:{port} within")
    assert "give one of them" in ithaca("status", "-b", "h:1", "--dir", "x", status=2).stderr.decode()


def test_logs_as_text(directory: Path) -> None:
    assert ithaca("logs", "--dir", directory).stdout.decode().splitlines() == [
        "2026-01-31 12:00:01.000123 info     orderer 1: leads",
        "orderer-1: Traceback",
        r"2026-01-31 12:00:02.000123 info     replica 0/1: joined\x1b[2J",
    ]
    assert ithaca("logs", "--dir", directory, "orderer-1", "-n", "1").stdout == b"orderer-1: Traceback\n"


def test_logs_as_json(directory: Path) -> None:
    lines = json_lines(ithaca("logs", "--dir", directory, "--json").stdout)
    assert [line.get("event") for line in lines] == ["leads", None, "joined\x1b[2J"]
    assert (lines[1]["printed_by"], lines[1]["text"]) == ("orderer-1", "Traceback")


def test_logs_are_followed_until_ctrl_c(directory: Path) -> None:
    with subprocess.Popen(
        [*COMMAND, "logs", "--dir", str(directory), "-f", "-n", "1"], stdout=subprocess.PIPE, env=environment()
    ) as process:
        assert process.stdout is not None
        assert b"joined" in process.stdout.readline()
        with (directory / "logs" / "orderer-1.log").open("a") as log:
            log.write("something new\n")
        assert process.stdout.readline() == b"orderer-1: something new\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130


def test_logs_of_an_unknown_server(directory: Path) -> None:
    message = ithaca("logs", "--dir", directory, "ordrer-1", status=1).stderr.decode()
    assert "did you mean orderer-1?" in message


@pytest.mark.parametrize(
    ("more", "status", "complaint"),
    [
        ([], 2, "give one of --orderer, --replica, --aggregator"),
        (["--orderer", "1", "--replica", "0/0"], 2, "give one of --orderer, --replica, --aggregator"),
        (["--orderer", "1", "--aggregator", "1"], 2, "give one of --orderer, --replica, --aggregator"),
        (["--aggregator", "1"], 1, "has no aggregator 1: there are orderer-1, shard-0-replica-0"),
        (["--replica", "1"], 2, "is not of the form SHARD/REPLICA"),
        (["--orderer", "2"], 1, "has no orderer 2: there are orderer-1, shard-0-replica-0"),
        (["--replica", "1/0"], 1, "has no replica 1/0: there are"),
    ],
)
def test_serve_needs_one_server_of_the_file(
    directory: Path, tmp_path: Path, more: list[str], status: int, complaint: str
) -> None:
    done = ithaca("serve", "--config", directory / "cluster.toml", "--dir", tmp_path / "x", *more, status=status)
    assert complaint in done.stderr.decode()
    assert not (tmp_path / "x").exists()


def test_serve_needs_a_directory_but_for_aggregators(directory: Path) -> None:
    done = ithaca("serve", "--config", directory / "cluster.toml", "--orderer", "1", status=2)
    assert "give --dir" in done.stderr.decode()
    file = directory / "cluster.toml"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        file.write_text(f'{file.read_text()}\n[[aggregator]]\naggregator = 1\naddress = "{address}"\n')
        done = ithaca("serve", "--config", file, "--aggregator", "1", status=1)
    assert f"cannot listen at {address}" in done.stderr.decode()


def test_serve_refuses_to_be_reached_from_elsewhere(tmp_path: Path) -> None:
    file = tmp_path / "cluster.toml"
    file.write_text(
        '[[orderer]]\nserver = 1\naddress = "192.0.2.7:7600"\n[[shard]]\nshard = 0\nreplicas = ["127.0.0.1:7601"]\n'
    )
    done = ithaca("serve", "--config", file, "--dir", tmp_path / "x", "--orderer", "1", status=1)
    assert "192.0.2.7:7600 can be reached from other machines" in done.stderr.decode()
    assert "--insecure" in done.stderr.decode()


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ('[tls]\nclients = "anybody"\n', "can be reached from other machines"),
        ('[tls]\nmode = "preferred"\n', "can be reached from other machines"),
        ("[tls]\n", "tls/ca.pem cannot be read"),
        ("[cluster]\ninsecure = true\n", "cannot listen at 192.0.2.7:7600"),
    ],
)
def test_serve_is_reached_from_elsewhere_if_the_cluster_is_closed_or_said_to_be_insecure(
    tmp_path: Path, table: str, said: str
) -> None:
    """The address is of no machine, so that none of them goes far; which mistake is told says how far."""
    file = tmp_path / "cluster.toml"
    file.write_text(
        f'{table}[[orderer]]\nserver = 1\naddress = "192.0.2.7:7600"\n'
        '[[shard]]\nshard = 0\nreplicas = ["127.0.0.1:7601"]\n'
    )
    done = ithaca("serve", "--config", file, "--dir", tmp_path / "x", "--orderer", "1", status=1)
    assert said in done.stderr.decode()


def test_serve_listens_where_it_is_told_and_no_further(directory: Path, tmp_path: Path) -> None:
    told: list[str | Path] = [
        "serve",
        "--config",
        directory / "cluster.toml",
        "--dir",
        tmp_path / "x",
        "--orderer",
        "1",
        "--listen",
    ]
    assert "192.0.2.7:7 can be reached from" in ithaca(*told, "192.0.2.7:7", status=1).stderr.decode()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        assert f"cannot listen at {place}" in ithaca(*told, place, status=1).stderr.decode()


def test_serve_names_the_line_that_is_wrong(tmp_path: Path) -> None:
    file = tmp_path / "cluster.toml"
    file.write_text("[cluster]\nnme = 1\n")
    done = ithaca("serve", "--config", file, "--dir", tmp_path / "x", "--orderer", "1", status=1)
    assert f"{file}:2: nme is not known (did you mean name?)" in done.stderr.decode()
