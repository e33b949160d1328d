"""The command as a whole: help, version, what it loads, how it ends."""

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.cli.command import COMMAND, environment, ithaca

from ithaca.cli.app import app
from ithaca.version import VERSION

RECORD_COMMANDS = ["append", "read", "follow", "tail", "trim", "stats", "verify"]
CLUSTER_COMMANDS = ["up", "down", "status", "logs", "serve"]
HEAVY = {"numpy", "pyarrow", "msgspec", "zstandard", "lz4", "uvloop", "asyncio"}
HEAVY |= {f"ithaca.{name}" for name in ("storage", "embedded", "bench", "cluster", "server", "client", "runtime")}


def test_version() -> None:
    assert ithaca("--version").stdout.decode() == f"ithaca {VERSION}\n"


def test_help_lists_every_command() -> None:
    text = ithaca("--help").stdout.decode()
    for command in [*RECORD_COMMANDS, *CLUSTER_COMMANDS, "bench", "demo", "torture"]:
        assert f" {command} " in text


@pytest.mark.parametrize(
    "command",
    [
        *([name] for name in RECORD_COMMANDS + CLUSTER_COMMANDS),
        ["demo"],
        ["torture"],
        ["bench", "ceiling"],
        ["bench", "embedded"],
        ["bench", "memory"],
    ],
    ids=" ".join,
)
def test_the_help_of_every_command_teaches_by_example(command: list[str]) -> None:
    text = ithaca(*command, "--help").stdout.decode()
    assert f"Usage: ithaca {' '.join(command)}" in text
    assert "Examples:" in text
    assert f"ithaca {' '.join(command)}" in text[text.index("Examples:") :]


def test_help_loads_neither_the_log_nor_numpy() -> None:
    script = "import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr)); " + COMMAND[2]
    done = subprocess.run(
        [COMMAND[0], "-c", script, "--help"], capture_output=True, timeout=60, env=environment(), check=True
    )
    loaded = set(done.stderr.decode().split())
    assert "ithaca.cli.main" in loaded
    assert HEAVY & loaded == set()


@pytest.mark.parametrize("arguments", [["unknown"], ["read", "--nonsense"], ["bench", "nothing"]])
def test_wrong_usage_exits_with_two(arguments: list[str]) -> None:
    assert ithaca(*arguments, status=2).stderr


@pytest.mark.parametrize("command", RECORD_COMMANDS)
def test_a_missing_path_is_wrong_usage_and_names_the_way_out(command: str) -> None:
    more = ["--before", "1"] if command == "trim" else []
    message = ithaca(command, *more, status=2).stderr.decode()
    assert "--path" in message
    assert "ITHACA_PATH" in message


@pytest.mark.parametrize("command", [name for name in RECORD_COMMANDS if name != "append"])
def test_a_path_without_a_log_is_one_clear_line_and_stays_empty(tmp_path: Path, command: str) -> None:
    more = ["--before", "1"] if command == "trim" else []
    path = tmp_path / "nothing-here"
    done = ithaca(command, "-p", path, *more, status=1)
    assert done.stdout == b""
    (line,) = done.stderr.decode().splitlines()
    assert line.startswith("ithaca: ")
    assert str(path) in line
    assert not path.exists()


def test_the_path_may_come_from_the_environment(tmp_path: Path) -> None:
    env = {"ITHACA_PATH": str(tmp_path / "log")}
    assert ithaca("append", "x", env=env).stdout == b"1\n"
    assert ithaca("tail", env=env).stdout == b"first 1\ntail 2\n"


def test_a_reader_that_goes_away_is_no_error_worth_words(tmp_path: Path) -> None:
    ithaca("append", "-p", tmp_path / "log", stdin=b"x" * 100 + b"\n" + b"y\n" * 200_000)
    with subprocess.Popen(
        [*COMMAND, "read", "-p", tmp_path / "log"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    ) as reader:
        assert reader.stdout is not None
        assert reader.stderr is not None
        assert reader.stdout.readline().startswith(b"1\t")
        reader.stdout.close()
        assert reader.stderr.read() == b""
        assert reader.wait(timeout=60) == 1


def test_ctrl_c_ends_a_follower_quietly(tmp_path: Path) -> None:
    ithaca("append", "-p", tmp_path / "log", "x")
    with subprocess.Popen(
        [*COMMAND, "follow", "-p", tmp_path / "log", "--from", "earliest"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    ) as follower:
        assert follower.stdout is not None
        assert follower.stderr is not None
        assert follower.stdout.readline().endswith(b"\tx\n")  # it is following by now
        follower.send_signal(signal.SIGINT)
        assert follower.wait(timeout=60) == 130
        assert follower.stderr.read() == b""


def test_every_help_has_examples() -> None:
    def without(command: Any, path: str) -> list[str]:
        lacking = [] if path == "ithaca" or "Examples:" in (command.epilog or "") else [path]
        for name, each in getattr(command, "commands", {}).items():
            lacking += without(each, f"{path} {name}")
        return lacking

    assert without(typer.main.get_command(app), "ithaca") == []


def commands(of: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], set[str]]]:
    """Every command with all its options, by the names that it is called by."""
    for name, each in getattr(of, "commands", {}).items():
        yield from commands(each, (*path, name))
    if not getattr(of, "commands", {}):
        yield path, {option for each in of.params for option in each.opts}


def test_whatever_talks_to_a_cluster_can_be_told_how_long_to_wait_for_it() -> None:
    options = dict(commands(typer.main.get_command(app)))
    found = {path for path, known in options.items() if "--bootstrap" in known}
    assert {("append",), ("status",), ("bench", "latency"), ("shard", "add")} <= found
    assert ("autoscale",) in options
    assert [path for path in {*found, ("autoscale",)} if "--timeout" not in options[path]] == []
