"""Records that prove themselves: who wrote them, their row in their batch, and a checksum over it all."""

import struct
import zlib
from typing import NamedTuple

_HEAD = struct.Struct("<IIHH")
_CRC = struct.Struct("<I")


class Numbered(NamedTuple):
    """The `row`-th of the `rows` records of a writer's `batch`; batches count up from 1, rows from 0."""

    writer: int
    batch: int
    row: int
    rows: int


def encode(number: Numbered) -> bytes:
    """A value of up to 3 KB that is a function of its number alone."""
    head = _HEAD.pack(*number)
    size = (number.batch * 7919 + number.row * 431 + number.writer) % 3000
    body = head + (head * (size // len(head) + 1))[:size]
    return body + _CRC.pack(zlib.crc32(body))


def encode_batch(writer: int, batch: int, rows: int) -> list[bytes]:
    return [encode(Numbered(writer, batch, row, rows)) for row in range(rows)]


def decode(value: bytes) -> Numbered:
    """The number of a record; an altered one fails the test."""
    assert _CRC.unpack(value[-4:])[0] == zlib.crc32(value[:-4]), "a record's own checksum does not match"
    number = Numbered(*_HEAD.unpack_from(value))
    assert encode(number) == value
    return number
