"""A cluster whose start takes too long leaves nothing behind, however far it had come."""

import os
from pathlib import Path

import pytest

from ithaca.cluster import running
from ithaca.cluster.temporary import Shape, temporary_cluster
from ithaca.model.errors import Unavailable


def processes_in(directory: Path) -> list[str]:
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            command = Path(f"/proc/{name}/cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if os.fsencode(directory) in command:
            found.append(command.replace(b"\0", b" ").decode())
    return found


def test_a_supervisor_that_has_not_begun_in_time_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "CLUSTER_START_TIMEOUT_S", 0.0)
    shape = Shape(shards=1, replicas=1, orderers=1)
    with (
        pytest.raises(Unavailable, match="the supervisor had not begun after 0 s, and was ended"),
        temporary_cluster(tmp_path / "cluster", shape, lambda text: None),
    ):
        raise AssertionError("it is not there")
    assert processes_in(tmp_path) == []
