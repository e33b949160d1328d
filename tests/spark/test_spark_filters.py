"""Filters that Spark hands down: what is taken selects the same rows, what is not is given back."""

from datetime import UTC, datetime

from pyspark.sql.datasource import (
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
