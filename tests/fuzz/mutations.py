"""Valid examples, damaged: flipped bits, cuts, insertions, splices, and numbers put where a length may stand."""

from collections.abc import Callable
from typing import Final

from hypothesis import strategies as st

BYTES_MAX: Final = 1 << 16
"""Mutated examples grow no longer than this."""
_NUMBERS: Final = (0, 1, 7, 0x7F, 0xFF, 0x7FFF, 0xFFFF, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, (1 << 63) - 1, 1 << 63)
_WIDTHS: Final = (1, 2, 4, 8)


def flip(data: bytes, at: int, value: int, other: bytes) -> bytes:
    changed = bytearray(data or b"\0")
    changed[at % len(changed)] ^= 1 << value % 8
    return bytes(changed)


def put(data: bytes, at: int, value: int, other: bytes) -> bytes:
    """Set one byte."""
    at %= len(data) + 1
    return data[:at] + bytes([value % 256]) + data[at + 1 :]


def cut(data: bytes, at: int, value: int, other: bytes) -> bytes:
    """Take away the end."""
    return data[: at % (len(data) + 1)]


def drop(data: bytes, at: int, value: int, other: bytes) -> bytes:
    """Take away some bytes in the middle."""
    at %= len(data) + 1
    return data[:at] + data[at + 1 + value % 16 :]


def insert(data: bytes, at: int, value: int, other: bytes) -> bytes:
    at %= len(data) + 1
    return data[:at] + value.to_bytes(8, "little")[: 1 + at % 8] + data[at:]


def splice(data: bytes, at: int, value: int, other: bytes) -> bytes:
    """Go on with the end of another example."""
    return data[: at % (len(data) + 1)] + other[value % (len(other) + 1) :]


def repeat(data: bytes, at: int, value: int, other: bytes) -> bytes:
    """Say some bytes twice, or many times."""
    at %= len(data) + 1
    piece = data[at : at + 1 + value % 32]
    return data[:at] + piece * (2 + value // 32 % 4) + data[at:]


def number(data: bytes, at: int, value: int, other: bytes) -> bytes:
    """Put an extreme number where a length or a count may stand, in the byte order of heads or of msgpack."""
    width = _WIDTHS[value % 4]
    said = _NUMBERS[value // 4 % len(_NUMBERS)] % (1 << 8 * width)
    at %= max(1, len(data) - width + 1)
    order = "big" if value // 64 % 3 == 0 else "little"
    return data[:at] + said.to_bytes(width, order) + data[at + width :]  # type: ignore[arg-type]


Edit = Callable[[bytes, int, int, bytes], bytes]
EDITS: Final[tuple[Edit, ...]] = (flip, put, cut, drop, insert, splice, repeat, number, number)


def mutated(seeds: tuple[bytes, ...]) -> st.SearchStrategy[bytes]:
    """One of the examples after one to four edits."""
    edit = st.tuples(
        st.sampled_from(EDITS), st.integers(0, BYTES_MAX), st.integers(0, (1 << 16) - 1), st.sampled_from(seeds)
    )
    return st.tuples(st.sampled_from(seeds), st.lists(edit, min_size=1, max_size=4)).map(_edited)


def _edited(drawn: tuple[bytes, list[tuple[Edit, int, int, bytes]]]) -> bytes:
    data, edits = drawn
    for edit, at, value, other in edits:
        data = edit(data, at, value, other)
    return data[:BYTES_MAX]
