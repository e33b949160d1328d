"""A data engineer in a notebook, and a developer with a script: the log in a directory, from the docs alone."""

from pathlib import Path

import pytest
from tests.roles.pages import replay


def test_the_guide_runs_as_it_is_printed(tmp_path: Path) -> None:
    said = replay("docs/guides/embedded.md", 1, tmp_path, "--python-only")
    assert "Receipt(position=1, count=1, shard=0, durability='fsync')" in said
    assert "['position', 'shard', 'timestamp', 'key', 'value']" in said


@pytest.mark.campaign
def test_the_guide_runs_with_its_commands(tmp_path: Path) -> None:
    replay("docs/guides/embedded.md", 1, tmp_path)


def test_the_first_page_runs_as_it_is_printed(tmp_path: Path) -> None:
    replay("docs/index.md", 1, tmp_path)
