"""Filters that Spark hands down: what is taken selects the same rows, what is not is given back."""

from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)

from ithaca.model.records import KeyFilter
from ithaca.spark.filters import Pushed, push


def taken(*filters: Filter) -> Pushed:
    pushed, left = push(filters, None)
    assert left == []
    return pushed


def test_positions_narrow_the_range() -> None:
    assert taken(GreaterThan(("position",), 10), LessThanOrEqual(("position",), 20)).narrow(1, 100) == (11, 21)
    assert taken(GreaterThanOrEqual(("position",), 10), LessThan(("position",), 20)).narrow(15, 100) == (15, 20)
    assert taken(EqualTo(("position",), 7)).narrow(1, 100) == (7, 8)


def test_positions_beyond_the_range_leave_nothing() -> None:
    low, high = taken(GreaterThan(("position",), 1000)).narrow(1, 100)
    assert low == high


def test_shards_are_met_together() -> None:
    assert taken(In(("shard",), (1, 2, 3)), EqualTo(("shard",), 2)).shards == frozenset({2})


def test_the_records_time_is_bounded() -> None:
    at = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    pushed = taken(GreaterThanOrEqual(("timestamp",), at), LessThan(("timestamp",), at))
    assert (pushed.since_us, pushed.until_us) == (1_000_000, 999_999)


def test_one_key_is_left_to_the_replicas() -> None:
    assert taken(EqualTo(("key",), b"a")).wanted(None).key_filter == KeyFilter.equals(b"a")


def test_a_second_key_is_left_to_spark() -> None:
    second = EqualTo(("key",), b"b")
    pushed, left = push([EqualTo(("key",), b"a"), second], None)
    assert (pushed.key, left) == (b"a", [second])


def test_beside_a_key_filter_keys_are_left_to_spark() -> None:
    only = EqualTo(("key",), b"a")
    pushed, left = push([only], KeyFilter.prefix(b"x"))
    assert left == [only]
    assert pushed.wanted(KeyFilter.prefix(b"x")).key_filter == KeyFilter.prefix(b"x")


def test_what_cannot_be_taken_is_given_back() -> None:
    filters: list[Filter] = [
        IsNotNull(("key",)),
        StringStartsWith(("key",), "a"),
        In(("position",), (1, 2)),
        EqualTo(("value",), b"a"),
        EqualTo(("nested", "position"), 1),
    ]
    assert push(filters, None) == (Pushed(), filters)


def test_what_is_never_null_needs_no_look() -> None:
    assert taken(IsNotNull(("position",)), IsNotNull(("value",))) == Pushed()


class Row(NamedTuple):
    position: int
    timestamp: datetime
    shard: int
    key: bytes | None


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TIMES = [EPOCH + timedelta(microseconds=us) for us in range(4)]
POSITIONS = range(3, 8)
ROWS = [
    Row(position, time, shard, key)
    for position, time, shard, key in product(POSITIONS, TIMES, range(3), (None, b"a", b"b"))
]
BOUNDS = [EqualTo, EqualNullSafe, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual]
FILTERS: list[Filter] = [
    *(kind(("position",), value) for kind in BOUNDS for value in range(2, 9)),
    *(kind(("Timestamp",), value) for kind in BOUNDS for value in TIMES),
    *(kind(("shard",), value) for kind in (EqualTo, EqualNullSafe) for value in range(3)),
    *(In(("shard",), values) for values in ((), (0,), (0, 2))),
    *(kind(("key",), value) for kind in (EqualTo, EqualNullSafe) for value in (b"a", b"b")),
    EqualNullSafe(("key",), None),
    *(IsNotNull((column,)) for column in ("position", "key", "value")),
]


def holds(each: Any, row: Row) -> bool:
    """What Spark would say of the row."""
    if isinstance(each, IsNotNull):
        return each.attribute != ("key",) or row.key is not None
    found = getattr(row, each.attribute[0].lower())
    if isinstance(each, EqualTo | EqualNullSafe):
        return bool(found == each.value)
    if isinstance(each, In):
        return found in each.value
    if isinstance(each, GreaterThan | GreaterThanOrEqual):
        return bool(found > each.value or (isinstance(each, GreaterThanOrEqual) and found == each.value))
    return bool(found < each.value or (isinstance(each, LessThanOrEqual) and found == each.value))


def is_read(pushed: Pushed, row: Row) -> bool:
    """What a task would hand to Spark."""
    low, high = pushed.narrow(POSITIONS.start, POSITIONS.stop)
    assert POSITIONS.start <= low <= high <= POSITIONS.stop
    wanted = pushed.wanted(None)
    since = row.timestamp - EPOCH
    time_us = since.days * 86_400_000_000 + since.seconds * 1_000_000 + since.microseconds
    return (
        low <= row.position < high
        and (wanted.shards is None or row.shard in wanted.shards)
        and (wanted.since_us is None or wanted.since_us <= time_us)
        and (wanted.until_us is None or time_us <= wanted.until_us)
        and (wanted.key_filter is None or (row.key is not None and wanted.key_filter == KeyFilter.equals(row.key)))
    )


@given(st.lists(st.sampled_from(FILTERS), max_size=5))
def test_what_is_taken_and_what_is_left_select_the_same_rows_together(filters: list[Filter]) -> None:
    pushed, left = push(filters, None)
    assert [each for each in filters if each in left] == left
    read = [row for row in ROWS if is_read(pushed, row)]
    assert [row for row in read if all(holds(each, row) for each in left)] == [
        row for row in ROWS if all(holds(each, row) for each in filters)
    ]


def test_each_filter_by_itself_selects_the_same_rows() -> None:
    for each in FILTERS:
        pushed, left = push([each], None)
        assert [row for row in ROWS if is_read(pushed, row) and (not left or holds(each, row))] == [
            row for row in ROWS if holds(each, row)
        ], each


@pytest.mark.parametrize("column", ["position", "timestamp", "shard"])
def test_any_two_filters_of_a_column_hold_together(column: str) -> None:
    plain = Row(POSITIONS[0], TIMES[0], 0, None)
    rows = [plain._replace(**{column: value}) for value in {getattr(row, column) for row in ROWS}]
    known: list[Any] = FILTERS
    filters = [each for each in known if each.attribute[0].lower() == column]
    for pair in product(filters, repeat=2):
        pushed, left = push(pair, None)
        assert [row for row in rows if is_read(pushed, row) and all(holds(each, row) for each in left)] == [
            row for row in rows if all(holds(each, row) for each in pair)
        ], pair


def test_what_is_no_number_is_given_back() -> None:
    filters: list[Filter] = [EqualTo(("position",), True), GreaterThan(("timestamp",), "now"), EqualTo(("shard",), "1")]
    assert push(filters, None) == (Pushed(), filters)


def test_a_time_without_an_offset_is_one_of_this_place() -> None:
    at = datetime(2026, 1, 31, 12)
    assert taken(EqualTo(("timestamp",), at)) == taken(EqualTo(("timestamp",), at.astimezone(UTC)))
