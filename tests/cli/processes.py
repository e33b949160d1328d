"""Which processes a command leaves behind."""

import os
import select
from pathlib import Path

END_S = 30.0


def left_behind(marker: Path) -> list[int]:
    """Processes that have `marker` in their command line or environment and do not end by themselves."""
    wanted = os.fsencode(marker)
    left = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        if int(name) == os.getpid():
            continue
        try:
            said = Path(f"/proc/{name}/cmdline").read_bytes() + Path(f"/proc/{name}/environ").read_bytes()
            descriptor = os.pidfd_open(int(name)) if wanted in said else -1
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        if descriptor >= 0:
            ended, _, _ = select.select([descriptor], [], [], END_S)
            left += [] if ended else [int(name)]
            os.close(descriptor)
    return left
