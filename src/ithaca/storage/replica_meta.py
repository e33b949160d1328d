"""The `meta` file of a replica's directory: whose it is, and how often it was started (`storage.checked_file`).

The ordering layer tells the starts of a replica apart by their boot, so a boot is durable before anybody
hears of it, and never falls: a directory that holds lanes and no `meta` is refused. The first boot of a new
directory is the time, not 1: a replica whose disk was wiped must not be taken for the one it was before. Where the
clock went back meanwhile, the ordering layer says which boot it knows, and the replica starts again behind it.
"""

from typing import Annotated
from uuid import UUID

import msgspec
from msgspec import Meta

from ithaca.model.errors import ConfigError, Corrupt, LogError
from ithaca.model.limits import BOOT_MAX
from ithaca.storage import checked_file, directory_lock
from ithaca.storage.disk import Disk

NAME = "meta"
_WAY_OUT = (
    "the replica cannot know which boots it has used, and does not start; while the other replicas of its shard are "
    "well, move its directory away and start it with an empty one"
)


class ReplicaMeta(msgspec.Struct, frozen=True):
    """What `meta` says."""

    log: UUID | None
    """The log that this replica belongs to; None until it has joined one."""
    shard: int
    replica: int
    boot: Annotated[int, Meta(ge=0, lt=1 << 62)]


def start(disk: Disk, directory: str, shard: int, replica: int, *, now_us: int) -> ReplicaMeta:
    """Count a start of this replica, making its directory if need be; `now_us` is the wall clock."""
    disk.make_directory(directory)
    known = _load(disk, directory)
    if known is None:
        if any(name not in (f"{NAME}.new", directory_lock.NAME) for name in disk.list(directory)):
            message = f"the file is missing, and the directory is not empty: {_WAY_OUT}"
            raise Corrupt(message, file=f"{directory}/{NAME}")
        known = ReplicaMeta(None, shard, replica, now_us - 1)
    if (known.shard, known.replica) != (shard, replica):
        raise ConfigError(
            f"{directory} belongs to replica {known.replica} of shard {known.shard}, and not to replica {replica} of "
            f"shard {shard}: give each replica a directory of its own"
        )
    return _store(disk, directory, msgspec.structs.replace(known, boot=known.boot + 1))


def identity(disk: Disk, directory: str) -> tuple[int, int] | None:
    """The shard and the number of the replica whose directory this is; None of one that is nobody's yet."""
    known = _load(disk, directory)
    return None if known is None else (known.shard, known.replica)


def bind(disk: Disk, directory: str, log: UUID) -> ReplicaMeta:
    """Remember which log a replica that was started belongs to; another one is refused."""
    known = _load(disk, directory)
    assert known is not None, "start comes first"
    if known.log == log:
        return known
    if known.log is not None:
        raise LogError(
            f"{directory} belongs to log {known.log}, and the ordering layer is that of log {log}: "
            "start the replica with another directory, or with the cluster it belongs to"
        )
    return _store(disk, directory, msgspec.structs.replace(known, log=log))


def skip_boots(disk: Disk, directory: str, boot: int) -> None:
    """Have the next start come after this boot."""
    assert boot <= BOOT_MAX, boot
    known = _load(disk, directory)
    assert known is not None, "start comes first"
    _store(disk, directory, msgspec.structs.replace(known, boot=max(known.boot, boot)))


def forget(disk: Disk, directory: str) -> None:
    """Make the directory nobody's again: of a learner that was never added, so that nobody counts on what it holds."""
    lanes = f"{directory}/lanes"
    for lane in disk.list(lanes) if disk.exists(lanes) else ():
        for name in disk.list(f"{lanes}/{lane}"):
            disk.remove(f"{lanes}/{lane}/{name}")
        disk.remove_directory(f"{lanes}/{lane}")
    if disk.exists(lanes):
        disk.sync_directory(lanes)
        disk.remove_directory(lanes)
    disk.remove(f"{directory}/{NAME}")  # last: lanes without it are refused
    disk.sync_directory(directory)


def _load(disk: Disk, directory: str) -> ReplicaMeta | None:
    path = f"{directory}/{NAME}"
    if not disk.exists(path):
        return None
    try:
        return checked_file.load_value(disk, path, ReplicaMeta)
    except Corrupt as error:
        raise error.in_words(f"{error}: {_WAY_OUT}") from error


def _store(disk: Disk, directory: str, meta: ReplicaMeta) -> ReplicaMeta:
    checked_file.replace(disk, directory, NAME, msgspec.msgpack.encode(meta))
    return meta
