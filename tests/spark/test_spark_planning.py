"""Partitions from positions: they cover a range, evenly, in order, whatever the log holds."""

from hypothesis import given
from hypothesis import strategies as st

from ithaca.spark.options import Options, read_options
from ithaca.spark.planning import Wanted, cut, plan


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
    found = plan(1, 101, options, Wanted(), [0, 3])
    assert [(each.start, each.stop, each.wanted.shards) for each in found] == [
        (1, 51, frozenset({0})),
        (51, 101, frozenset({0})),
        (1, 51, frozenset({3})),
        (51, 101, frozenset({3})),
    ]


def test_by_shard_only_those_that_are_wanted_are_planned() -> None:
    options = read_options(Options({"bootstrap": "h:1", "split": "shard"}), "table")
    assert [each.wanted.shards for each in plan(1, 11, options, Wanted(shards=frozenset({3, 9})), [0, 3])] == [
        frozenset({3})
    ]
