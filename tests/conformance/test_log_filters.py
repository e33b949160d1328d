"""Key filters select exactly what a naive filter over all records selects."""

from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ithaca.model.errors import InvalidInput
from ithaca.model.interface import Log
from ithaca.model.records import HASH_SPACE, KeyFilter, Record
from tests.conformance.engines import Engine

pytestmark = pytest.mark.shared_log

KEYS = [
    None,
    b"",
    b"a",
    b"ab",
    b"abc",
    b"b",
    b"user-1",
    b"user-2",
    b"user-10",
    bytes(range(256)),
    b"\xff\xff",
]
HALF = HASH_SPACE // 2

Naive = Callable[[bytes], bool]
FILTERS: list[tuple[KeyFilter, Naive]] = [
    *((KeyFilter.equals(key), key.__eq__) for key in KEYS if key is not None),
    (KeyFilter.equals(b"absent"), lambda key: False),
    *((KeyFilter.prefix(key), lambda key, start=key: key.startswith(start)) for key in KEYS if key is not None),
    (KeyFilter.prefix(b"user-"), lambda key: key.startswith(b"user-")),
    (KeyFilter.hash_range(0, HASH_SPACE), lambda key: True),
    *((KeyFilter.hash_range(at, at), lambda key: False) for at in (0, 1 << 63, HASH_SPACE)),
    (KeyFilter.hash_range(HALF, HALF), lambda key: False),
]


def fill(log: Log) -> int:
    """Records with all keys: alone, in a mixed batch, in batches without and with one key only."""
    start = log.tail()
    for n, key in enumerate(KEYS):
        log.append(b"single %d" % n, key=key)
    log.append_many([b"mixed %d" % n for n in range(len(KEYS) * 3)], keys=KEYS * 3)
    log.append_many([b"without"] * 5)
    log.append_many([b"all a"] * 5, keys=[b"a"] * 5)
    return start


def naive(records: list[Record], matches: Naive) -> list[Record]:
    return [record for record in records if record.key is not None and matches(record.key)]


def test_filters_equal_a_naive_filter(log: Log) -> None:
    start = fill(log)
    everything = list(log.read_range(start))
    for where, matches in FILTERS:
        expected = naive(everything, matches)
        assert list(log.read_range(start, where=where)) == expected, where
        middle = log.read_range(start + 3, log.tail() - 3, where=where)
        assert list(middle) == [r for r in expected if start + 3 <= r.position < log.tail() - 3], where
        batches = log.read_range(start, where=where).batches()
        assert [record for batch in batches for record in batch.records()] == expected, where


def test_filtered_subscriptions_equal_a_naive_filter(log: Log) -> None:
    start = fill(log)
    everything = list(log.read_range(start))
    for where, matches in FILTERS:
        expected = naive(everything, matches)
        with log.subscribe(start, where=where) as subscription:
            found: list[Record] = []
            while len(found) < len(expected):
                found += subscription.poll(timeout=60)
            assert found == expected, where
            assert subscription.poll(timeout=0) == []


def test_filtered_batches_become_arrow(log: Log) -> None:
    start = fill(log)
    expected = naive(list(log.read_range(start)), lambda key: key.startswith(b"user-"))
    tables = [batch.to_arrow() for batch in log.read_range(start, where=KeyFilter.prefix(b"user-")).batches()]
    columns = [table.to_pydict() for table in tables]
    assert [position for part in columns for position in part["position"]] == [r.position for r in expected]
    assert [key for part in columns for key in part["key"]] == [r.key for r in expected]
    assert [value for part in columns for value in part["value"]] == [r.value for r in expected]


def test_a_filtered_range_resumes(log: Log) -> None:
    start = fill(log)
    where = KeyFilter.prefix(b"user-")
    expected = list(log.read_range(start, where=where))
    for taken in range(len(expected) + 1):
        records = log.read_range(start, where=where)
        head = [next(records) for _ in range(taken)]
        assert head + list(log.read_range(records.position, where=where)) == expected


def test_hash_ranges_divide_the_keys(log: Log) -> None:
    start = log.append_many([b""] * 1000, keys=[b"key-%d" % (n % 250) for n in range(1000)]).position
    bounds = [HASH_SPACE * n // 8 for n in range(9)]
    parts = [list(log.read_range(start, where=KeyFilter.hash_range(low, high))) for low, high in pairwise(bounds)]
    keys = [{record.key for record in part} for part in parts]
    assert sum(map(len, parts)) == 1000
    assert sum(map(len, keys)) == 250  # no key on two sides
    assert min(map(len, keys)) > 10  # about 31 each: the hash spreads


@pytest.mark.parametrize(("low", "high"), [(-1, 5), (5, 4), (0, HASH_SPACE + 1)])
def test_a_hash_range_lies_in_the_hash_space(low: int, high: int) -> None:
    with pytest.raises(InvalidInput, match="hash range"):
        KeyFilter.hash_range(low, high)


BATCHES = st.lists(
    st.lists(st.one_of(st.none(), st.binary(max_size=3), st.sampled_from([b"ab", b"abc"])), min_size=1, max_size=9),
    min_size=1,
    max_size=6,
)


def test_any_keys_any_filter(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> None:
    with engine.deploy(tmp_path_factory.mktemp("filters")) as deployment:
        log = deployment.open()

        @settings(max_examples=60)
        @given(BATCHES, st.binary(max_size=3))
        def check(batches: list[list[bytes | None]], key: bytes) -> None:
            start = log.tail()
            for keys in batches:
                log.append_many([b"v"] * len(keys), keys=keys)
            everything = list(log.read_range(start))
            assert list(log.read_range(start, where=KeyFilter.equals(key))) == naive(everything, key.__eq__)
            expected = naive(everything, lambda found: found.startswith(key))
            assert list(log.read_range(start, where=KeyFilter.prefix(key))) == expected

        check()
