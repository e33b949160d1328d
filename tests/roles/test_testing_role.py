"""A developer of a library: tests against a real cluster, from the docs alone."""

import subprocess
import sys
from pathlib import Path

from tests.roles.pages import environment
from tools.examples import programs


def test_the_tests_of_the_guide_pass(tmp_path: Path) -> None:
    for number, program in enumerate(programs("docs/guides/testing.md")):
        (tmp_path / f"test_{number}.py").write_text(program, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", "."]
    ran = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout
    assert "5 passed" in ran.stdout
