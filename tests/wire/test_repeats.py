"""Repeats against a naive model: what is said to differ differs, and of plain batches all that differs is said to."""

from hypothesis import given
from hypothesis import strategies as st

from ithaca.model.records import Compression
from ithaca.wire.batch import Batch
from ithaca.wire.build import build
from ithaca.wire.repeats import differs, mark_of, same_records

small = st.binary(max_size=3)
records = st.lists(st.tuples(small, st.none() | small), min_size=2, max_size=2)
compressions: st.SearchStrategy[Compression] = st.sampled_from(["none", "lz4", "zstd"])


@given(records, records, compressions, compressions, st.booleans())
def test_what_differs(
    one: list[tuple[bytes, bytes | None]],
    other: list[tuple[bytes, bytes | None]],
    first: Compression,
    second: Compression,
    padded: bool,
) -> None:
    filler: list[tuple[bytes, bytes | None]] = (
        [(b"a" * 500, None)] if padded else []
    )  # without it nothing is worth compressing
    earlier = batch(one + filler, first, timestamp_us=1, epoch=1)
    repeat = batch(other + filler, second, timestamp_us=2, epoch=2)
    assert same_records(earlier, repeat) == (one == other)
    assert not differs(mark_of(earlier), batch(one + filler, second, timestamp_us=3, epoch=3))
    if differs(mark_of(earlier), repeat):
        assert one != other
    elif not earlier.is_compressed and earlier.flags == repeat.flags:
        assert one == other


def batch(rows: list[tuple[bytes, bytes | None]], compress: Compression, *, timestamp_us: int, epoch: int) -> Batch:
    values, keys = [row[0] for row in rows], [row[1] for row in rows]
    given_keys = None if keys.count(None) == len(keys) else keys
    return build(values, given_keys, timestamp_us=timestamp_us, compress=compress, producer=(7, epoch, 1))
