"""Small files that are replaced as a whole: a lane's `meta`, a log's `meta`.

```
 0 magic u32 "ITHM" | 4 crc u32: CRC32C over bytes 8..end | 8 version u32 | 12 body_bytes u32
16 body: msgpack
```
"""

import struct
from typing import Final, TypeVar

import msgspec

from ithaca.model.decoding import UNDECODABLE
from ithaca.model.errors import Corrupt, FormatTooNew
from ithaca.storage.disk import Disk
from ithaca.wire.batch import crc32c

MAGIC: Final = 0x4D485449
VERSION: Final = 1
_HEAD = struct.Struct("<IIII")
_BYTES_MAX: Final = 1 << 24

T = TypeVar("T")


def encode(body: bytes, *, version: int = VERSION) -> bytes:
    """The bytes of the file; another `version` than ours makes a file from the future, for tests."""
    rest = struct.pack("<II", version, len(body)) + body
    return struct.pack("<II", MAGIC, crc32c(rest)) + rest


def replace(disk: Disk, directory: str, name: str, body: bytes) -> None:
    """Write the file beside the old one, sync, and rename: a reader finds the old or the new."""
    path = f"{directory}/{name}"
    data = encode(body)
    file = disk.open(path + ".new", create=True)
    file.truncate(0)
    file.write(0, [data])
    file.sync()
    disk.rename(path + ".new", path)
    disk.sync_directory(directory)


def load_value(disk: Disk, path: str, kind: type[T]) -> T:
    """What the file says; raises `Corrupt` or `FormatTooNew`."""
    try:
        return msgspec.msgpack.decode(load(disk, path), type=kind)
    except UNDECODABLE as error:
        raise Corrupt(f"cannot be decoded: {error}", file=path) from error


def load(disk: Disk, path: str) -> bytes:
    """The body of the file; raises `Corrupt` or `FormatTooNew`."""
    data = disk.open(path, writable=False).read(0, _BYTES_MAX)
    if len(data) < _HEAD.size:
        raise Corrupt("the file is cut short", file=path, offset=len(data))
    magic, crc, version, body_bytes = _HEAD.unpack_from(data)
    if magic != MAGIC or crc != crc32c(data[8:]) or body_bytes != len(data) - _HEAD.size:
        raise Corrupt("the checksum does not match", file=path, offset=0)
    if version > VERSION:
        raise FormatTooNew(
            f"{path} has format version {version}, and this Ithaca knows {VERSION}: use a newer Ithaca",
            found=version,
            supported=VERSION,
        )
    return data[_HEAD.size :]
