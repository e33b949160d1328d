"""The disk port: the few operations that storage needs, so that a simulated disk can stand in.

Only `File.sync` (contents) and `Disk.sync_directory` (names) make anything durable. Errors are `OSError`s,
untranslated: what they mean is decided above, where it is known what was at stake.
"""

import errno
import fcntl
import mmap
import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

from ithaca.model.limits import IOV_MAX
from ithaca.model.records import Buffer
from ithaca.storage.residence import is_resident

NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)
"""What opening a file fails with when this process, or the machine, has too many open: nothing was done, and later it
works."""

_PAGE_BYTES = mmap.PAGESIZE
_ZEROS = memoryview(bytes(_PAGE_BYTES))


class Mapped(Protocol):
    """Bytes of a file that are changed in place."""

    def __setitem__(self, where: slice, data: bytes, /) -> None: ...


class File(Protocol):
    """An open file. It is closed when the last reference goes, so a reader never loses it midway."""

    path: str

    def read(self, offset: int, count: int) -> bytes:
        """Up to `count` bytes at `offset`; fewer only at the end of the file."""

    def is_resident(self, offset: int, count: int) -> bool:
        """Whether reading them seems not to wait for a disk."""

    def write(self, offset: int, buffers: Sequence[Buffer]) -> None:
        """Write all buffers, one after the other, at `offset`."""

    def write_durably(self, offset: int, buffers: Sequence[Buffer]) -> None:
        """Write all buffers and make them durable, in one step where there is one.

        What was written before stays as durable as it was. Unless the disk is full, an error is a failed sync.
        """

    def sync(self) -> None:
        """Make contents and size durable. A failure must never be retried."""

    def mapped(self, count: int) -> Mapped:
        """The first `count` bytes, which must be there, to be written without a system call. Never for reading:
        a mapping turns read errors into signals."""

    def size(self) -> int: ...

    def truncate(self, size: int) -> None: ...

    def allocate(self, offset: int, count: int) -> None:
        """Reserve space, growing the file; what is reserved reads as zeros."""


class Disk(Protocol):
    """Files by path. Directories are made with mode 0700."""

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> File:
        """Open a file for reading and, unless told otherwise, writing; `create` makes it if missing."""

    def exists(self, path: str) -> bool: ...

    def list(self, directory: str) -> list[str]:
        """The names in a directory, sorted; empty when it does not exist."""

    def make_directory(self, directory: str) -> None:
        """Make it and its parents, unless they exist; its name is durable either way."""

    def rename(self, old: str, new: str) -> None: ...

    def remove(self, path: str) -> None: ...

    def remove_directory(self, directory: str) -> None:
        """Remove a directory that is empty."""

    def sync_directory(self, directory: str) -> None:
        """Make the names in the directory durable."""

    def space(self, directory: str) -> tuple[int, int]:
        """How many bytes of the directory's file system cannot be had any more, and how many there are."""


class OsFile:
    """A descriptor; positioned reads and writes only, so it can be shared between threads."""

    __slots__ = ("_fd", "path")

    def __init__(self, path: str, flags: int) -> None:
        self._fd = -1
        self.path = path
        self._fd = os.open(path, flags | os.O_CLOEXEC, 0o600)

    def read(self, offset: int, count: int) -> bytes:
        data = os.pread(self._fd, count, offset)
        if len(data) == count or not data:
            return data
        parts = [data]
        got = len(data)
        while got < count:
            data = os.pread(self._fd, count - got, offset + got)
            if not data:
                break
            parts.append(data)
            got += len(data)
        return b"".join(parts)

    def is_resident(self, offset: int, count: int) -> bool:
        return is_resident(self._fd, offset, count)

    def write(self, offset: int, buffers: Sequence[Buffer]) -> None:
        if len(buffers) > IOV_MAX:
            for first in range(0, len(buffers), IOV_MAX):
                part = buffers[first : first + IOV_MAX]
                self.write(offset, part)
                offset += sum(map(len, part))
            return
        total = sum(map(len, buffers))
        done = os.pwritev(self._fd, buffers, offset)
        while done < total:  # a short write: go on behind it
            rest, skip = [], done
            for buffer in buffers:
                if skip < len(buffer):
                    rest.append(memoryview(buffer)[skip:])
                skip = max(0, skip - len(buffer))
            done += os.pwritev(self._fd, rest, offset + done)

    def write_durably(self, offset: int, buffers: Sequence[Buffer]) -> None:
        if len(buffers) <= IOV_MAX:
            try:
                # One system call instead of two: a fifth to a third less time for a small group.
                if os.pwritev(self._fd, buffers, offset, os.RWF_DSYNC) == sum(map(len, buffers)):
                    return
            except OSError as error:
                if error.errno != errno.EOPNOTSUPP:
                    raise
        self.write(offset, buffers)
        self.sync()

    def sync(self) -> None:
        os.fdatasync(self._fd)

    def mapped(self, count: int) -> Mapped:
        return mmap.mmap(self._fd, count)

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def allocate(self, offset: int, count: int) -> None:
        os.posix_fallocate(self._fd, offset, count)

    def try_lock(self) -> bool:
        """Take the file's advisory lock for as long as it is open; False when another holder has it."""
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        """Let go at once; for files that no other thread can be reading."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        self.close()


class OsDisk:
    """The operating system's files."""

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> OsFile:
        flags = os.O_RDWR if writable else os.O_RDONLY
        return OsFile(path, flags | (os.O_CREAT if create else 0))

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def list(self, directory: str) -> list[str]:
        try:
            return sorted(os.listdir(directory))
        except FileNotFoundError:
            return []

    def make_directory(self, directory: str) -> None:
        parent = os.path.dirname(os.path.abspath(directory))
        if os.path.isdir(directory):
            # Whoever made it may have been killed before this. A parent that cannot be read was made by others.
            with suppress(PermissionError):
                self.sync_directory(parent)
            return
        self.make_directory(parent)
        os.mkdir(directory, 0o700)
        self.sync_directory(parent)

    def rename(self, old: str, new: str) -> None:
        os.rename(old, new)

    def remove(self, path: str) -> None:
        os.unlink(path)

    def remove_directory(self, directory: str) -> None:
        os.rmdir(directory)

    def space(self, directory: str) -> tuple[int, int]:
        found = os.statvfs(directory)
        return (found.f_blocks - found.f_bavail) * found.f_frsize, found.f_blocks * found.f_frsize

    def sync_directory(self, directory: str) -> None:
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def write_zeros(file: File, start: int, stop: int) -> None:
    """Write zeros a page at a time: what is written in one piece the kernel holds, and takes for dirty, as one."""
    while start < stop:
        end = min(stop, (start // _PAGE_BYTES + 1) * _PAGE_BYTES)
        file.write(start, [_ZEROS[: end - start]])
        start = end
