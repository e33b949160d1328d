"""append and append_many: what goes in comes out, at the position that the receipt names."""

import time
from array import array
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ithaca.model.errors import BatchTooLarge, InvalidInput, RecordTooLarge
from ithaca.model.interface import Log
from ithaca.model.limits import BATCH_BYTES_MAX, BATCH_RECORDS_MAX, MIB, RECORD_BYTES_MAX
from ithaca.model.records import Buffer, Compression
from tests.conformance.engines import Deployment, Engine

pytestmark = pytest.mark.shared_log

VALUES = [
    b"",
    b"\x00",
    b"hello",
    bytes(range(256)),
    "Ιθάκη".encode(),
    b"x" * 4095,
    b"y" * 4096,
    b"z" * 65_537,
]


@pytest.mark.parametrize("key", [None, b"", b"user-7", bytes(range(256))])
@pytest.mark.parametrize("value", VALUES, ids=len)
def test_a_record_reads_back_as_it_was_appended(log: Log, value: bytes, key: bytes | None) -> None:
    receipt = log.append(value, key=key)
    record = log.read(receipt.position)
    assert (record.position, record.value, record.key) == (receipt.position, value, key)
    assert record.shard == receipt.shard
    assert type(record.value) is bytes


@pytest.mark.parametrize("size", [MIB - 1, MIB, MIB + 1, 5 * MIB, 11 * MIB + 13])
def test_large_values_read_back(log: Log, size: int) -> None:
    value = (b"0123456789abcdef" * (size // 16 + 1))[:size]
    before = log.append(b"before")
    receipt = log.append(value)
    after = log.append(b"after")
    assert log.read(receipt.position).value == value
    assert [len(record.value) for record in log.read_range(before.position, after.position + 1)] == [
        6,
        size,
        5,
    ]


def test_a_receipt_says_where_and_how_safe(engine: Engine, log: Log) -> None:
    tail = log.tail()
    receipt = log.append(b"one")
    assert receipt.position >= tail
    assert receipt.count == 1
    assert receipt.positions == range(receipt.position, receipt.position + 1)
    assert receipt.durability == engine.durability
    assert receipt.shard >= 0
    engine.check_passed(log.tail(), receipt.position)


def test_positions_rise_and_are_dense_where_it_is_said(engine: Engine, log: Log) -> None:
    tail = log.tail()
    receipts = [log.append(b"%d" % n) for n in range(50)]
    engine.check_next([receipt.position for receipt in receipts], tail)
    assert [record.value for record in log.read_range(tail)] == [b"%d" % n for n in range(50)]


def test_a_timestamp_is_the_producers_clock_in_microseconds(log: Log) -> None:
    before_us = time.time_ns() // 1000
    receipt = log.append(b"now")
    after_us = time.time_ns() // 1000
    assert before_us <= log.read(receipt.position).timestamp_us <= after_us


@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview], ids=lambda wrap: wrap.__name__)
def test_any_buffer_is_taken(log: Log, wrap: Callable[[bytes], Buffer]) -> None:
    single = log.append(wrap(b"value"), key=wrap(b"key"))
    batch = log.append_many([wrap(b"v1"), wrap(b"v2")], keys=[wrap(b"k1"), None])
    pending = log.submit(wrap(b"submitted"), key=wrap(b"k"))
    many = log.submit_many([wrap(b"m")])
    found = [(record.value, record.key) for record in log.read_range(single.position, batch.positions.stop)]
    assert found == [(b"value", b"key"), (b"v1", b"k1"), (b"v2", None)]
    assert log.read(pending.result().position).value == b"submitted"
    assert log.read(many.result().position).value == b"m"


def test_views_that_are_strided_or_of_wide_items_are_taken_byte_for_byte(log: Log) -> None:
    views = [memoryview(b"abcdef")[::2], memoryview(array("I", [1, 2, 3])), memoryview(b"abcdef")[2:4]]
    singles = [log.append(view, key=view) for view in views]
    batch = log.append_many(views, keys=views)
    expected = [view.tobytes() for view in views]
    assert [log.read(receipt.position).value for receipt in singles] == expected
    assert [log.read(receipt.position).key for receipt in singles] == expected
    assert [log.read(position).value for position in batch.positions] == expected
    assert [log.read(position).key for position in batch.positions] == expected


def test_a_buffer_changed_after_the_call_does_not_change_the_record(log: Log) -> None:
    value, key = bytearray(b"value"), bytearray(b"key")
    appended = log.append(value, key=key)
    pending = log.submit(value, key=key)
    many = log.submit_many([value, memoryview(value)], keys=[key, key])
    value[:], key[:] = b"VALUE", b"KEY"
    places = [appended.position, pending.result().position, *many.result().positions]
    for position in places:
        assert (log.read(position).value, log.read(position).key) == (b"value", b"key")


def test_a_caller_may_resize_its_bytearray_after_the_call(log: Log) -> None:
    value = bytearray(b"value")
    log.append(value)
    pending = log.submit(value)
    value.extend(b" and more")  # a buffer still exported somewhere would refuse this
    assert log.read(pending.result().position).value == b"value"


def test_a_batch_is_contiguous_and_in_order(log: Log) -> None:
    values = [b"%d" % n for n in range(1000)]
    keys = [None if n % 3 == 0 else b"k%d" % n for n in range(1000)]
    log.append(b"before")
    receipt = log.append_many(values, keys=keys)
    log.append(b"after")
    assert receipt.count == 1000
    records = list(log.read_range(receipt.position, receipt.positions.stop))
    assert [record.position for record in records] == list(receipt.positions)
    assert [record.value for record in records] == values
    assert [record.key for record in records] == keys
    assert {record.shard for record in records} == {receipt.shard}


def test_a_batch_may_come_from_generators(log: Log) -> None:
    receipt = log.append_many((b"%d" % n for n in range(10)), keys=(b"k%d" % n for n in range(10)))
    assert [log.read(position).key for position in receipt.positions] == [b"k%d" % n for n in range(10)]


def test_a_generator_that_fails_appends_nothing(engine: Engine, log: Log) -> None:
    def values() -> Iterator[bytes]:
        yield b"first"
        raise ZeroDivisionError

    tail = log.tail()
    with pytest.raises(ZeroDivisionError):
        log.append_many(values())
    assert log.tail() == tail
    engine.check_next([log.append(b"next").position], tail)


@pytest.mark.parametrize("keys", [[], [b"k"], [b"k"] * 3])
def test_as_many_keys_as_values(log: Log, keys: list[bytes]) -> None:
    tail = log.tail()
    with pytest.raises(InvalidInput, match="keys"):
        log.append_many([b"a", b"b"], keys=keys)
    with pytest.raises(InvalidInput, match="keys"):
        log.submit_many([b"a", b"b"], keys=keys)
    assert log.tail() == tail


def test_an_empty_batch_is_refused(log: Log) -> None:
    tail = log.tail()
    with pytest.raises(InvalidInput):
        log.append_many([])
    with pytest.raises(InvalidInput):
        log.submit_many(iter([]))
    assert log.tail() == tail


WRONG_VALUES: list[Any] = ["text", None, 7, 1.5, [b"a"], object()]


@pytest.mark.parametrize("wrong", WRONG_VALUES, ids=lambda wrong: type(wrong).__name__)
def test_what_is_not_bytes_is_refused_by_name(engine: Engine, log: Log, wrong: Any) -> None:
    tail = log.tail()
    calls: list[Callable[[], object]] = [
        lambda: log.append(wrong),
        lambda: log.append_many([b"fine", wrong]),
        lambda: log.submit(wrong),
        lambda: log.submit_many([wrong]),
    ]
    if wrong is not None:
        calls += [lambda: log.append(b"fine", key=wrong), lambda: log.append_many([b"fine"], keys=[wrong])]
    for call in calls:
        with pytest.raises((InvalidInput, TypeError), match=f"{type(wrong).__name__}.*bytes"):
            call()
    assert log.tail() == tail
    engine.check_next([log.append(b"works on").position], tail)


def test_one_bytes_object_is_no_batch(log: Log) -> None:
    tail = log.tail()
    wrong: list[Any] = [b"abc", "abc"]
    for values in wrong:
        with pytest.raises((InvalidInput, TypeError)):
            log.append_many(values)
    assert log.tail() == tail


def test_a_record_at_the_limit_is_taken_and_one_above_is_not(engine: Engine, log: Log) -> None:
    at_limit = bytes(RECORD_BYTES_MAX)
    receipt = log.append(at_limit)
    assert log.read(receipt.position).value == at_limit
    with pytest.raises(RecordTooLarge, match=str(RECORD_BYTES_MAX)):
        log.append(at_limit + b"x")
    with pytest.raises(RecordTooLarge, match=str(RECORD_BYTES_MAX)):
        log.append(at_limit, key=b"k")
    with pytest.raises(RecordTooLarge, match=str(RECORD_BYTES_MAX)):
        log.append_many([b"small", at_limit + b"x"])
    with pytest.raises(RecordTooLarge, match=str(RECORD_BYTES_MAX)):
        log.submit(at_limit + b"x").result()
    tail = log.tail()
    engine.check_passed(tail, receipt.position)
    engine.check_next([log.append(b"works on").position], tail)


def test_a_batch_above_the_limit_leaves_no_trace(engine: Engine, log: Log) -> None:
    tail = log.tail()
    third = bytes(BATCH_BYTES_MAX // 3 + 1)
    with pytest.raises(BatchTooLarge, match=str(BATCH_BYTES_MAX)):
        log.append_many([third] * 3)
    with pytest.raises(BatchTooLarge, match=str(BATCH_RECORDS_MAX)):
        log.append_many([b""] * (BATCH_RECORDS_MAX + 1))
    with pytest.raises(BatchTooLarge, match=str(BATCH_BYTES_MAX)):
        log.submit_many([third] * 3).result()
    assert log.tail() == tail
    receipt = log.append_many([third] * 2)
    engine.check_next(receipt.positions, tail)
    assert [len(record.value) for record in log.read_range(tail)] == [len(third)] * 2


def test_a_batch_of_many_small_records(log: Log) -> None:
    values = [b"%d" % n for n in range(200_000)]
    receipt = log.append_many(values)
    assert receipt.count == len(values)
    batches = log.read_range(receipt.position).batches()
    assert [record.value for batch in batches for record in batch.records()] == values
    assert log.read(receipt.position + 123_456).value == b"123456"


@pytest.mark.parametrize("compression", ["none", "lz4", "zstd"])
def test_compression_changes_no_record(deployment: Deployment, compression: Compression) -> None:
    log = deployment.open(compression=compression)
    values = [b"repeated " * 500, b"", b"x", bytes(range(256)) * 40]
    keys = [b"a", None, b"", b"d"]
    receipt = log.append_many(values, keys=keys)
    single = log.append(b"repeated " * 5000, key=b"a")
    found = [(record.value, record.key) for record in log.read_range(receipt.position, single.position)]
    assert found == list(zip(values, keys, strict=True))
    assert log.read(single.position).value == b"repeated " * 5000


def test_handles_with_other_compression_read_each_other(deployment: Deployment) -> None:
    compressions: list[Compression] = ["zstd", "none", "lz4"]
    positions = []
    for compression in compressions:
        with deployment.open(compression=compression) as log:
            positions.append(log.append(compression.encode() * 1000).position)
    with deployment.open() as log:
        found = [log.read(position).value for position in positions]
    assert found == [compression.encode() * 1000 for compression in compressions]


def test_a_timeout_that_suffices_changes_nothing(engine: Engine, log: Log) -> None:
    receipt = log.append(b"a", timeout=60)
    batch = log.append_many([b"b", b"c"], timeout=60)
    engine.check_next([receipt.position, *batch.positions], receipt.position)
