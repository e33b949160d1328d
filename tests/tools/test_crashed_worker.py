"""A worker of the test run that crashes: its test fails by name, the others are run, and the run ends."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = """
import os, signal
import pytest

@pytest.mark.parametrize("number", range(20))
def test_numbers(number: int) -> None:
    if number == 10:
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_crashed_worker_fails_one_test_and_loses_no_other(tmp_path: Path) -> None:
    (tmp_path / "test_one_crashes.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-n", "2", "-p", "tests.conftest", "--rootdir", str(tmp_path)]
    run = subprocess.run(
        [*command, "-p", "no:cacheprovider", "-o", "addopts=", str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert "crashed while running 'test_one_crashes.py::test_numbers[10]'" in run.stdout
    assert "1 failed, 19 passed" in run.stdout
    assert run.returncode == 1
