"""A unit that has very many rows starts within seconds, needs little memory, and makes its index again."""

import json
import subprocess
import sys

import pytest

MEMORY_MIB_MAX = 256


def _measured(count: int) -> dict[str, float]:
    """In a process of its own: memory is the most that it ever had."""
    command = [sys.executable, "-m", "tests.engines.corfu.storage.many_rows", str(count)]
    found: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return found


def test_many_rows_are_found_again_with_the_index_and_without() -> None:
    assert _measured(20_000)["rows"] == 20_000


@pytest.mark.campaign
@pytest.mark.timeout(7200)
def test_ten_million_rows_need_little_memory() -> None:
    found = _measured(10_000_000)
    assert max(value for name, value in found.items() if name.startswith("memory")) < MEMORY_MIB_MAX
