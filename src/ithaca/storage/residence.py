"""Whether reading would wait for a disk, asked without reading: what is in memory an event loop may read itself.

Linux says it of the page cache (`RWF_NOWAIT`); of file systems that are memory it says nothing: they are known by name.
"""

import os
from functools import lru_cache
from typing import Final

_IN_MEMORY: Final = frozenset({"tmpfs", "ramfs"})
_NOWAIT: Final = getattr(os, "RWF_NOWAIT", None)
_probe = bytearray(1)


def is_resident(fd: int, offset: int, count: int) -> bool:
    """Whether these bytes of a file seem to be in memory: its first, middle and last ones are.

    They may be gone a moment later, which costs a wait and nothing else.
    """
    if _NOWAIT is None:
        return False
    try:
        for at in (offset, offset + count // 2, offset + count - 1):
            os.preadv(fd, [_probe], at, _NOWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return _is_memory(os.fstat(fd).st_dev)
    return True


@lru_cache(maxsize=64)
def _is_memory(device: int) -> bool:
    """Whether the file system is one that has no disk."""
    wanted = f"{os.major(device)}:{os.minor(device)}"
    try:
        with open("/proc/self/mountinfo") as mounts:
            found = [line.split() for line in mounts]
    except OSError:
        return False
    return any(fields[2] == wanted and fields[fields.index("-") + 1] in _IN_MEMORY for fields in found)
