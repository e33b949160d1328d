"""The disks of all simulated servers, as a reader on the same machine sees them: by path, and only to read.

Each read opens its file again: a server that was killed, or whose disk was lost or replaced, takes nothing along but
what it took along on its disk.
"""

import errno
from collections.abc import Callable, Sequence

from ithaca.model.records import Buffer
from ithaca.sim.disk import SimDisk
from ithaca.storage.disk import File, Mapped

DiskOf = Callable[[str], SimDisk]
"""The disk of the host that has this name, the first part of all its paths."""


class NeighbourFile:
    """A file of another process."""

    def __init__(self, neighbours: "Neighbours", path: str) -> None:
        self.path = path
        self._neighbours = neighbours

    def _file(self) -> File:
        return self._neighbours.file(self.path)

    def read(self, offset: int, count: int) -> bytes:
        return self._file().read(offset, count)

    def is_resident(self, offset: int, count: int) -> bool:
        return self._file().is_resident(offset, count)

    def size(self) -> int:
        return self._file().size()

    def mapped(self, count: int) -> Mapped:
        raise _read_only(self.path)

    def write(self, offset: int, buffers: Sequence[Buffer]) -> None:
        raise _read_only(self.path)

    def write_durably(self, offset: int, buffers: Sequence[Buffer]) -> None:
        raise _read_only(self.path)

    def sync(self) -> None:
        raise _read_only(self.path)

    def truncate(self, size: int) -> None:
        raise _read_only(self.path)

    def allocate(self, offset: int, count: int) -> None:
        raise _read_only(self.path)


class Neighbours:
    """The disk port over the disks of all hosts."""

    def __init__(self, disk_of: DiskOf) -> None:
        self._disk_of = disk_of
        self.looks_left: int | None = None
        """So often files can still be looked at; None: as often as one likes."""

    def file(self, path: str) -> File:
        """As it is now."""
        if self.looks_left is not None:
            if not self.looks_left:
                raise OSError(errno.EIO, "it cannot be reached any more", path)
            self.looks_left -= 1
        return _disk(self._disk_of, path).open(path, writable=False)

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> NeighbourFile:
        if create or writable or not self.exists(path):
            raise _read_only(path) if create or writable else OSError(errno.ENOENT, "no such file", path)
        return NeighbourFile(self, path)

    def exists(self, path: str) -> bool:
        return _disk(self._disk_of, path).exists(path)

    def list(self, directory: str) -> list[str]:
        return _disk(self._disk_of, directory).list(directory)

    def make_directory(self, directory: str) -> None:
        raise _read_only(directory)

    def rename(self, old: str, new: str) -> None:
        raise _read_only(old)

    def remove(self, path: str) -> None:
        raise _read_only(path)

    def remove_directory(self, directory: str) -> None:
        raise _read_only(directory)

    def sync_directory(self, directory: str) -> None:
        raise _read_only(directory)

    def space(self, directory: str) -> tuple[int, int]:
        return _disk(self._disk_of, directory).space(directory)


def _disk(disk_of: DiskOf, path: str) -> SimDisk:
    return disk_of(path.split("/")[1])


def _read_only(path: str) -> OSError:
    return OSError(errno.EROFS, "it belongs to another process", path)
