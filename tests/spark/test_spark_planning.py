"""Partitions from positions: they cover a range, evenly, in order, whatever the log holds."""

from hypothesis import given
from hypothesis import strategies as st

from ithaca.spark.limits import SPARK_PARTITION_BYTES, SPARK_PARTITION_RECORDS, SPARK_SIZE_SAMPLES, SPARK_TASK_BYTES
from ithaca.spark.options import Options, ReadOptions, read_options
from ithaca.spark.planning import Wanted, cut, evened, plan, task_records


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

    assert task_records(1, 10_001, sized(maxBytesPerPartition=str(1 << 20)), size) == 127  # of 8 KiB each on average
    assert asked == sorted(set(asked))
    assert len(asked) == SPARK_SIZE_SAMPLES
    asked.clear()
    assert task_records(1, 101, sized(), size) == 100
    assert len(asked) == 1


def test_records_larger_than_a_task_get_one_each() -> None:
    assert task_records(1, 1_001, sized(maxBytesPerPartition="1000"), lambda _: 5_000) == 1


def test_small_records_and_records_that_are_gone_are_bounded_by_their_number() -> None:
    assert task_records(1, 2 * SPARK_PARTITION_RECORDS + 1, sized(), lambda _: 1) == SPARK_PARTITION_RECORDS
    assert task_records(1, 1_001, sized(), lambda _: 0) == SPARK_PARTITION_RECORDS


def test_who_counts_records_looks_at_none() -> None:
    def size(position: int) -> int:
        raise AssertionError(position)

    assert task_records(1, 1_001, sized(maxRecordsPerPartition="10"), size) == 10
    assert task_records(1, 3, sized(), size) == SPARK_PARTITION_RECORDS  # these fit, however large they are


def parts_of(records: int, cores: int, **given: str) -> list[int]:
    """How many records of 4 KiB each partition of a range has."""
    options = sized(**given)
    most = task_records(1, records + 1, options, lambda _: 4096, cores)
    return [each.stop - each.start for each in plan(1, records + 1, options, Wanted(), max_records=most)]


def test_all_cores_have_as_many_tasks_where_that_is_worth_a_task() -> None:
    assert parts_of(8_192, 2) == [4_096, 4_096]  # 32 MiB, which one task may have
    assert parts_of(20_480, 2) == [5_120] * 4  # 80 MiB: three tasks would leave a core idle
    assert parts_of(4_096, 16) == [1_024] * 4  # 16 MiB: of 4 MiB each
    assert parts_of(1_024, 16) == [1_024]


def test_who_says_how_many_partitions_there_are_gets_them_on_any_machine() -> None:
    for cores in (1, 2, 64):
        assert parts_of(8_192, cores, minPartitions="1") == [8_192]
        assert parts_of(8_192, cores, maxRecordsPerPartition="3000") == [2_730, 2_731, 2_731]


@given(st.integers(1, 10**9), st.integers(1, 1 << 20), st.integers(0, 10**7), st.integers(1, 512))
def test_cores_never_make_tasks_too_large_nor_too_small(records: int, most: int, size: int, cores: int) -> None:
    found = evened(records, most, records * size, cores)
    assert 1 <= found <= most
    if found * size < SPARK_TASK_BYTES and found < records:
        assert -(-records // found) <= -(-records // most) + records * size // SPARK_TASK_BYTES


def test_a_replay_on_other_cores_reads_the_same_records_in_the_same_order() -> None:
    for records in (1, 5_000, 50_001):
        for cores in (1, 2, 3, 64):
            options = sized()
            most = task_records(1, records + 1, options, lambda _: 16 * 1024, cores)
            found = plan(1, records + 1, options, Wanted(), max_records=most)
            assert [each.start for each in found] == [1, *(each.stop for each in found[:-1])]
            assert found[-1].stop == records + 1
            assert all((each.stop - each.start) * 16 * 1024 <= SPARK_PARTITION_BYTES + 16 * 1024 for each in found)
