"""Partitions from positions: they cover a range, evenly, in order, whatever the log holds."""

from hypothesis import given
from hypothesis import strategies as st

from ithaca.spark.limits import SPARK_PARTITION_BYTES, SPARK_PARTITION_RECORDS, SPARK_SIZE_SAMPLES
from ithaca.spark.options import Options, ReadOptions, read_options
from ithaca.spark.planning import Wanted, cut, plan, task_records


@given(st.integers(1, 1000), st.integers(0, 1000), st.integers(1, 20), st.integers(1, 300))
def test_parts_cover_a_range_in_order(start: int, count: int, min_parts: int, max_records: int) -> None:
    parts = cut(start, start + count, min_parts=min_parts, max_records=max_records)
    assert [position for low, high in parts for position in range(low, high)] == list(range(start, start + count))
    assert all(0 < high - low <= max_records for low, high in parts)
    assert len(parts) >= min(count, min_parts)


def test_a_range_that_is_empty_has_no_parts() -> None:
    assert cut(5, 5, min_parts=4, max_records=10) == []


def test_by_shard_each_has_its_own_partitions() -> None:
    options = read_options(Options({"bootstrap": "h:1", "minPartitions": "4", "split": "shard"}), "table")
    found = plan(1, 101, options, Wanted(), [0, 3], max_records=options.max_records)
    assert [(each.start, each.stop, each.wanted.shards) for each in found] == [
        (1, 51, frozenset({0})),
        (51, 101, frozenset({0})),
        (1, 51, frozenset({3})),
        (51, 101, frozenset({3})),
    ]


def test_by_shard_only_those_that_are_wanted_are_planned() -> None:
    options = read_options(Options({"bootstrap": "h:1", "split": "shard"}), "table")
    wanted = Wanted(shards=frozenset({3, 9}))
    found = plan(1, 11, options, wanted, [0, 3], max_records=options.max_records)
    assert [each.wanted.shards for each in found] == [frozenset({3})]


def sized(**given: str) -> ReadOptions:
    return read_options(Options({"bootstrap": "h:1", **given}), "table")


def test_a_task_has_about_as_many_bytes_as_wanted() -> None:
    asked: list[int] = []

    def size(position: int) -> int:
        asked.append(position)
        return 4096 if position <= 5_000 else 12_288

    assert task_records(1, 10_001, sized(maxBytesPerPartition=str(1 << 20)), size) == 128  # 8 KiB each on average
    assert asked == sorted(set(asked))
    assert len(asked) == SPARK_SIZE_SAMPLES
    asked.clear()
    assert task_records(1, 101, sized(), size) == SPARK_PARTITION_BYTES // 4096
    assert len(asked) == 1


def test_records_larger_than_a_task_get_one_each() -> None:
    assert task_records(1, 1_001, sized(maxBytesPerPartition="1000"), lambda _: 5_000) == 1


def test_small_records_and_records_that_are_gone_are_bounded_by_their_number() -> None:
    assert task_records(1, 1_001, sized(), lambda _: 1) == SPARK_PARTITION_RECORDS
    assert task_records(1, 1_001, sized(), lambda _: 0) == SPARK_PARTITION_RECORDS


def test_who_counts_records_looks_at_none() -> None:
    def size(position: int) -> int:
        raise AssertionError(position)

    assert task_records(1, 1_001, sized(maxRecordsPerPartition="10"), size) == 10
    assert task_records(1, 3, sized(), size) == SPARK_PARTITION_RECORDS  # these fit, however large they are
