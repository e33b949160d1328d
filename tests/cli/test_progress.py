"""Progress, on a terminal and where nobody looks at one."""

import io
import re
import sys

import pytest

from ithaca.archive.progress import Done
from ithaca.cli.progress import archive_progress, status_line


def test_a_line_is_printed_for_each_change(capsys: pytest.CaptureFixture[str]) -> None:
    with status_line() as tell:
        for text in ("waiting", "waiting", "copying", "waiting", "waiting"):
            tell(text)
    assert capsys.readouterr().err.splitlines() == ["waiting", "copying", "waiting"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_sees_how_much_of_an_archive_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with archive_progress() as advance:
        advance(Done(3, 4096, 12))
        advance(Done(3, 4096, 12))
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.getvalue())
    assert "6/12 positions, 8.2 kB" in plain
