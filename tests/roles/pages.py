"""Replaying pages of the docs in processes of their own, and what they leave behind."""

import os
import subprocess
import sys
from pathlib import Path

from tests.cli import command

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).with_name("replay.py")


def environment() -> dict[str, str]:
    """That of a newcomer: nothing of ours is set but where the sources are."""
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return command.environment() | {"PYTHONPATH": path}


def replay(page: str, port: int, directory: Path, *options: str, timeout_s: float = 120) -> str:
    """Run a page in a directory; returns what it printed."""
    replaying = [sys.executable, str(SCRIPT), page, str(port), *options]
    try:
        ran = subprocess.run(
            replaying,
            cwd=directory,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout_s,
        )
    finally:
        if (directory / "ithaca-data" / "supervisor.json").exists():
            down = [sys.executable, "-m", "ithaca", "down"]
            subprocess.run(down, cwd=directory, env=environment(), capture_output=True, timeout=60)
    assert ran.returncode == 0, ran.stdout
    return ran.stdout
