"""The files that children print to: bounded, and written by the children themselves.

A child holds the descriptor, so that it can go on printing whatever its supervisor does. Putting a full file
aside is therefore a copy and a truncation. What is printed between the two is lost; the last copy before the
truncation is of a few bytes at most, so that takes a line within microseconds.
"""

import os
from pathlib import Path

from ithaca.cluster.limits import LOG_FILE_BYTES_MAX

DIRECTORY = "logs"
OLD = ".1"
"""Ends the name of the file that was put aside."""


def log_path(directory: Path, name: str) -> Path:
    return directory / DIRECTORY / f"{name}.log"


def open_log(directory: Path, name: str) -> int:
    """A descriptor for a child to print to; what is there already stays."""
    path = log_path(directory, name)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)


def put_aside(path: Path, bytes_max: int = LOG_FILE_BYTES_MAX) -> bool:
    """Move what the file holds to the old file, if it is more than `bytes_max`."""
    try:
        if path.stat().st_size <= bytes_max:
            return False
    except FileNotFoundError:
        return False
    new = path.with_name(path.name + OLD + ".new")
    with path.open("r+b") as source, new.open("wb") as target:
        while chunk := source.read(1 << 20):
            target.write(chunk)
        source.truncate(0)
    os.replace(new, path.with_name(path.name + OLD))
    return True
