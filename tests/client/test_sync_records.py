"""Records that were fetched one by one, put together as batches again."""

import pytest

from ithaca.client import sync_records
from ithaca.client.sync_records import _packed
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
