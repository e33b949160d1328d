"""How much a trigger takes."""

from hypothesis import given
from hypothesis import strategies as st

from ithaca.spark.admission import admitted


def test_without_a_limit_it_goes_to_the_tail() -> None:
    assert admitted(5, 100, records=None, byte_count=None, size=lambda position: 1) == 100


def test_records_are_counted() -> None:
    assert admitted(5, 100, records=10, byte_count=None, size=lambda position: 1) == 15
    assert admitted(95, 100, records=10, byte_count=None, size=lambda position: 1) == 100


def test_bytes_of_records_that_are_alike_are_exact() -> None:
    assert admitted(1, 100_000, records=None, byte_count=1000, size=lambda position: 10) == 101


def test_one_record_always_goes() -> None:
    assert admitted(1, 100, records=None, byte_count=1, size=lambda position: 1 << 20) == 2


def test_small_records_far_away_do_not_speak_for_large_ones_here() -> None:
    stop = admitted(1, 1_000_001, records=None, byte_count=100_000, size=lambda at: 1000 if at < 1000 else 1)
    assert 50 <= stop - 1 <= 200


def test_of_few_records_each_counts_for_itself() -> None:
    sizes = {1: 10, 2: 1000, 3: 10, 4: 10}
    assert admitted(1, 5, records=None, byte_count=500, size=sizes.__getitem__) == 2
    assert admitted(1, 5, records=None, byte_count=1015, size=sizes.__getitem__) == 3
    assert admitted(1, 5, records=None, byte_count=1030, size=sizes.__getitem__) == 5


def test_the_smaller_limit_counts() -> None:
    assert admitted(1, 1000, records=5, byte_count=1000, size=lambda position: 1) == 6
    assert admitted(1, 1000, records=500, byte_count=10, size=lambda position: 1) == 11


@given(st.integers(1, 50), st.integers(1, 5000), st.integers(1, 10_000))
def test_a_trigger_always_goes_on_and_never_beyond_the_tail(start: int, count: int, byte_count: int) -> None:
    stop = admitted(start, start + count, records=None, byte_count=byte_count, size=lambda at: (at * 7919) % 300)
    assert start < stop <= start + count
