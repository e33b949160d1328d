"""The fuzzer's command says what it did, whether the fuzzer is installed or not."""

import re
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tools import fuzz

RUNS = 200


@pytest.fixture(autouse=True)
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "DATA", tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))


def asked(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["fuzz.py", *arguments])
    return fuzz.main()


def test_runs_are_said_whatever_comes_of_a_target(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    is_installed = find_spec("atheris") is not None
    status = asked(monkeypatch, "--target", "token", "--runs", str(RUNS))
    told = re.search(r"^  token +([\d,]+) ", capsys.readouterr().out, re.MULTILINE)
    assert told is not None
    assert (status, int(told[1])) == ((0, RUNS) if is_installed else (1, 0))


def test_a_target_that_is_not_there_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert asked(monkeypatch, "--target", "token,nothing") == 2
    assert "there is no target nothing" in capsys.readouterr().err
