"""Which interpreter is said to be the quicker one."""

import stat
import sys
from pathlib import Path

import pytest
from tools.find_python import Interpreter, asked, found, parsed, quicker

from tools import find_python

THIS = Interpreter((3, 11, 7), 0.010, "this")


@pytest.mark.parametrize(
    ("others", "better"),
    [
        ([], None),
        ([THIS], None),
        ([Interpreter((3, 12, 1), 0.0095, "hardly quicker")], None),
        ([Interpreter((3, 13, 0), 0.012, "newer and slower")], None),
        ([Interpreter((3, 11, 2), 0.008, "older and quicker")], "older and quicker"),
        ([Interpreter((3, 12, 1), 0.008, "quick"), Interpreter((3, 13, 0), 0.006, "quickest")], "quickest"),
    ],
)
def test_the_quickest_is_said_where_it_is_worth_it(others: list[Interpreter], better: str | None) -> None:
    chosen = quicker(THIS, others)
    assert (chosen.path if chosen else None) == better


@pytest.mark.parametrize("said", ["", "no", "3 11 x 0.1 /python", "3 11 2 0.1"])
def test_what_is_no_interpreter_is_passed_over(said: str) -> None:
    assert parsed(said) is None


def test_interpreters_of_all_directories_are_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, said in (("one", "3 12 1 0.1 /one"), ("two", "3 12 4 0.2 /two"), ("broken", "no such version")):
        (tmp_path / name).mkdir()
        script = tmp_path / name / "python3.12"
        script.write_text(f"#!/bin/sh\necho {said}\n")
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", ":".join(str(tmp_path / name) for name in ("one", "two", "broken")))
    monkeypatch.setattr(find_python, "NEWEST_MINOR", 12)
    assert [each.path for each in found()] == ["/one", "/two"]


def test_this_interpreter_answers() -> None:
    answer = asked(sys.executable)
    assert answer is not None
    assert answer.version == sys.version_info[:3]
    assert answer.taken_s > 0
