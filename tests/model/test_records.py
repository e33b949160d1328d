"""What users hold: receipts, filters, retention, and the conversions between positions and LSNs."""

from datetime import timedelta

import pytest

from ithaca.model.errors import InvalidInput
from ithaca.model.positions import FIRST, LaneId, lsn_of, position_of
from ithaca.model.records import HASH_SPACE, KeyFilter, Receipt, Record, Retention


def test_records_are_values() -> None:
    record = Record(position=1, value=b"v", key=None, timestamp_us=0, shard=0)
    assert record == Record(position=1, value=b"v", key=None, timestamp_us=0, shard=0)
    with pytest.raises(AttributeError):
        record.position = 2  # type: ignore[misc]


def test_receipts_name_every_position() -> None:
    assert Receipt(position=5, count=3, shard=0, durability="os").positions == range(5, 8)


def test_filters_copy_the_key() -> None:
    key = bytearray(b"user-7")
    equals, prefix = KeyFilter.equals(key), KeyFilter.prefix(memoryview(key))
    key[:] = b"changed"
    assert (equals.key, prefix.key) == (b"user-7", b"user-7")


@pytest.mark.parametrize(("low", "high"), [(-1, 5), (5, 4), (0, HASH_SPACE + 1)])
def test_hash_ranges_lie_in_the_hash_space(low: int, high: int) -> None:
    with pytest.raises(InvalidInput, match=str(HASH_SPACE)):
        KeyFilter.hash_range(low, high)


def test_whole_and_empty_hash_ranges() -> None:
    assert KeyFilter.hash_range(0, HASH_SPACE).high == HASH_SPACE
    assert KeyFilter.hash_range(7, 7).low == 7


def test_retention_is_positive() -> None:
    assert Retention(age=timedelta(microseconds=1), bytes=1).bytes == 1
    with pytest.raises(InvalidInput, match="age"):
        Retention(age=timedelta(0))
    with pytest.raises(InvalidInput, match="bytes"):
        Retention(bytes=0)


def test_positions_start_at_one_and_lsns_at_zero() -> None:
    assert (position_of(0), lsn_of(FIRST), lsn_of(position_of(41))) == (FIRST, 0, 41)


def test_lanes_sort_by_shard_then_replica_then_incarnation() -> None:
    lanes = [LaneId(1, 0, 0), LaneId(0, 1, 1), LaneId(0, 0, 2), LaneId(0, 0, 10)]
    assert [str(lane) for lane in sorted(lanes)] == ["0-0-2", "0-0-10", "0-1-1", "1-0-0"]
