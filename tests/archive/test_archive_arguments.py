"""Whatever backups, restores and copies are given in place of an argument, they refuse."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.nonsense import faults

import ithaca
import ithaca.aio
from ithaca.archive import back_up, copy_log, restore, salvage, verify_backup
from ithaca.model.errors import InvalidInput


@pytest.fixture
def usual(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """What the functions may be given."""
    with ithaca.open(tmp_path / "log") as log, ithaca.open(tmp_path / "other") as other:
        log.append(b"x")
        back_up(log, tmp_path / "backup")
        yield {
            "log": log,
            "source": log,
            "target": other,
            "to": tmp_path / "backup",
            "backup": tmp_path / "backup",
            "at": tmp_path / "backup",
            "path": tmp_path / "log",
            "name": "log",
        }


def test_every_argument_is_checked(usual: dict[str, Any]) -> None:
    def verified(at: Any, advance: Any = None) -> None:
        list(verify_backup(at, advance))

    found = [fault for function in (back_up, copy_log, restore, salvage, verified) for fault in faults(function, usual)]
    assert not found, "\n".join(found)


async def test_an_awaited_log_is_none_of_these(tmp_path: Path) -> None:
    async with ithaca.aio.open(tmp_path / "awaited") as log:
        with pytest.raises(InvalidInput, match=r"log is <ithaca.aio.Log .*: use a log of ithaca.open or ithaca.conn"):
            back_up(log, tmp_path / "backup")  # type: ignore[arg-type]


def test_a_size_may_be_text(usual: dict[str, Any], tmp_path: Path) -> None:
    for _ in range(4):
        usual["log"].append(b"x" * 1000)
    back_up(usual["log"], tmp_path / "small", chunk_bytes="1K")
    assert len(list((tmp_path / "small").glob("*.chunk"))) > 1
