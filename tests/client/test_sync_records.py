"""Records that were fetched one by one, put together as batches again."""

from types import SimpleNamespace
from typing import Any

import pytest

from ithaca.client import sync_records
from ithaca.client.sync_records import SyncRecords, _packed
from ithaca.model.records import Record


def record(position: int, *, shard: int = 0, timestamp_us: int = 5, key: bytes | None = None) -> Record:
    return Record(position, b"v" * 10, key, timestamp_us, shard)


def packed(records: list[Record]) -> list[list[int]]:
    batches = [batch.records() for batch in _packed(records)]
    assert [each for batch in batches for each in batch] == records
    return [[each.position for each in batch] for batch in batches]


def test_a_batch_is_of_one_time_and_one_shard() -> None:
    records = [record(1), record(2), record(5, shard=1), record(6, timestamp_us=6), record(9, timestamp_us=6)]
    assert packed(records) == [[1, 2], [5], [6, 9]]
    assert packed([]) == []


def test_keys_come_along_where_there_are_any() -> None:
    assert packed([record(1, key=b"k"), record(2)]) == [[1, 2]]


def test_batches_are_bounded_each_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sync_records, "COALESCE_BYTES_MAX", 10)
    assert packed([record(position) for position in range(1, 6)]) == [[1, 2], [3, 4], [5]]
    assert packed([record(1, key=b"k"), record(2), record(3)]) == [[1], [2, 3]]


@pytest.mark.parametrize(("forked", "ended", "asked"), [(False, False, 1), (True, False, 0), (False, True, 0)])
def test_the_twin_is_closed_only_where_its_loop_runs(forked: bool, ended: bool, asked: int) -> None:
    """In a forked child, and at the end of the process, nobody would answer."""
    closed: list[str] = []
    twin: Any = SimpleNamespace(close=lambda: closed.append("twin"))
    portal: Any = SimpleNamespace(forked=False, ended=False, run=lambda opening: twin)
    records = SyncRecords(portal, lambda: twin)
    portal.forked, portal.ended, portal.run = forked, ended, lambda work: work()
    records.close()
    assert closed == ["twin"] * asked
    assert list(records) == []
