"""Selection by key on columns, against the same selection one record at a time; the hash as a format."""

import random
import tracemalloc
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ithaca.model.limits import KIB, MIB
from ithaca.model.records import HASH_SPACE, KeyFilter
from ithaca.wire import keys

Column = tuple[NDArray[np.int32], NDArray[np.uint8], NDArray[np.bool_] | None]

GOLDEN = {
    b"": 0xE220A8397B1DCDAF,  # the first number of splitmix64 seeded with 0
    b"a": 0x9CC9964958266158,
    b"user-1": 0x64F47197D8B50984,
    b"user-7": 0xD6DA8E25A6F147BB,
    b"12345678": 0xF44539CEFD9187FB,
    b"123456789": 0xACAE930087222C65,
    bytes(8): 0x600FB8D528D256A9,
    bytes(9): 0x84BA135C3C2DAE18,
    b"\xff" * 1000: 0x12C76AFA5D840090,
}


def column(rows: Sequence[bytes | None]) -> Column:
    """The column of these keys, with something behind the last of them."""
    lengths = [len(row or b"") for row in rows]
    offsets = np.cumsum([0, *lengths]).astype(np.int32)
    data = np.frombuffer(b"".join(row or b"" for row in rows) + b"behind", np.uint8)
    return offsets, data, np.array([row is not None for row in rows], np.bool_)


def naive(key_filter: KeyFilter, rows: Sequence[bytes | None]) -> list[int]:
    def matches(key: bytes) -> bool:
        if key_filter.kind == "equals":
            return key == key_filter.key
        if key_filter.kind == "prefix":
            return key.startswith(key_filter.key)
        return key_filter.low <= keys.hash_key(key) < key_filter.high

    return [row for row, key in enumerate(rows) if key is not None and matches(key)]


few_letters = st.binary(max_size=20).map(lambda key: bytes(byte % 3 for byte in key))
key_values = few_letters | st.binary(max_size=40)
key_rows = st.lists(st.none() | key_values, max_size=30)
hash_bounds = st.lists(st.integers(0, HASH_SPACE) | st.sampled_from(sorted(GOLDEN.values())), min_size=2, max_size=2)
filters = st.one_of(
    key_values.map(KeyFilter.equals),
    key_values.map(KeyFilter.prefix),
    hash_bounds.map(lambda bounds: KeyFilter.hash_range(min(bounds), max(bounds))),
)


@given(rows=key_rows, key_filter=filters, pick=st.integers(0, 29), cut=st.integers(0, 20))
@settings(max_examples=300, deadline=None)
def test_selects_what_a_loop_selects(rows: list[bytes | None], key_filter: KeyFilter, pick: int, cut: int) -> None:
    chosen = rows[pick] if pick < len(rows) else None
    if chosen is not None and key_filter.kind == "equals":  # also look for something that is there
        key_filter = KeyFilter.equals(chosen)
    elif chosen is not None and key_filter.kind == "prefix":
        key_filter = KeyFilter.prefix(chosen[:cut])
    found = keys.select(key_filter, *column(rows))
    assert found.dtype == np.int64
    assert found.tolist() == naive(key_filter, rows)


@pytest.mark.parametrize("build", [KeyFilter.equals, KeyFilter.prefix])
def test_no_validity_means_that_every_row_has_a_key(build: Callable[[bytes], KeyFilter]) -> None:
    offsets, data, _ = column([b"", b"a", b""])
    assert keys.select(build(b"a"), offsets, data, None).tolist() == [1]
    assert keys.select(build(b""), offsets, data, None).tolist() == (
        [0, 2] if build(b"").kind == "equals" else [0, 1, 2]
    )


def test_null_rows_never_match_whatever_bytes_lie_under_them() -> None:
    offsets, data, _ = column([b"a", b"a", b""])
    valid = np.array([True, False, False])
    everything = KeyFilter.hash_range(0, HASH_SPACE)
    for key_filter in (KeyFilter.equals(b"a"), KeyFilter.prefix(b""), everything):
        assert keys.select(key_filter, offsets, data, valid).tolist() == [0]


def test_all_rows_have_a_key_or_not() -> None:
    def are_all(rows: list[bytes], key: bytes, nulls: int = 0) -> bool:
        offsets = np.cumsum([0, *map(len, rows)]).astype(np.int32)
        valid = np.arange(len(rows)) >= nulls
        return keys.are_all(key, offsets, np.frombuffer(b"".join(rows), np.uint8), valid)

    assert are_all([b"ab"] * 5, b"ab")
    assert not are_all([b"ab"] * 5, b"ab", nulls=1)
    assert not are_all([b"ab"] * 4 + [b"ax"], b"ab")
    assert not are_all([b"a", b"aaa"], b"aa"), "the bytes are the same, and the keys are not"
    assert not are_all([b"ab"] * 5, b"a")
    assert not are_all([b""] * 5, b"")
    assert not are_all([b"a" * 1024] * 300, b"a" * 1024), "that is more than a chunk"


def test_no_rows() -> None:
    for key_filter in (KeyFilter.equals(b"a"), KeyFilter.prefix(b""), KeyFilter.hash_range(0, HASH_SPACE)):
        assert keys.select(key_filter, *column([])).tolist() == []


def test_hash_ranges_partition_the_keys() -> None:
    rows = [b"user-%d" % number for number in range(1000)]
    bounds = [HASH_SPACE * part // 7 for part in range(8)]
    found = [keys.select(KeyFilter.hash_range(*pair), *column(rows)) for pair in pairwise(bounds)]
    assert sorted(np.concatenate(found).tolist()) == list(range(1000))
    assert keys.select(KeyFilter.hash_range(HASH_SPACE, HASH_SPACE), *column(rows)).tolist() == []


@pytest.mark.parametrize("size", [keys.GATHERED_KEY_BYTES_MAX, keys.GATHERED_KEY_BYTES_MAX + 1])
def test_long_keys_around_the_switch_of_methods(size: int) -> None:
    wanted = random.Random(size).randbytes(size)
    other_end, other_middle = wanted[:-1] + bytes([wanted[-1] ^ 1]), bytearray(wanted)
    other_middle[size // 2] ^= 1
    rows = [wanted, other_end, bytes(other_middle), wanted + b"x", wanted[:-1], None, wanted]
    assert keys.select(KeyFilter.equals(wanted), *column(rows)).tolist() == [0, 6]
    assert keys.select(KeyFilter.prefix(wanted), *column(rows)).tolist() == [0, 3, 6]


@pytest.mark.parametrize("size", [8, KIB, MIB])
def test_memory_is_bounded_by_a_chunk(size: int) -> None:
    """16 MiB of keys that all pass the first test; gathering them at once would take as much again."""
    count = 16 * MIB // size
    offsets = (np.arange(count + 1, dtype=np.int64) * size).astype(np.int32)
    data = np.zeros(16 * MIB, np.uint8)
    row_bytes = 64 * count  # vectors with a few numbers per row are fine
    for key_filter in (
        KeyFilter.equals(bytes(size)),
        KeyFilter.prefix(bytes(size)),
        KeyFilter.hash_range(0, HASH_SPACE),
    ):
        tracemalloc.start()
        found = keys.select(key_filter, offsets, data, None)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert len(found) == count
        assert peak < row_bytes + 20 * keys.CHUNK_BYTES


def test_golden_hashes() -> None:
    assert {key: keys.hash_key(key) for key in GOLDEN} == GOLDEN
    offsets, data, _ = column(list(GOLDEN))
    assert keys.hash_keys(offsets, data).tolist() == list(GOLDEN.values())


@given(rows=st.lists(st.binary(max_size=70) | st.integers(240, 300).map(bytes), max_size=20))
@settings(max_examples=100, deadline=None)
def test_one_key_and_a_column_agree(rows: list[bytes]) -> None:
    offsets, data, _ = column(rows)
    hashes = keys.hash_keys(offsets, data)
    assert hashes.dtype == np.uint64
    assert hashes.tolist() == [keys.hash_key(row) for row in rows]


def test_hashes_do_not_depend_on_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """With chunks of 64 bytes a column takes every way through them: short keys, long ones, empty ones."""
    generator = random.Random(1)
    rows = [generator.randbytes(generator.choice([0, 0, 1, 8, 63, 64, 65, 200])) for _ in range(500)]
    rows[100:100] = [b""] * 100
    expected = [keys.hash_key(row) for row in rows]
    offsets, data, _ = column(rows)
    monkeypatch.setattr(keys, "CHUNK_BYTES", 64)
    assert keys.hash_keys(offsets, data).tolist() == expected


def chi_square(buckets: NDArray[np.uint64], bucket_count: int) -> float:
    counts = np.bincount(buckets.astype(np.int64), minlength=bucket_count)
    expected = len(buckets) / bucket_count
    return float(((counts - expected) ** 2 / expected).sum())


@pytest.mark.parametrize("shift", [0, 8, 24, 32, 48, 56])
@pytest.mark.parametrize("kind", ["sequential", "padded", "words", "random", "lengths"])
def test_hashes_spread_evenly(kind: str, shift: int) -> None:
    """255 degrees of freedom: mean 255, deviation 23; 400 is six deviations off. Seeds are fixed."""
    generator = random.Random(7)
    make: dict[str, Callable[[int], bytes]] = {
        "sequential": lambda number: b"user-%d" % number,
        "padded": lambda number: b"order/%020d/item" % number,
        "words": lambda number: number.to_bytes(8, "big"),
        "random": lambda number: generator.randbytes(1 + number % 40),
        "lengths": bytes,
    }
    count = 5_000 if kind == "lengths" else 50_000
    rows = [make[kind](number) for number in range(count)]
    offsets, data, _ = column(rows)
    hashes = keys.hash_keys(offsets, data)
    assert len(np.unique(hashes)) == len(set(rows))
    distinct = np.unique(hashes)
    assert chi_square((distinct >> np.uint64(shift)) & np.uint64(255), 256) < 400


def test_every_bit_of_a_key_moves_half_the_bits_of_its_hash() -> None:
    key = bytearray(b"a key of more than two words")
    origin = keys.hash_key(bytes(key))
    flips = []
    for bit in range(8 * len(key)):
        key[bit // 8] ^= 1 << bit % 8
        flips.append((keys.hash_key(bytes(key)) ^ origin).bit_count())
        key[bit // 8] ^= 1 << bit % 8
    assert min(flips) >= 12
    assert 30 < sum(flips) / len(flips) < 34
