"""Runs the `ithaca` command as users do: in a process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

COMMAND = [sys.executable, "-c", "from ithaca.cli.main import run; run()"]


def environment() -> dict[str, str]:
    """Ours, without settings that would change what a command does."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ITHACA_")}
    return kept | {"COLUMNS": "200", "TERM": "dumb", "NO_COLOR": "1"}


def ithaca(
    *arguments: str | Path, status: int = 0, stdin: bytes = b"", env: dict[str, str] | None = None
) -> "subprocess.CompletedProcess[bytes]":
    """Run `ithaca *arguments`; it must end with `status`, and never with a traceback."""
    done = subprocess.run(
        [*COMMAND, *map(str, arguments)],
        input=stdin,
        capture_output=True,
        timeout=120,
        env=environment() | (env or {}),
    )
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    assert done.returncode == status, (done.returncode, done.stdout, done.stderr)
    return done


def json_lines(output: bytes) -> list[dict[str, Any]]:
    """The JSON objects that a command printed, one per line."""
    return [json.loads(line) for line in output.splitlines()]
