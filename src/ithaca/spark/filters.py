"""Filters that Spark hands down: those that spare reading are taken, all others are left to Spark. Pure."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

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
)

from ithaca.model.records import KeyFilter
from ithaca.spark.planning import Wanted

_NEVER_NULL: Final = frozenset({"position", "shard", "timestamp", "value"})


@dataclass(frozen=True, slots=True)
class Pushed:
    """What the filters that were taken select; all of them hold."""

    low: int | None = None
    high: int | None = None
    """Positions, half-open."""
    shards: frozenset[int] | None = None
    since_us: int | None = None
    until_us: int | None = None
    key: bytes | None = None

    def narrow(self, start: int, stop: int) -> tuple[int, int]:
        """The part of a range that can have matches."""
        low = start if self.low is None else min(stop, max(start, self.low))
        high = stop if self.high is None else max(low, min(stop, self.high))
        return low, high

    def wanted(self, key_filter: KeyFilter | None) -> Wanted:
        where = key_filter if self.key is None else KeyFilter.equals(self.key)
        return Wanted(where, self.shards, self.since_us, self.until_us)

    def at_least(self, column: str, value: int) -> "Pushed":
        if column == "position":
            return replace(self, low=value if self.low is None else max(self.low, value))
        return replace(self, since_us=value if self.since_us is None else max(self.since_us, value))

    def at_most(self, column: str, value: int) -> "Pushed":
        if column == "position":
            return replace(self, high=value + 1 if self.high is None else min(self.high, value + 1))
        return replace(self, until_us=value if self.until_us is None else min(self.until_us, value))

    def in_shards(self, shards: frozenset[int]) -> "Pushed":
        return replace(self, shards=shards if self.shards is None else self.shards & shards)


def push(filters: Iterable[Filter], key_filter: KeyFilter | None) -> tuple[Pushed, list[Filter]]:
    """What could be taken, and the filters that Spark has to apply itself.

    With a `keyFilter` of the user's, filters on the key are left to Spark: replicas evaluate one.
    """
    pushed, left = Pushed(), []
    for each in filters:
        taken = _take(pushed, each, may_take_key=key_filter is None)
        if taken is None:
            left.append(each)
        else:
            pushed = taken
    return pushed, left


def _take(pushed: Pushed, each: Filter, *, may_take_key: bool) -> Pushed | None:
    column = _column(each)
    if isinstance(each, IsNotNull):
        return pushed if column in _NEVER_NULL else None
    if column == "key":
        return _take_key(pushed, each) if may_take_key and pushed.key is None else None
    if column == "shard":
        return _take_shard(pushed, each)
    if column in ("position", "timestamp"):
        return _take_bound(pushed, each, column)
    return None


def _take_key(pushed: Pushed, each: Filter) -> Pushed | None:
    if isinstance(each, EqualTo | EqualNullSafe) and isinstance(each.value, bytes | bytearray):
        return replace(pushed, key=bytes(each.value))
    return None


def _take_shard(pushed: Pushed, each: Filter) -> Pushed | None:
    if isinstance(each, EqualTo | EqualNullSafe) and isinstance(each.value, int):
        return pushed.in_shards(frozenset({each.value}))
    if isinstance(each, In) and all(isinstance(value, int) for value in each.value):
        return pushed.in_shards(frozenset(each.value))
    return None


def _take_bound(pushed: Pushed, each: Filter, column: str) -> Pushed | None:
    steps: dict[type[Filter], Callable[[int], Pushed]] = {
        EqualTo: lambda value: pushed.at_least(column, value).at_most(column, value),
        EqualNullSafe: lambda value: pushed.at_least(column, value).at_most(column, value),
        GreaterThan: lambda value: pushed.at_least(column, value + 1),
        GreaterThanOrEqual: lambda value: pushed.at_least(column, value),
        LessThan: lambda value: pushed.at_most(column, value - 1),
        LessThanOrEqual: lambda value: pushed.at_most(column, value),
    }
    step, value = steps.get(type(each)), _number(getattr(each, "value", None))
    return None if step is None or value is None else step(value)


def _column(each: Filter) -> str | None:
    path: tuple[str, ...] = getattr(each, "attribute", ())
    return path[0].lower() if len(path) == 1 else None


def _number(value: object) -> int | None:
    """Positions as they are, times as microseconds since 1970."""
    if isinstance(value, datetime):
        time = value if value.tzinfo is not None else value.astimezone()
        since = time.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)
        return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    return value if isinstance(value, int) and not isinstance(value, bool) else None
