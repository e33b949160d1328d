"""What users hold in their hands: records, receipts, key filters, retention."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

import msgspec

from ithaca.model.errors import InvalidInput

Buffer = bytes | bytearray | memoryview
Start = int | Literal["earliest", "latest"] | datetime
Durability = Literal["fsync", "os"]
Compression = Literal["none", "lz4", "zstd"]

HASH_SPACE = 1 << 64
"""Hashes of keys are integers in `[0, HASH_SPACE)`."""


class Record(msgspec.Struct, frozen=True, gc=False):
    """One record, at its place in the total order.

    `timestamp_us` is the producer's clock, in microseconds since 1970 (UTC).

    >>> Record(position=1, value=b"hello", key=None, timestamp_us=0, shard=0).value
    b'hello'
    """

    position: int
    value: bytes
    key: bytes | None
    timestamp_us: int
    shard: int


class Receipt(msgspec.Struct, frozen=True, gc=False):
    """What an append returns: where its records are, and how safe they were when it was given.

    >>> list(Receipt(position=5, count=3, shard=0, durability="fsync").positions)
    [5, 6, 7]
    """

    position: int
    count: int
    shard: int
    durability: Durability

    @property
    def positions(self) -> range:
        """The positions of the appended records, in the order in which they were passed."""
        return range(self.position, self.position + self.count)


@dataclass(frozen=True, slots=True)
class KeyFilter:
    """Selects records by key: equal to, starting with, or with a hash in a half-open range.

    Build one with `KeyFilter.equals`, `KeyFilter.prefix` or `KeyFilter.hash_range`. A record without a
    key matches none of them.

    >>> KeyFilter.prefix(b"user-")
    KeyFilter(kind='prefix', key=b'user-', low=0, high=0)
    """

    kind: Literal["equals", "prefix", "hash"]
    key: bytes = b""
    low: int = 0
    high: int = 0

    @classmethod
    def equals(cls, key: Buffer) -> "KeyFilter":
        """Records whose key is exactly `key`."""
        return cls("equals", key=bytes(key))

    @classmethod
    def prefix(cls, key: Buffer) -> "KeyFilter":
        """Records whose key starts with `key`."""
        return cls("prefix", key=bytes(key))

    @classmethod
    def hash_range(cls, low: int, high: int) -> "KeyFilter":
        """Records whose key hashes into `[low, high)`; the hash space is `[0, 2**64)`.

        >>> half = KeyFilter.hash_range(0, 2**63)
        """
        if not 0 <= low <= high <= HASH_SPACE:
            raise InvalidInput(f"hash range [{low}, {high}) is not within [0, {HASH_SPACE})")
        return cls("hash", low=low, high=high)


@dataclass(frozen=True, slots=True)
class Retention:
    """How much to keep: trimming by age (to the record), by bytes (whole segments), or both.

    Space is freed a segment at a time.

    >>> from datetime import timedelta
    >>> Retention(age=timedelta(days=7), bytes=10 << 30).bytes
    10737418240
    """

    age: timedelta | None = None
    bytes: int | None = None

    def __post_init__(self) -> None:
        if self.age is not None and self.age <= timedelta(0):
            raise InvalidInput(f"retention age {self.age} is not positive; leave it out to keep everything")
        if self.bytes is not None and self.bytes <= 0:
            raise InvalidInput(f"retention of {self.bytes} bytes is not positive; leave it out to keep everything")
