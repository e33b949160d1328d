"""The pytest plugin, as users' test runs load it."""

import os
import subprocess
import sys
from pathlib import Path

USERS_TESTS = """
import pytest

def test_a_cluster(ithaca_cluster):
    assert ithaca_cluster.status().problems() == []
    assert len(ithaca_cluster.names) == 3

@pytest.mark.parametrize("ithaca_cluster", [{"shards": 2, "replicas": 1}], indirect=True)
def test_another_shape(ithaca_cluster):
    assert len(ithaca_cluster.names) == 3
    assert ithaca_cluster.names[-1] == "shard-1-replica-0"

def test_a_log(ithaca_log):
    assert ithaca_log.read(ithaca_log.append(b"hello").position).value == b"hello"

@pytest.mark.parametrize("ithaca_log", [{"timeout": "600s"}], indirect=True)
def test_that_leaves_something_behind(ithaca_cluster, ithaca_log):
    ithaca_log.append(b"there")
    for name in ithaca_cluster.names[1:]:
        ithaca_cluster.kill_server(name)
    with pytest.raises(TimeoutError):
        ithaca_log.append(b"late", timeout="100ms")
"""


def test_the_fixtures_work_in_a_run_of_users(tmp_path: Path) -> None:
    (tmp_path / "test_of_users.py").write_text(USERS_TESTS)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "ithaca.testing.plugin", "-p", "no:cacheprovider", tmp_path],
        capture_output=True,
        timeout=120,
        cwd=tmp_path,
        env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )
    assert b"4 passed" in done.stdout, done.stdout.decode()


def test_loading_the_plugin_loads_little() -> None:
    heavy = {"numpy", "msgspec", "uvloop", "ithaca.testing.cluster", "ithaca.server", "ithaca.cluster", "ithaca.model"}
    assert heavy & modules_after("ithaca.testing.plugin") == set()
    assert heavy & modules_after("ithaca.testing.cluster") == heavy


def modules_after(module: str) -> set[str]:
    """What is loaded once this module is."""
    code = f"import sys; import {module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, check=True)
    return set(done.stdout.decode().split())
