"""The `synced` file: how far a live writer has got, for followers in other processes.

```
 0 magic u32 "ITHS" | 4 crc u32: CRC32C over bytes 8..56
 8 version u32 | 12 zero u32 | 16 length u64: records that followers may read
24 trim u64: first LSN that can be read | 32 segment u64: first LSN of the segment being written
40 synced_offset u64: bytes of that segment known to be synced | 48 synced_length u64: records in them
```

It is written over in place after each commit and never synced: it lives in the page cache, where the
followers read it. What it says was true when it was said, so recovery takes it as a lower bound of what
must be there, which turns damage to the last synced group into `Corrupt` instead of a shorter log.
"""

import struct
from typing import NamedTuple

from ithaca.storage.disk import Disk, File
from ithaca.wire.batch import crc32c

NAME = "synced"
_MAGIC = 0x53485449
_VERSION = 1
_SAID = struct.Struct("<IIQQQQQ")
_TOTAL = 8 + _SAID.size


class Progress(NamedTuple):
    """How far the writer has got."""

    length: int
    trim: int
    segment: int
    synced_offset: int
    synced_length: int


class ProgressFile:
    """The file, kept open."""

    def __init__(self, disk: Disk, directory: str, *, writable: bool) -> None:
        self._file: File = disk.open(f"{directory}/{NAME}", create=writable, writable=writable)

    def store(self, progress: Progress) -> None:
        said = _SAID.pack(_VERSION, 0, *progress)
        self._file.write(0, [struct.pack("<II", _MAGIC, crc32c(said)) + said])

    def load(self) -> Progress | None:
        """None when the file says nothing that checks out; a reader that raced the writer asks again."""
        data = self._file.read(0, _TOTAL)
        if len(data) < _TOTAL:
            return None
        magic, crc = struct.unpack_from("<II", data)
        said = data[8:]
        if magic != _MAGIC or crc != crc32c(said):
            return None
        version, _, *fields = _SAID.unpack(said)
        return Progress(*fields) if version == _VERSION else None
