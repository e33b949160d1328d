"""Values that carry an id: any size, and no bit of them can change unnoticed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ithaca.proof.payload import HEAD_BYTES, decode, encode

NUMBERS = st.integers(0, (1 << 40) - 1)
SESSIONS = st.integers(0, (1 << 63) - 1)


@given(session=SESSIONS, number=NUMBERS, size=st.integers(HEAD_BYTES, 300))
def test_ids_come_back(session: int, number: int, size: int) -> None:
    value = encode(session, number, size)
    assert len(value) == size
    assert decode(value) == (session, number)


def test_every_bit_counts() -> None:
    value = encode(7, 42, 60)
    for bit in range(len(value) * 8):
        flipped = bytearray(value)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(ValueError, match="payload"):
            decode(bytes(flipped))


def test_the_size_counts() -> None:
    value = encode(7, 42, 60)
    for other in (b"", value[:10], value[:-1], value + b"\0"):
        with pytest.raises(ValueError, match="payload"):
            decode(other)


def test_values_of_different_ids_differ_everywhere() -> None:
    assert encode(7, 42, 200)[HEAD_BYTES:] != encode(7, 43, 200)[HEAD_BYTES:]
    assert encode(7, 42, 200)[HEAD_BYTES:] != encode(8, 42, 200)[HEAD_BYTES:]


def test_no_room_for_the_head() -> None:
    with pytest.raises(ValueError, match=f"{HEAD_BYTES}"):
        encode(7, 42, HEAD_BYTES - 1)
