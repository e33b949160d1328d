"""Where a measurement happens: its directory, the file system and cores under it, its payload."""

import os
import platform
import random
import shutil
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

SEED = 7600


@contextmanager
def workspace(parent: Path) -> Iterator[Path]:
    """A fresh directory under `parent`, removed afterwards together with `parent` if that was made for it."""
    made = not parent.exists()
    parent.mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix="run-", dir=parent))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        if made:
            with suppress(OSError):  # somebody else has put something there meanwhile
                parent.rmdir()


def file_system(directory: Path) -> str:
    """The kind of file system that holds `directory`, such as ext4 or tmpfs."""
    device = os.stat(directory).st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    with open("/proc/self/mountinfo") as mounts:
        for line in mounts:
            mount, _, kind = line.partition(" - ")
            if mount.split()[2] == wanted:
                return kind.split()[0]
    return "unknown"


def surroundings(directory: Path) -> dict[str, str | int]:
    """What a reader must know to judge the figures."""
    return {"file_system": file_system(directory), "cores": os.cpu_count() or 1, "python": interpreter()}


def interpreter() -> str:
    """Which Python this is, and how it was built as far as it says: builds of one version differ by a third."""
    arguments = sysconfig.get_config_var("CONFIG_ARGS") or ""
    options = [each for each in ("--enable-optimizations", "--with-lto", "--with-pydebug") if each in arguments]
    return " ".join([platform.python_version(), platform.python_compiler(), *platform.python_build(), *options])


def payload(count: int) -> bytes:
    """`count` random bytes, the same in every run; they do not compress."""
    return random.Random(SEED).randbytes(count)
