"""Progress where nobody looks at a terminal."""

import pytest

from ithaca.cli.progress import status_line


def test_a_line_is_printed_for_each_change(capsys: pytest.CaptureFixture[str]) -> None:
    with status_line() as tell:
        for text in ("waiting", "waiting", "copying", "waiting", "waiting"):
            tell(text)
    assert capsys.readouterr().err.splitlines() == ["waiting", "copying", "waiting"]
