"""The life of a store finds bugs of names: it can fail."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.planted.bug import Bug
from tests.planted.raft_names import RAFT_NAMES

LIVES = 60
"""Where a bug is looked for; one of the first 15 finds each."""


@pytest.mark.parametrize("bug", RAFT_NAMES, ids=lambda bug: bug.name)
def test_a_life_finds_it(bug: Bug) -> None:
    task = {"name": bug.name, "module": bug.module, "old": bug.old, "new": bug.new, "lives": LIVES}
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("mutant_life.py"))],
        input=json.dumps(task),
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[4],
        env={"PYTHONPATH": str(Path(__file__).parents[4])},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip(), f"{bug.what}: {LIVES} lives went well"
