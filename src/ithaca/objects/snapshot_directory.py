"""Snapshots as files of a directory: `<position>.snapshot`, written beside, synced and renamed."""

import errno
import os
from pathlib import Path
from typing import Final

from ithaca.model.errors import StorageError, StorageFull
from ithaca.objects.limits import OBJECT_SNAPSHOTS_KEPT
from ithaca.objects.snapshot import Snapshot
from ithaca.runtime.machine import process_id

_SUFFIX: Final = ".snapshot"


def newest_in(directory: Path, position_max: int | None = None) -> Snapshot | None:
    """The newest one up to this position; `Corrupt` names the file that is damaged."""
    paths = [path for path in _paths(directory) if position_max is None or _position(path) <= position_max]
    return Snapshot.from_bytes(paths[-1].read_bytes(), str(paths[-1])) if paths else None


def save_in(directory: Path, snapshot: Snapshot) -> None:
    """Write it durably, and let older ones go but for the last."""
    try:
        _save(directory, snapshot)
    except OSError as error:
        kind = StorageFull if error.errno == errno.ENOSPC else StorageError
        raise kind(f"the snapshot cannot be written to {directory}: {error.strerror}") from error


def _save(directory: Path, snapshot: Snapshot) -> None:
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = directory / f"{snapshot.head.position:020d}{_SUFFIX}"
    beside = directory / f"{path.name}.{process_id()}"
    with beside.open("wb") as file:
        file.write(snapshot.to_bytes())
        file.flush()
        os.fsync(file.fileno())
    beside.rename(path)
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    for old in _paths(directory)[:-OBJECT_SNAPSHOTS_KEPT]:
        old.unlink(missing_ok=True)


def _paths(directory: Path) -> list[Path]:
    if not directory.is_dir():
        return []
    return sorted(path for path in directory.iterdir() if path.suffix == _SUFFIX and path.stem.isdecimal())


def _position(path: Path) -> int:
    return int(path.stem)
