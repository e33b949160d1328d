"""Whether a batch that repeats the numbers of another has the same records as that one.

A retry is built again: its time differs, its epoch may, and so may its compression. `same_records` compares two batches
that are there. Where of the earlier one only its `mark` was kept, `differs` says what is certain: the check sum of what
a producer says covers head and body, so that the body of the one under the head of the other gives the same sum if the
bodies are the same. Of bodies that were compressed only the sizes count: another version may compress otherwise.
"""

import struct
from typing import Final

import google_crc32c

from ithaca.wire.batch import KEYS, Batch, padded

_MARK: Final = struct.Struct("<I2xH36xI")
"""The check sum, version and kind, the flags, the rest of what was said, the size of the body."""


def mark_of(batch: Batch) -> bytes:
    """What to keep of a batch: its check sum, and what that covers of the head."""
    return batch.head[4:48] + batch.head[60:64]


def differs(mark: bytes, batch: Batch) -> bool:
    """Whether the batch certainly has other records than the one with this mark; both have equally many."""
    crc, flags, raw_bytes = _MARK.unpack(mark)
    with_keys = raw_bytes + (0 if flags & KEYS else _no_keys_bytes(batch.count))
    if with_keys != batch.raw_bytes + (0 if batch.has_keys else _no_keys_bytes(batch.count)):
        return True
    if flags != batch.flags or batch.is_compressed:
        return False
    return bool(google_crc32c.extend(google_crc32c.value(mark[4:]), bytes(batch.body)) != crc)


def same_records(one: Batch, other: Batch) -> bool:
    """Whether two batches have the same keys and values, however they are stored."""
    found = ([(record.key, record.value) for record in batch.records(1, 0)] for batch in (one, other))
    return next(found) == next(found)


def _no_keys_bytes(count: int) -> int:
    """What keys take of a body when no record has one."""
    return padded((count + 7) // 8) + padded(4 * (count + 1))
