"""A state at a position, as bytes: what a replica starts from instead of the whole log.

```
 0 magic u32 "ITHS" | 4 crc u32: CRC32C over bytes 8..end | 8 version u32 | 12 head_bytes u32
16 head: msgpack (`Head`) | state: whatever the class writes
```
"""

import struct
from dataclasses import dataclass
from typing import Final

import msgspec

from ithaca.model.decoding import UNDECODABLE
from ithaca.model.errors import Corrupt, FormatTooNew, WrongObject
from ithaca.wire.batch import crc32c

MAGIC: Final = 0x53485449
VERSION: Final = 1
_LEAD = struct.Struct("<IIII")


class Head(msgspec.Struct, frozen=True, gc=False):
    """Of which object, and how far it had come."""

    object: str
    kind: str
    version: int
    position: int
    """Everything below was applied."""
    count: int
    """Commands that were applied since the beginning."""
    time_us: int
    next_check: int
    """The count at which the next check is due."""

    @classmethod
    def from_bytes(cls, data: bytes) -> "Head":
        try:
            return msgspec.msgpack.decode(data, type=cls)
        except UNDECODABLE as error:
            raise Corrupt(f"how far a state has come cannot be decoded: {error}") from error


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A state, and what goes with it."""

    head: Head
    state: bytes

    def to_bytes(self, *, version: int = VERSION) -> bytes:
        """Another `version` than ours makes a snapshot from the future, for tests."""
        head = msgspec.msgpack.encode(self.head)
        rest = struct.pack("<II", version, len(head)) + head + self.state
        return struct.pack("<II", MAGIC, crc32c(rest)) + rest

    @classmethod
    def from_bytes(cls, data: bytes, where: str) -> "Snapshot":
        """`Corrupt` unless every byte is as it was written; `where` names it."""
        if len(data) < _LEAD.size:
            raise Corrupt("the snapshot is cut short: delete it to start from an older one", file=where)
        magic, crc, version, head_bytes = _LEAD.unpack_from(data)
        if magic != MAGIC or crc != crc32c(data[8:]) or _LEAD.size + head_bytes > len(data):
            raise Corrupt(
                "the checksum of the snapshot does not match: delete it to start from an older one", file=where
            )
        if version > VERSION:
            raise FormatTooNew(
                f"{where} has format version {version}, and this Ithaca knows {VERSION}: use a newer Ithaca",
                found=version,
                supported=VERSION,
            )
        try:
            head = msgspec.msgpack.decode(data[_LEAD.size : _LEAD.size + head_bytes], type=Head)
        except UNDECODABLE as error:
            raise Corrupt(f"the head of the snapshot cannot be decoded: {error}", file=where) from error
        return cls(head, data[_LEAD.size + head_bytes :])

    def check_of(self, name: str, kind: str, where: str) -> None:
        """Refuse the snapshot of something else."""
        if self.head.object != name or self.head.kind != kind:
            raise WrongObject(
                f"{where} is a snapshot of {self.head.object!r}, a {self.head.kind}, and not of {name!r}, a {kind}: "
                "give each object a directory of its own"
            )
