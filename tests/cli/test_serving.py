"""Servers as supervisors start them: the same options, and nothing loaded that serves the command line alone."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from tests.cli.command import environment, ithaca

from ithaca.cli.app import app
from ithaca.cli.cluster.serving import OPTIONS, Given, plainly_given


def test_the_options_are_those_of_the_command() -> None:
    (serve,) = [command for command in app.registered_commands if command.callback.__name__ == "serve"]  # type: ignore[union-attr]
    command = typer.main.get_command_from_info(serve, pretty_exceptions_short=True, rich_markup_mode=None)
    spelled = {name: each.name for each in command.params for name in each.opts if name != "--help"}
    assert spelled == {name: field for name, (field, _) in OPTIONS.items()} | {"--insecure": "insecure"}
    assert set(spelled.values()) == set(Given._fields)


@pytest.mark.parametrize(
    "arguments",
    [[], ["--help"], ["--config"], ["--config", "--orderer", "1"], ["--config=c"], ["--config", "c", "--orderer", "x"]],
    ids=" ".join,
)
def test_whatever_is_not_plain_is_left_to_the_command_line(arguments: list[str]) -> None:
    assert plainly_given(arguments) is None


@pytest.mark.parametrize("server", [["--orderer", "1"], ["--replica", "0/0"]], ids=" ".join)
def test_a_server_loads_nothing_that_is_for_people(tmp_path: Path, server: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        taken = [f"127.0.0.1:{each.getsockname()[1]}" for each in (one, other)]
        file = tmp_path / "cluster.toml"
        file.write_text(
            f'[[orderer]]\nserver = 1\naddress = "{taken[0]}"\n[[shard]]\nshard = 0\nreplicas = ["{taken[1]}"]\n'
        )
        script = (
            "import atexit, sys; atexit.register(lambda: print(*sys.modules, sep='\\n')); "
            "from ithaca.cli.main import run; run()"
        )
        where = ["--dir", str(tmp_path / "d"), *server]
        command = [sys.executable, "-c", script, "serve", "--config", str(file), *where]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment())
        assert "cannot listen at" in done.stderr
        assert done.returncode == 1
        assert b"cannot listen at" in ithaca("serve", f"--config={file}", *where, status=1).stderr
    loaded = set(done.stdout.split())
    assert "ithaca.server.process" in loaded
    assert loaded & {"typer", "rich", "pydantic", "click", "pyarrow", "ithaca.cli.app"} == set()
