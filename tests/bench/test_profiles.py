"""Profiles are drawn or skipped, and the reason is said."""

import os
import stat
from pathlib import Path

import pytest

from ithaca.bench import profiles


def fake_py_spy(tmp_path: Path, script: str) -> str:
    command = tmp_path / "py-spy"
    command.write_text(f"#!/bin/sh\n{script}\n")
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    return str(command)


@pytest.mark.parametrize(
    ("script", "outcome"),
    [
        ('for file; do :; done; echo "<svg>" > "$file"', None),
        ('echo "Error: Permission Denied"; exit 1', "skipped: Permission Denied: run as root, or set kernel.yama"),
        ("exit 7", "skipped: py-spy ended with status 7"),
    ],
    ids=["drawn", "refused", "failed"],
)
def test_each_outcome_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, outcome: str | None
) -> None:
    command = fake_py_spy(tmp_path, script)
    monkeypatch.setattr(profiles, "find_py_spy", lambda: command)
    worked: list[int] = []
    told = profiles.draw_profiles(
        tmp_path / "flames", {"a server": os.getpid()}, 1.0, lambda: worked.append(1), lambda text: None
    )
    assert worked == [1]
    assert told["a server"].startswith(outcome or str(tmp_path / "flames" / "a-server.svg"))


def test_without_py_spy_it_is_said_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiles, "find_py_spy", lambda: None)
    told = profiles.draw_profiles(tmp_path, {}, 1.0, lambda: None, lambda text: None)
    assert "pip install py-spy" in told["skipped"]
