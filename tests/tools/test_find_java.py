"""Installing Java: asked for at a terminal, done without one as in continuous integration."""

import io
import sys

import pytest

from tools import find_java


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("answer", "wanted"), [("\n", True), ("y\n", True), ("Yes\n", True), ("n\n", False), ("what\n", False), ("", False)]
)
def test_whoever_sits_at_a_terminal_is_asked(monkeypatch: pytest.MonkeyPatch, answer: str, wanted: bool) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    monkeypatch.setattr(sys, "stdout", Terminal())
    assert find_java.is_wanted("apt-get") is wanted


def test_without_a_terminal_nobody_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    assert find_java.is_wanted("apt-get")
