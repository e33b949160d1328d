"""A disk in memory that keeps only what was synced: the port of `storage.disk` for simulations and tests.

What the process sees and what survives are two different things:

- Contents. A write changes what is visible. `File.sync` makes the pages written since the last sync, and
  the size, durable. At `crash` each sector written since then holds, independently of the others, what it
  held at some moment since the last sync; so does the size. That covers lost, reordered and torn writes.
- Names. Creating, renaming and removing a file are durable after `sync_directory` of the directory that holds
  the name; making a directory includes that. At `crash` some prefix of a directory's unsynced changes survives, as
  in a journalling file system; a rename is one change. A directory that is lost takes its files along. What was
  changed inside a directory before it was renamed counts as durable with it.
- A failed sync. As in the kernel, its pages count as clean from then on: they stay visible, they are not
  durable, and later syncs succeed without writing them again (unless the same page is written again).

`kill` is the death of the process alone: the page cache stays, handles are gone. A handle from before a
`kill` or `crash` raises `StaleHandle`. Renames between directories are refused; nothing here does that.
"""

import errno
import os
import posixpath
from collections.abc import Callable, Iterable, Sequence
from random import Random

from ithaca.model.records import Buffer
from ithaca.sim.inode import Inode, Tear

__all__ = ["PowerLoss", "SimDisk", "SimFile", "StaleHandle", "Tear"]

_ENDLESS = 1 << 60
_Change = Callable[[dict[str, Inode]], None]  # one atomic change of a directory's names


class StaleHandle(Exception):
    """A file was used after the process that opened it died."""


class PowerLoss(Exception):
    """The operation that `SimDisk.power_fails_after` chose was reached; nothing works until `crash`."""


class SimFile:
    """An open file of a `SimDisk`."""

    __slots__ = ("_boot", "_disk", "_inode", "_writable", "path")

    def __init__(self, disk: "SimDisk", path: str, inode: Inode, writable: bool) -> None:
        self.path = path
        self._disk = disk
        self._inode = inode
        self._writable = writable
        self._boot = disk.boot

    def read(self, offset: int, count: int) -> bytes:
        self._check(writing=False)
        return bytes(self._inode.current[offset : offset + count])

    def is_resident(self, offset: int, count: int) -> bool:
        """Whatever there is; what has to be read from a disk is simulated where nothing was read before."""
        return True

    def write(self, offset: int, buffers: Sequence[Buffer]) -> None:
        self._check(writing=True)
        data = b"".join(buffers)
        end = self._disk.grow(len(self._inode.current), offset + len(data))
        if end > offset and data:  # what fits is written, as a kernel does before it reports ENOSPC
            self._inode.perform((offset, data[: end - offset]))
        if end < offset + len(data):
            raise self._disk.no_space(self.path)

    def write_durably(self, offset: int, buffers: Sequence[Buffer]) -> None:
        self.write(offset, buffers)
        self.sync()

    def sync(self) -> None:
        self._check(writing=False)
        self._disk.tick()
        if self._disk.take_sync_failure(self._inode):
            self._inode.fail_sync()
            raise _error(errno.EIO, self.path)
        self._inode.sync()

    def mapped(self, count: int) -> "SimMapped":
        assert count <= self.size()
        return SimMapped(self)

    def size(self) -> int:
        self._check(writing=False)
        return len(self._inode.current)

    def truncate(self, size: int) -> None:
        self._check(writing=True)
        self._inode.perform(size)

    def allocate(self, offset: int, count: int) -> None:
        self._check(writing=True)
        current = len(self._inode.current)
        if self._disk.grow(current, offset + count) < offset + count:
            raise self._disk.no_space(self.path)
        if offset + count > current:
            self._inode.perform(offset + count)

    def _check(self, *, writing: bool) -> None:
        if self._boot != self._disk.boot:
            raise StaleHandle(f"{self.path} was opened before the last kill or crash")
        if writing:
            if not self._writable:
                raise _error(errno.EBADF, self.path)
            self._disk.tick()


class SimMapped:
    """Bytes of a file that are changed in place."""

    def __init__(self, file: SimFile) -> None:
        self._file = file

    def __setitem__(self, where: slice, data: bytes) -> None:
        self._file.write(where.start or 0, [data])


class SimDisk:
    """Files in memory; see the module's docstring for what survives.

    >>> disk = SimDisk()
    >>> file = disk.open("/a", create=True)
    >>> file.write(0, [b"kept"]); file.sync(); disk.sync_directory("/")
    >>> file.write(0, [b"lost"]); disk.crash(Random(2))
    >>> disk.open("/a").read(0, 9)
    b'kept'
    """

    def __init__(self, *, capacity_bytes: int | None = None) -> None:
        self.capacity_bytes = capacity_bytes
        """Sizes of all files together; None for no bound. May be changed at any time."""
        self.lacked_space = False
        """Whether something was refused because there was no space."""
        self.lacks_descriptors = False
        """Whether no file can be opened now."""
        self.lacked_descriptors = False
        """Whether some file could not be opened for that."""
        self.boot = 0
        """Counts kills and crashes; handles of an earlier boot are stale."""
        self.operations = 0
        """Writes, truncations, allocations, syncs and changes of names so far: points to crash at."""
        self._names: dict[str, Inode] = {}
        self._durable_names: dict[str, Inode] = {}
        self._changes: dict[str, list[_Change]] = {}  # unsynced, by directory
        self._fail_sync: str | None = None
        self._power_fails_at: int | None = None

    # The port.

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> SimFile:
        name = _normal(path)
        if self.lacks_descriptors:
            self.lacked_descriptors = True
            raise _error(errno.EMFILE, name)
        if create and name not in self._names:
            self._change(name, _link(name, Inode()))
        return SimFile(self, name, self._file(name), writable)

    def exists(self, path: str) -> bool:
        name = _normal(path)
        return name in self._names or _is_root(name)

    def list(self, directory: str) -> list[str]:
        name = _normal(directory)
        return sorted(posixpath.basename(path) for path in self._names if _parent(path) == name)

    def make_directory(self, directory: str) -> None:
        name = _normal(directory)
        if _is_root(name):
            return
        found = self._names.get(name)
        if found is None:
            self.make_directory(_parent(name))
            self._change(name, _link(name, Inode(is_directory=True)))
        elif not found.is_directory:
            raise _error(errno.EEXIST, directory)
        self.sync_directory(_parent(name))

    def rename(self, old: str, new: str) -> None:
        source, target = _normal(old), _normal(new)
        if _parent(source) != _parent(target):
            raise _error(errno.EXDEV, new)
        inode = self._names.get(source)
        if inode is not None and inode.is_directory:
            self._rename_directory(source, target)
        else:
            self._change(source, _move(source, target, self._file(source)))

    def _rename_directory(self, source: str, target: str) -> None:
        if target in self._names:
            raise _error(errno.EEXIST, target)
        within = [name for name in self._changes if name == source or name.startswith(f"{source}/")]
        for change in [change for name in within for change in self._changes.pop(name)]:
            change(self._durable_names)
        self._change(source, _move_all(source, target))

    def remove(self, path: str) -> None:
        name = _normal(path)
        self._file(name)
        self._change(name, _unlink(name))

    def remove_directory(self, directory: str) -> None:
        name = _normal(directory)
        found = self._names.get(name)
        if found is None or not found.is_directory:
            raise _error(errno.ENOENT if found is None else errno.ENOTDIR, directory)
        if self.list(name):
            raise _error(errno.ENOTEMPTY, directory)
        self._change(name, _unlink(name))

    def sync_directory(self, directory: str) -> None:
        name = _normal(directory)
        if not self.exists(name):
            raise _error(errno.ENOENT, directory)
        self.tick()
        failed = self.take_sync_failure(self._names.get(name))
        for change in self._changes.pop(name, ()):
            if not failed:
                change(self._durable_names)
        if failed:
            raise _error(errno.EIO, directory)

    # What is there.

    @property
    def used_bytes(self) -> int:
        """Sizes of all files together."""
        return sum(len(inode.current) for inode in self._names.values())

    def space(self, directory: str) -> tuple[int, int]:
        return self.used_bytes, _ENDLESS if self.capacity_bytes is None else self.capacity_bytes

    @property
    def will_fail_sync(self) -> bool:
        """Whether `fail_next_sync` has not befallen a sync yet."""
        return self._fail_sync is not None

    def files(self) -> Sequence[str]:
        """The paths of all files, sorted."""
        return sorted(name for name, inode in self._names.items() if not inode.is_directory)

    def content(self, path: str) -> bytes:
        """What a file has, for those who look from outside."""
        file = SimFile(self, path, self._file(_normal(path)), writable=False)
        return file.read(0, file.size())

    # Faults.

    def crash(self, random: Random, *, tear: Tear = "sector") -> None:
        """Lose power: afterwards the disk holds one of the states that the last syncs allow."""
        names = self._surviving_names(random)
        for name in sorted(names):
            names[name].lose_power(random, tear)
        self._durable_names = names
        self._names = dict(names)
        self._changes = {}
        self.kill()

    def image(self, random: Random) -> "SimDisk":
        """Another disk, with what this one would hold if the power failed now; this one goes on."""
        image = SimDisk()
        for name, inode in sorted(self._surviving_names(random).items()):
            copy = inode.copy()
            copy.lose_power(random, "sector")
            image._names[name] = image._durable_names[name] = copy
        return image

    def _surviving_names(self, random: Random) -> dict[str, Inode]:
        names = dict(self._durable_names)
        for directory in sorted(self._changes):
            changes = self._changes[directory]
            for change in changes[: random.randint(0, len(changes))]:
                change(names)
        return {name: inode for name, inode in names.items() if self._reachable(name, names)}

    def kill(self) -> None:
        """End the process: handles are gone, everything it wrote is still there, synced or not."""
        self.boot += 1
        self._fail_sync = None
        self._power_fails_at = None

    def power_fails_after(self, operations: int) -> None:
        """Raise `PowerLoss` from the operation after the next `operations` ones on, until `crash`."""
        self._power_fails_at = self.operations + operations

    def fail_next_sync(self, path: str = "") -> None:
        """The next sync of this file or directory, by default of any, fails with EIO."""
        self._fail_sync = _normal(path) if path else ""

    def fail_no_sync(self) -> None:
        """Call off `fail_next_sync`."""
        self._fail_sync = None

    def flip_bit(self, path: str, offset: int, bit: int = 0) -> None:
        """Damage a byte, visibly and for good."""
        inode = self._names[_normal(path)]
        layers = {id(layer): layer for layer in (inode.current, inode.base, inode.durable)}
        for layer in layers.values():
            if offset < len(layer):
                layer[offset] ^= 1 << bit

    # For `SimFile`.

    def no_space(self, path: str) -> OSError:
        self.lacked_space = True
        return _error(errno.ENOSPC, path)

    def tick(self) -> None:
        if self._power_fails_at is not None and self.operations >= self._power_fails_at:
            raise PowerLoss(f"after {self.operations} operations")
        self.operations += 1

    def take_sync_failure(self, inode: Inode | None) -> bool:
        """Whether this sync is the one to fail; the roots of the two name spaces have no inode."""
        if self._fail_sync is None:
            return False
        if self._fail_sync and self._names.get(self._fail_sync) is not inode:
            return False
        self._fail_sync = None
        return True

    def grow(self, size: int, wanted: int) -> int:
        """How large a file of `size` bytes that wants to reach `wanted` may become."""
        if self.capacity_bytes is None or wanted <= size:
            return wanted
        return min(wanted, size + max(0, self.capacity_bytes - self.used_bytes))

    def _file(self, name: str) -> Inode:
        inode = self._names.get(name)
        if inode is None:
            raise _error(errno.ENOENT, name)
        if inode.is_directory:
            raise _error(errno.EISDIR, name)
        return inode

    def _change(self, name: str, change: _Change) -> None:
        directory = _parent(name)
        if not self.exists(directory):
            raise _error(errno.ENOENT, name)
        self.tick()
        change(self._names)
        self._changes.setdefault(directory, []).append(change)

    def _reachable(self, name: str, names: Iterable[str]) -> bool:
        parent = _parent(name)
        return _is_root(parent) or (parent in names and self._reachable(parent, names))


def _link(name: str, inode: Inode) -> _Change:
    def change(names: dict[str, Inode]) -> None:
        names[name] = inode

    return change


def _unlink(name: str) -> _Change:
    def change(names: dict[str, Inode]) -> None:
        names.pop(name, None)

    return change


def _move(source: str, target: str, inode: Inode) -> _Change:
    def change(names: dict[str, Inode]) -> None:
        names.pop(source, None)
        names[target] = inode

    return change


def _move_all(source: str, target: str) -> _Change:
    """Of a directory, with all that is in it."""

    def change(names: dict[str, Inode]) -> None:
        for name in [name for name in names if name == source or name.startswith(f"{source}/")]:
            names[target + name.removeprefix(source)] = names.pop(name)

    return change


def _normal(path: str) -> str:
    return posixpath.normpath(path)


def _parent(name: str) -> str:
    return posixpath.dirname(name) or "."


def _is_root(name: str) -> bool:
    return name in ("/", "//", ".")


def _error(code: int, path: str) -> OSError:
    return OSError(code, os.strerror(code), path)
