"""Values that say which record they are, so that whoever reads one can log its id.

```
0 magic u32 | 4 crc32c u32 over everything behind it | 8 session u64 | 16 number u64 | 24 filler to the end
```

The filler is derived from the id: a value that was put together from pieces of two others fails its checksum,
and so does one that is a byte too short or too long.
"""

import struct

from ithaca.wire.batch import crc32c

_HEAD = struct.Struct("<IIQQ")
_ID = struct.Struct("<QQ")
_MAGIC = 0x4F525049  # "IPRO"
_FILLER_STEP = 0x9E3779B97F4A7C15

HEAD_BYTES = _HEAD.size
"""The smallest value there is."""


def encode(session: int, seq: int, size: int) -> bytes:
    """A value of exactly `size` bytes that carries the id.

    >>> decode(encode(7, 42, 100))
    (7, 42)
    """
    if size < HEAD_BYTES:
        raise ValueError(f"a payload of {size} bytes has no room for its head of {HEAD_BYTES}")
    rest = _ID.pack(session, seq) + _filler(session, seq, size - HEAD_BYTES)
    return struct.pack("<II", _MAGIC, crc32c(rest)) + rest


def decode(value: bytes) -> tuple[int, int]:
    """The session and the number that a value carries; ValueError when it is none, or not whole."""
    if len(value) < HEAD_BYTES:
        raise ValueError(f"{len(value)} bytes are too few for a payload's head of {HEAD_BYTES}")
    magic, crc, session, seq = _HEAD.unpack_from(value)
    if magic != _MAGIC:
        raise ValueError(f"the value does not begin as a payload does: {bytes(value[:8]).hex()}")
    if crc != crc32c(value[8:]):
        raise ValueError(f"the checksum of a payload that calls itself {session}/{seq} does not fit")
    return session, seq


def _filler(session: int, seq: int, size: int) -> bytes:
    word = (session * _FILLER_STEP ^ (seq + 1) * _FILLER_STEP) & 0xFFFF_FFFF_FFFF_FFFF
    return (struct.pack("<Q", word) * (size // 8 + 1))[:size]
