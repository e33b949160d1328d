"""Who writes what a unit accepts: the loop while the disk is quick, else the disk's thread."""

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

import pytest

from ithaca.engines.corfu.sequencing.entries import JUNK
from ithaca.engines.corfu.sequencing.unit import Change, EpochChange, Persist, RowChange
from ithaca.engines.corfu.server import unit_disk
from ithaca.engines.corfu.server.unit_disk import UnitDisk
from ithaca.engines.corfu.storage.unit_store import UnitStore, create
from ithaca.model.errors import StorageFull
from ithaca.storage.disk import OsDisk


class Watched(UnitStore):
    """Says which thread has committed how much, and fails as it is told."""

    def __init__(self, directory: Path) -> None:
        create(OsDisk(), str(directory), UUID(int=5))
        super().__init__(OsDisk(), str(directory))
        self.commits: list[tuple[bool, int]] = []
        """Whether it was in the main thread, and how many changes."""
        self.failures: list[Exception] = []

    def commit(self, changes: Sequence[Change]) -> list[int]:
        if self.failures:
            raise self.failures.pop(0)
        self.commits.append((threading.current_thread() is threading.main_thread(), len(changes)))
        return super().commit(changes)


class Desk:
    """A unit's disk, and what it has told."""

    def __init__(self, directory: Path) -> None:
        self.store = Watched(directory)
        self.full: list[bool] = []
        self.failed: list[Exception] = []
        self.synced = 0
        self._told = asyncio.Event()
        self.disk = UnitDisk(
            self.store,
            loop=asyncio.get_running_loop(),
            on_synced=self._synced,
            on_full=self.full.append,
            on_failed=self._failed,
        )

    def _synced(self, number: int) -> None:
        self.synced = number
        self._told.set()

    def _failed(self, error: Exception) -> None:
        self.failed.append(error)
        self._told.set()

    async def told(self) -> None:
        self._told.clear()
        await self._told.wait()

    def rows(self, *numbers: int) -> None:
        for number in numbers:
            self.disk.persist(Persist(number, RowChange(number, JUNK)))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy the machine is, and soon again where it is full."""
    monkeypatch.setattr("ithaca.runtime.inline_writes.INLINE_SYNC_S_MAX", 1000.0)
    monkeypatch.setattr(unit_disk, "STORAGE_FULL_RETRY_S", 0.01)


async def test_rows_of_one_turn_are_written_together_by_the_loop(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "unit")
    desk.rows(1, 2, 3)
    assert desk.synced == 0, "not before the turn is over"
    await desk.told()
    assert (desk.synced, desk.store.commits) == (3, [(True, 3)])
    await desk.disk.close()


async def test_a_slow_disk_has_its_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ithaca.runtime.inline_writes.INLINE_SYNC_S_MAX", -1.0)
    desk = Desk(tmp_path / "unit")
    desk.rows(1)
    await desk.told()
    assert (desk.synced, desk.store.commits) == (1, [(False, 1)])
    await desk.disk.close()


async def test_epochs_are_written_by_the_thread_and_rows_stay_in_order(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "unit")
    desk.rows(1)
    desk.disk.persist(Persist(2, EpochChange(1, True)))
    desk.rows(3)
    while desk.synced < 3:
        await desk.told()
    assert not any(in_loop and count > 1 for in_loop, count in desk.store.commits)
    assert sum(count for _, count in desk.store.commits) == 3
    await desk.disk.close()


async def test_what_waits_at_the_end_is_written(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "unit")
    desk.rows(1, 2)
    await desk.disk.close()
    assert sum(count for _, count in desk.store.commits) == 2


async def test_without_space_it_is_tried_again(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "unit")
    desk.store.failures = [StorageFull("no space"), StorageFull("no space")]
    desk.rows(1)
    await desk.told()
    assert (desk.synced, desk.full) == (1, [True, False])
    await desk.disk.close()


async def test_after_a_failure_nothing_more_is_written(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "unit")
    desk.store.failures = [OSError("broken")]
    desk.rows(1)
    await desk.told()
    desk.rows(2)
    await asyncio.sleep(0)
    assert [str(error) for error in desk.failed] == ["broken"]
    assert (desk.synced, desk.store.commits) == (0, [])
    await desk.disk.close()
