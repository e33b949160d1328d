"""The directory of an embedded log: what makes it one, and who may write it.

```
meta        log UUID and engine, in the format of `storage.checked_file`
lock        the writer's process id, under an advisory lock
lane-0-0-1/ the only lane: shard 0, replica 0, incarnation 1
```

`meta` is written last, so a directory with it has everything else; a directory whose creation was cut
short has no `meta` and holds no records, and is created again.
"""

import errno
import os
import time
import uuid

import msgspec

from ithaca.model.errors import Corrupt, InvalidInput, LogInUse, NoSuchLog, ReadOnly, StorageError, StorageFull
from ithaca.model.positions import LaneId
from ithaca.storage import checked_file, directory_lock, lane
from ithaca.storage.directory_lock import take_lock
from ithaca.storage.disk import Disk, OsDisk, OsFile

META = "meta"
CLUSTER_FILE = "cluster.toml"
"""What the directory of a cluster has, which is often taken for that of a log."""
LANE = LaneId(0, 0, 1)
LANE_DIRECTORY = f"lane-{LANE}"


class Meta(msgspec.Struct, frozen=True):
    """What `meta` says."""

    uuid: str
    engine: str
    created_us: int


def lane_directory(path: str) -> str:
    return f"{path}/{LANE_DIRECTORY}"


def load_meta(disk: Disk, path: str) -> Meta:
    """The log's identity; `NoSuchLog` when there is none at this path."""
    file = f"{path}/{META}"
    if not disk.exists(file):
        if disk.exists(f"{path}/{CLUSTER_FILE}"):
            raise NoSuchLog(cluster_text(path))
        raise NoSuchLog(f'there is no log at {path}: append to it, or open it with mode="a", to create one')
    return checked_file.load_value(disk, file, Meta)


def prepare(disk: OsDisk, path: str) -> OsFile:
    """Take the writer's lock and create the log unless it is there; returns the locked file."""
    if os.path.exists(path) and not os.path.isdir(path):
        raise InvalidInput(f"{path} is a file, not a directory")
    try:
        disk.make_directory(path)
        _refuse_foreign(disk, path)
        lock = _locked(disk, path)
        if not disk.exists(f"{path}/{META}"):
            _create(disk, path)
        return lock
    except OSError as error:
        raise translated(error, path) from error


def _locked(disk: OsDisk, path: str) -> OsFile:
    try:
        return take_lock(disk, path, 'close it there, or open it here with mode="r"')
    except LogInUse as error:
        if error.pid != os.getpid():
            raise
        message = (
            f"this process already has {path} open: use that handle, which all threads may share, or close it first; "
            'mode="r" reads along'
        )
        raise LogInUse(message, pid=error.pid) from None


def cluster_text(path: str) -> str:
    """What to say of the directory of a cluster."""
    return f"{path} is the directory of a cluster: use ithaca.connect, or -b HOST:PORT on the command line"


def _refuse_foreign(disk: OsDisk, path: str) -> None:
    ours = {META, META + ".new", directory_lock.NAME, LANE_DIRECTORY}
    foreign = [name for name in disk.list(path) if name not in ours]
    if CLUSTER_FILE in foreign:
        raise InvalidInput(cluster_text(path))
    if foreign and META not in disk.list(path):
        raise InvalidInput(f"{path} is not a log, and not empty ({foreign[0]} is in it): choose another directory")


def _create(disk: OsDisk, path: str) -> None:
    directory = lane_directory(path)
    if any(name.endswith(".idx") for name in disk.list(directory)):
        raise Corrupt("the file is missing, and the log holds records", file=f"{path}/{META}")
    lane.create(disk, directory, LANE)
    meta = Meta(uuid=str(uuid.uuid4()), engine="embedded", created_us=time.time_ns() // 1000)
    checked_file.replace(disk, path, META, msgspec.msgpack.encode(meta))


def translated(error: OSError, path: str) -> StorageError | ReadOnly:
    """What the operating system's refusal means to a user of the log."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StorageFull(f"no space is left for {path}: free some and open it again")
    if error.errno in (errno.EACCES, errno.EROFS, errno.EPERM):
        return ReadOnly(f'{path} cannot be written ({error.strerror}): change that, or open it with mode="r"')
    return StorageError(f"{path}: {error.strerror or error}")
