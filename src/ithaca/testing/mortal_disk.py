"""A disk that a server can be cut off from, as if its process had been killed.

What was written before is there, synced or not, as after a kill; nothing is written any more after. So the
clean stop that has to follow within one process changes nothing on the disk.
"""

import errno
import os
from collections.abc import Sequence

from ithaca.model.records import Buffer
from ithaca.storage import directory_lock
from ithaca.storage.disk import Mapped, OsDisk, OsFile


class MortalDisk(OsDisk):
    """The operating system's files, until `cut_off`."""

    def __init__(self) -> None:
        self.is_cut_off = False
        self._locks: list[OsFile] = []

    def cut_off(self) -> None:
        """Nothing is written from here on."""
        self.is_cut_off = True

    def unlock(self) -> None:
        """Let go of directories, as the end of a process does, even if the server's stop did not come so far."""
        for lock in self._locks:
            lock.close()

    def check(self) -> None:
        if self.is_cut_off:
            raise OSError(errno.EIO, "the server was killed")

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> OsFile:
        if create:
            self.check()
        flags = os.O_RDWR if writable else os.O_RDONLY
        file = _MortalFile(self, path, flags | (os.O_CREAT if create else 0))
        if os.path.basename(path) == directory_lock.NAME:
            self._locks.append(file)
        return file

    def make_directory(self, directory: str) -> None:
        self.check()
        super().make_directory(directory)

    def rename(self, old: str, new: str) -> None:
        self.check()
        super().rename(old, new)

    def remove(self, path: str) -> None:
        self.check()
        super().remove(path)

    def remove_directory(self, directory: str) -> None:
        self.check()
        super().remove_directory(directory)

    def sync_directory(self, directory: str) -> None:
        self.check()
        super().sync_directory(directory)


class _MortalFile(OsFile):
    __slots__ = ("_disk",)

    def __init__(self, disk: MortalDisk, path: str, flags: int) -> None:
        self._disk = disk
        super().__init__(path, flags)

    def write(self, offset: int, buffers: Sequence[Buffer]) -> None:
        self._disk.check()
        super().write(offset, buffers)

    def write_durably(self, offset: int, buffers: Sequence[Buffer]) -> None:
        self._disk.check()
        super().write_durably(offset, buffers)

    def sync(self) -> None:
        self._disk.check()
        super().sync()

    def mapped(self, count: int) -> Mapped:
        self._disk.check()
        return super().mapped(count)

    def truncate(self, size: int) -> None:
        self._disk.check()
        super().truncate(size)

    def allocate(self, offset: int, count: int) -> None:
        self._disk.check()
        super().allocate(offset, count)
