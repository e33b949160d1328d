"""Fixtures for storage: limits so small that little files have everything, and both kinds of disk."""

from pathlib import Path
from typing import NamedTuple

import pytest
from tests.storage.lanes import shrink_limits

from ithaca.engines.scalog.storage import runs_file
from ithaca.sim.disk import SimDisk
from ithaca.storage.disk import Disk, OsDisk


class Place(NamedTuple):
    """A directory on some disk."""

    disk: Disk
    directory: str


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink_limits(monkeypatch)


@pytest.fixture
def small_page_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs_file, "RUNS_FILE_PAGES", 2)


@pytest.fixture(params=["sim", "os"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """The same test on the simulated disk and on the real one."""
    if request.param == "sim":
        return Place(SimDisk(), "/lane")
    return Place(OsDisk(), str(tmp_path / "lane"))
