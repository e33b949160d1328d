"""A copy of a few files in memory, for readers that repair what they read: nothing reaches the disk.

It makes and renames files inside its one directory, and nothing else, because the `runs` of a lane need no more.
"""

import errno
from collections.abc import Iterable, Sequence

from ithaca.model.records import Buffer
from ithaca.storage.disk import Disk


class PrivateFile:
    """A file in memory; it is as durable as it ever gets."""

    def __init__(self, path: str, data: bytes = b"") -> None:
        self.path = path
        self._data = bytearray(data)

    def read(self, offset: int, count: int) -> bytes:
        return bytes(self._data[offset : offset + count])

    def is_resident(self, offset: int, count: int) -> bool:
        return True

    def write(self, offset: int, buffers: Sequence[Buffer]) -> None:
        data = b"".join(buffers)
        self._data.extend(bytes(max(0, offset - len(self._data))))
        self._data[offset : offset + len(data)] = data

    def write_durably(self, offset: int, buffers: Sequence[Buffer]) -> None:
        self.write(offset, buffers)

    def sync(self) -> None:
        """Nothing to be done."""

    def mapped(self, count: int) -> bytearray:
        assert count <= len(self._data)
        return self._data

    def size(self) -> int:
        return len(self._data)

    def truncate(self, size: int) -> None:
        self.write(len(self._data), [bytes(max(0, size - len(self._data)))])
        del self._data[size:]

    def allocate(self, offset: int, count: int) -> None:
        self.truncate(max(len(self._data), offset + count))


class PrivateCopy:
    """The disk that holds the copies, by the paths of the originals."""

    def __init__(self, disk: Disk, paths: Iterable[str]) -> None:
        """Copy those of the files that exist."""
        self._files: dict[str, PrivateFile] = {}
        for path in paths:
            if disk.exists(path):
                file = disk.open(path, writable=False)
                self._files[path] = PrivateFile(path, file.read(0, file.size()))

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> PrivateFile:
        if create:
            self._files.setdefault(path, PrivateFile(path))
        return self._files[self._known(path)]

    def exists(self, path: str) -> bool:
        return path in self._files

    def list(self, directory: str) -> list[str]:
        return sorted(path.removeprefix(f"{directory}/") for path in self._files)

    def make_directory(self, directory: str) -> None:
        raise OSError(errno.EROFS, "only files are copied", directory)

    def rename(self, old: str, new: str) -> None:
        self._files[new] = self._files.pop(self._known(old))

    def remove(self, path: str) -> None:
        del self._files[self._known(path)]

    def remove_directory(self, directory: str) -> None:
        raise OSError(errno.EROFS, "only files are copied", directory)

    def sync_directory(self, directory: str) -> None:
        """Nothing to be done."""

    def space(self, directory: str) -> tuple[int, int]:
        """Its files are in memory, of which nothing is said."""
        return 0, 0

    def _known(self, path: str) -> str:
        if path not in self._files:
            raise FileNotFoundError(errno.ENOENT, "no such file was copied", path)
        return path
