"""The `synced` file: how far a live writer has got, for followers in other processes.

```
 0 magic u32 "ITHS" | 4 crc u32: CRC32C over bytes 8..56
 8 version u32 | 12 zero u32 | 16 length u64: records that followers may read
24 trim u64: first LSN that can be read | 32 segment u64: first LSN of the segment being written
40 synced_offset u64: bytes of that segment known to be synced | 48 synced_length u64: records in them
```

It is written over in place after each commit and not synced: it lives in the page cache, where the
followers read it. What it says was true when it was said, so recovery takes it as a lower bound of what
must be there, which turns damage to the last synced group into `Corrupt` instead of a shorter log. Only
when a segment is about to be replaced by one of the same name is it synced, saying nothing of offsets:
after a power loss an older version of it must not be taken for a word about the new file.
"""

import struct
from typing import NamedTuple

from ithaca.storage.disk import Disk, File, Mapped
from ithaca.wire.batch import crc32c

NAME = "synced"
_MAGIC = 0x53485449
_VERSION = 1
_SAID = struct.Struct("<IIQQQQQ")
_SEAL = struct.Struct("<II")
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
        self._disk = disk
        self._path = f"{directory}/{NAME}"
        self._file: File | None = disk.open(self._path, create=True) if writable else None
        self._mapped: Mapped | None = None

    def store(self, progress: Progress, *, durably: bool = False) -> None:
        assert self._file is not None
        head = _SAID.pack(_VERSION, 0, *progress)
        data = _SEAL.pack(_MAGIC, crc32c(head)) + head
        if self._mapped is None:
            self._file.write(0, [data])  # takes the space, or says that there is none
            self._mapped = self._file.mapped(_TOTAL)
        else:
            self._mapped[0:_TOTAL] = data
        if durably:
            self._file.sync()

    def load(self) -> Progress | None:
        """None when the file says nothing that checks out; a reader that raced the writer asks again."""
        if self._file is None:
            try:
                self._file = self._disk.open(self._path, writable=False)
            except FileNotFoundError:  # a power loss may take the name; the next writer makes the file again
                return None
        data = self._file.read(0, _TOTAL)
        if len(data) < _TOTAL:
            return None
        magic, crc = _SEAL.unpack_from(data)
        head = data[8:]
        if magic != _MAGIC or crc != crc32c(head):
            return None
        version, _, *fields = _SAID.unpack(head)
        return Progress(*fields) if version == _VERSION else None
