"""What users hold in their hands: records, receipts, key filters, retention."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

import msgspec

from ithaca.model.arguments import is_integer
from ithaca.model.errors import InvalidInput
from ithaca.model.limits import KEEP_FOR_CONSUMERS_S, RETENTION_BYTES_MAX
from ithaca.model.units import Duration, Size, byte_count, seconds

Buffer = bytes | bytearray | memoryview
"""Of values and keys; text is refused: encode it."""
Values = Iterable[Buffer]
"""Of the records of one batch, in their order."""
Keys = Iterable[Buffer | None]
"""As many as there are values; None for a record without a key."""
Start = int | Literal["earliest", "latest"] | datetime
"""A position, a word, or an aware datetime: the first position that was ordered then or later."""
Durability = Literal["fsync", "os"]
"""What an acknowledgement means: synced, or in the page cache, where it survives the process and not the power."""
Compression = Literal["none", "lz4", "zstd"]
"""Of batches, by whoever appends; readers need no setting."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
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

    @property
    def timestamp(self) -> datetime:
        """The same time as an aware datetime.

        >>> str(Record(position=1, value=b"", key=None, timestamp_us=1_500_000, shard=0).timestamp)
        '1970-01-01 00:00:01.500000+00:00'
        """
        return _EPOCH + timedelta(microseconds=self.timestamp_us)


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

    Build one with `KeyFilter.equals`, `KeyFilter.prefix`, `KeyFilter.part` or `KeyFilter.hash_range`. A record
    without a key matches none of them.

    >>> KeyFilter.prefix(b"user-")
    KeyFilter(kind='prefix', key=b'user-', low=0, high=0)
    """

    kind: Literal["equals", "prefix", "hash"]
    key: bytes = b""
    low: int = 0
    high: int = 0

    def __post_init__(self) -> None:
        if self.kind not in ("equals", "prefix", "hash"):
            raise InvalidInput(f"{self.kind!r} is no kind of filter: use KeyFilter.equals, prefix, hash_range or part")
        if not isinstance(self.key, bytes):
            raise InvalidInput(f"key is {self.key!r}: use bytes, or build the filter with KeyFilter.{self.kind}")
        whole = all(isinstance(edge, int) for edge in (self.low, self.high))
        if not whole or not 0 <= self.low <= self.high <= HASH_SPACE:
            raise InvalidInput(
                f"hash range [{self.low}, {self.high}) is not within [0, {HASH_SPACE}): see KeyFilter.part"
            )

    @classmethod
    def equals(cls, key: Buffer) -> "KeyFilter":
        """Records whose key is exactly `key`."""
        return cls("equals", key=_key_bytes(key))

    @classmethod
    def prefix(cls, key: Buffer) -> "KeyFilter":
        """Records whose key starts with `key`."""
        return cls("prefix", key=_key_bytes(key))

    @classmethod
    def hash_range(cls, low: int, high: int) -> "KeyFilter":
        """Records whose key hashes into `[low, high)`; the hash space is `[0, 2**64)`.

        >>> half = KeyFilter.hash_range(0, 2**63)
        """
        return cls("hash", low=low, high=high)

    @classmethod
    def part(cls, index: int, count: int) -> "KeyFilter":
        """Records of share `index` of `count`, numbered from 0: each key is in exactly one, about as many in each.

        >>> [KeyFilter.part(index, 3).high == KeyFilter.part(index + 1, 3).low for index in (0, 1)]
        [True, True]
        """
        if not (is_integer(index) and is_integer(count)):
            raise InvalidInput(f"part {index!r} of {count!r}: use whole numbers, such as KeyFilter.part(0, 4)")
        if not 1 <= count <= HASH_SPACE:
            raise InvalidInput(f"there are {count} parts: use at least 1")
        if not 0 <= index < count:
            raise InvalidInput(f"part {index} of {count}: parts are numbered from 0 to {count - 1}")
        return cls.hash_range(HASH_SPACE * index // count, HASH_SPACE * (index + 1) // count)


def _key_bytes(key: Buffer) -> bytes:
    """A key that was given, copied if its owner could change it."""
    if isinstance(key, str):
        raise InvalidInput(f"key is text, {key!r}: keys are bytes; write {key.encode()!r}")
    if not isinstance(key, Buffer):
        raise InvalidInput(f"key is {key!r}: keys are bytes, bytearray or memoryview")
    return bytes(key)


@dataclass(frozen=True, slots=True, init=False)
class Retention:
    """How much to keep: trimming by age (to the record), by bytes (whole segments), or both.

    An age is a `timedelta`, a number of seconds or text with a unit; bytes are a number or text. Space is freed a
    segment at a time.

    With `keep_for_consumers` what some named consumer has not processed yet is kept, at most `keep_for` longer: for all
    of them, or for those that are named.

    >>> Retention(age="7d", bytes="10GB").bytes
    10737418240
    >>> Retention(age="1h", keep_for_consumers=["billing"], keep_for="2d").keep_for
    datetime.timedelta(days=2)
    """

    age: timedelta | None
    bytes: int | None
    keep_for_consumers: bool | tuple[str, ...]
    keep_for: timedelta

    def __init__(
        self,
        age: Duration | None = None,
        bytes: Size | None = None,
        *,
        keep_for_consumers: bool | Sequence[str] = False,
        keep_for: Duration = KEEP_FOR_CONSUMERS_S,
    ) -> None:
        age_s = None if age is None else seconds(age, "retention age")
        kept = None if age_s is None else timedelta(seconds=age_s)
        if kept is not None and kept <= timedelta(0):
            raise InvalidInput(f"retention age is {age!r}, not positive: leave it out to keep everything")
        size = None if bytes is None else byte_count(bytes, "retention bytes")
        if size is not None and size > RETENTION_BYTES_MAX:
            raise InvalidInput(f"retention bytes is {bytes!r}: use at most {RETENTION_BYTES_MAX}, or leave it out")
        object.__setattr__(self, "age", kept)
        object.__setattr__(self, "bytes", size)
        object.__setattr__(self, "keep_for_consumers", _consumer_names(keep_for_consumers))
        object.__setattr__(self, "keep_for", timedelta(seconds=seconds(keep_for, "retention keep_for")))


def _consumer_names(given: object) -> bool | tuple[str, ...]:
    """Whom retention waits for, checked."""
    if isinstance(given, bool):
        return given
    if isinstance(given, Sequence) and not isinstance(given, str) and all(isinstance(name, str) for name in given):
        return tuple(given)
    raise InvalidInput(f'keep_for_consumers is {given!r}: use True, or a list of names, such as ["billing"]')


def check_retention(retention: object) -> None:
    """Whether it is one; else `InvalidInput` says what to write."""
    if not isinstance(retention, Retention):
        raise InvalidInput(f'retention is {retention!r}: write Retention(age="7d"), Retention(bytes="10GB"), or both')
