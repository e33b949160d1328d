"""Whoever reads the README alone: its programs and commands run as they are printed."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.cluster.free_base import free_base
from tests.roles.pages import environment
from tests.roles.replay import PRINTED_PORT, run_shell
from tools.examples import Block, blocks

from ithaca.testing import Cluster

BLOCKS = blocks("README.md")


def block_with(text: str) -> Block:
    [found] = [block for block in BLOCKS if text in block.code]
    return found


def program(block: Block, directory: Path) -> list[str]:
    path = directory / "program.py"
    path.write_text(block.code, encoding="utf-8")
    return [sys.executable, "-u", "-W", "error", str(path)]


@pytest.mark.parametrize("text", ['ithaca.open("./events")', "class Counter"])
def test_a_program_runs(text: str, tmp_path: Path) -> None:
    command = program(block_with(text), tmp_path)
    subprocess.run(command, cwd=tmp_path, env=environment(), check=True, timeout=60)


def test_the_program_of_a_cluster_follows_what_it_appended(tmp_path: Path) -> None:
    """It does not end by itself: its reader ends it, as with Ctrl-C."""
    block = block_with("ithaca.connect(")
    with Cluster() as cluster:
        code = block.code.replace(PRINTED_PORT, cluster.bootstrap)
        command = program(Block(block.page, block.line, block.language, block.title, code), tmp_path)
        with subprocess.Popen(command, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, text=True) as running:
            assert running.stdout is not None
            line = running.stdout.readline()
            running.kill()
    assert line.startswith("Record(position=1, value=b'hello', key=b'user-7'")


@pytest.mark.campaign
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("text", ["ithaca up --detach", "append -p ./events", "ithaca demo cluster"])
def test_commands_run(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in environment().items():
        monkeypatch.setenv(name, value)
    run_shell(block_with(text), str(free_base(7)))
