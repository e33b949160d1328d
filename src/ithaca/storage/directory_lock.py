"""One process per directory: an advisory lock on a file that says whose it is."""

import os
import time

from ithaca.model.errors import LogInUse
from ithaca.storage.disk import OsDisk, OsFile

NAME = "lock"

_TRIES = 5
_RETRY_S = 0.01


def take_lock(disk: OsDisk, directory: str, way_out: str) -> OsFile:
    """Lock the directory for as long as the returned file is open; `LogInUse` names the process that has it."""
    file = disk.open(f"{directory}/{NAME}", create=True)
    for _ in range(_TRIES):  # someone who only looks whether it is locked holds it for an instant
        if file.try_lock():
            file.truncate(0)
            file.write(0, [str(os.getpid()).encode()])
            return file
        time.sleep(_RETRY_S)
    said = file.read(0, 20)
    pid = int(said) if said.isdigit() else 0
    raise LogInUse(f"{directory} is in use by process {pid or 'unknown'}: {way_out}", pid=pid)


def is_locked(disk: OsDisk, directory: str) -> bool:
    """Whether some process has the directory."""
    try:
        file = disk.open(f"{directory}/{NAME}", writable=False)
    except FileNotFoundError:
        return False
    free = file.try_lock()
    file.close()
    return not free
