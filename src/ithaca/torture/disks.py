"""Disks that can fill up and lose power: ext4 in a file, mounted through a loop device, one per server.

Power is lost by an ioctl of ext4 that xfstests use for the same purpose: from one instant on nothing is written any
more, neither data nor the journal, and the next mount replays the journal as after a crash. What was written and not
synced is gone as far as the kernel had not written it back. A cache inside the device is not modelled.

The mounts are in a mount namespace of their own (`private_mounts`), which the kernel takes down with the last process
in it, mounts and loop devices included.
"""

import ctypes
import fcntl
import os
import shutil
import struct
import subprocess
import time
from pathlib import Path
from tempfile import TemporaryDirectory

IMAGE_BYTES = 4 << 30
"""Of one disk; the file is sparse."""
MOUNT = "disk"
SERVER = "server"
_BALLAST = "ballast"
_FREE_BYTES_MIN = 4096
_CLONE_NEWNS = 0x00020000
_MS_REC, _MS_PRIVATE = 0x4000, 1 << 18
_EXT4_IOC_SHUTDOWN = 0x8004587D
_NOTHING_MORE = struct.pack("I", 2)
"""Neither the log nor data is flushed."""
BUSY_S = 10.0
"""How long a disk may be busy after whoever used it was killed."""


class LoopDisk:
    """The disk of one server, in a directory."""

    def __init__(self, directory: Path, size_bytes: int = IMAGE_BYTES) -> None:
        self._image = directory / "image"
        self._mount = directory / MOUNT
        self._size_bytes = size_bytes

    @property
    def server(self) -> Path:
        """Where the server keeps its data."""
        return self._mount / SERVER

    def make(self) -> None:
        """Make a new file system and mount it."""
        self._mount.mkdir(parents=True)
        with self._image.open("wb") as file:
            file.truncate(self._size_bytes)
        _run("mkfs.ext4", "-q", "-m", "0", "-E", "lazy_itable_init=1,nodiscard", str(self._image))
        self.mount()

    def mount(self) -> None:
        _run("mount", "-o", "loop", str(self._image), str(self._mount))

    def unmount(self) -> None:
        """Threads of a process that was killed may have files of it open for a moment yet: that is waited for."""
        deadline = time.monotonic() + BUSY_S
        while True:
            try:
                _run("umount", str(self._mount))
            except subprocess.CalledProcessError as error:
                if "busy" not in error.stderr or time.monotonic() > deadline:
                    raise
                time.sleep(BUSY_S / 100)
            else:
                return

    def lose_power(self) -> None:
        """From now on nothing reaches the disk; unmount and mount it to see what did."""
        directory = os.open(self._mount, os.O_RDONLY)
        try:
            fcntl.ioctl(directory, _EXT4_IOC_SHUTDOWN, _NOTHING_MORE)
        finally:
            os.close(directory)

    def fill(self) -> None:
        """Leave no space."""
        with (self._mount / _BALLAST).open("wb") as file:
            step = self._size_bytes
            while step >= _FREE_BYTES_MIN:
                try:
                    os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, step)
                except OSError:
                    step //= 2

    def free(self) -> None:
        """Undo `fill`."""
        (self._mount / _BALLAST).unlink(missing_ok=True)

    def remove(self) -> None:
        """Unmount it and delete the file."""
        if os.path.ismount(self._mount):
            self.unmount()
        self._image.unlink(missing_ok=True)


def private_mounts() -> None:
    """Have this thread, and processes and threads that it starts, see mounts that nobody else sees."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNS) != 0 or libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def unavailable() -> str | None:
    """Why there can be no such disks here; None when there can be. Asked in a process of its own."""
    for command in ("mkfs.ext4", "mount", "umount"):
        if shutil.which(command) is None:
            return f"{command} is not installed"
    with TemporaryDirectory(prefix="ithaca-torture-") as directory:
        try:
            private_mounts()
            disk = LoopDisk(Path(directory) / "disk", 16 << 20)
            disk.make()
            disk.lose_power()
            disk.remove()
        except OSError as error:
            return f"no disk can be mounted here: {error.strerror or error}"
        except subprocess.CalledProcessError as error:
            return f"no disk can be mounted here: {error.stderr.strip() or error}"
    return None


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)
