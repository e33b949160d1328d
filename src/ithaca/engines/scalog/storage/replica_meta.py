"""The `meta` file of a replica's directory: whose it is, and how often it was started (`storage.checked_file`).

The ordering layer tells the starts of a replica apart by their boot, so a boot is durable before anybody
hears of it, and never falls: a directory that holds lanes and no `meta` is refused. The first boot of a new
directory is the time, not 1: a replica whose disk was wiped must not be taken for the one it was before. Where the
clock went back meanwhile, the ordering layer says which boot it knows, and the replica starts again behind it.

A directory of which nobody needs the replica becomes nobody's again (`quarantine`). What it holds is moved, with a copy
of its `meta`, and never deleted: that is for people to do. Files that an engine has beside it (`beside`) say something
of this replica alone. They go with its lanes; where it has none, they say nothing that anybody could need.

```
set-aside-<shard>-<replica>-<time>/   the `lanes`, the `meta` and what was beside it when this replica was given up
```
"""

import errno
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated
from uuid import UUID

import msgspec
from msgspec import Meta

from ithaca.model.errors import ConfigError, Corrupt, LogError, StorageFull
from ithaca.model.limits import BOOT_MAX, COPIES_QUARANTINED_MAX
from ithaca.model.view import Address
from ithaca.server import directory as server_directory
from ithaca.storage import checked_file, directory_lock
from ithaca.storage.disk import Disk

NAME = "meta"
LANES = "lanes"
_ASIDE = "set-aside-"
_OTHERS = (f"{NAME}.new", directory_lock.NAME, server_directory.NAME, f"{server_directory.NAME}.new")
"""What may be in a directory before its first start."""
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
    address: Address | None = None
    """What it was called when it enlisted as a spare, and is called ever after, wherever it is started; None of a
    replica that is known by its number alone."""
    was_added: bool = False
    """Whether its shard has had it, so that others may count on what it holds."""
    aside: str = ""
    """Where what it holds is being moved to: the directory is nobody's already."""


def start(
    disk: Disk,
    directory: str,
    shard: int,
    replica: int,
    *,
    now_us: int,
    address: Address | None = None,
    beside: Sequence[str] = (),
) -> ReplicaMeta:
    """Count a start of this replica, making its directory if need be; `now_us` is the wall clock.

    `address` is what a spare enlisted as; it counts for the first start in this directory.
    """
    disk.make_directory(directory)
    known = _load(disk, directory)
    if known is not None and known.aside:
        _move(disk, directory, known, beside)
        known = None
    if known is None:
        if any(name not in _OTHERS for name in disk.list(directory) if not _is_aside(name)):
            message = f"the file is missing, and the directory is not empty: {_WAY_OUT}"
            raise Corrupt(message, file=f"{directory}/{NAME}")
        known = ReplicaMeta(None, shard, replica, now_us - 1, address)
    if (known.shard, known.replica) != (shard, replica):
        raise ConfigError(
            f"{directory} belongs to replica {known.replica} of shard {known.shard}, and not to replica {replica} of "
            f"shard {shard}: give each replica a directory of its own"
        )
    return _store(disk, directory, msgspec.structs.replace(known, boot=known.boot + 1))


def identity(disk: Disk, directory: str) -> tuple[int, int] | None:
    """The shard and the number of the replica whose directory this is; None of one that is nobody's yet."""
    known = _load(disk, directory)
    return None if known is None or known.aside else (known.shard, known.replica)


def bind(disk: Disk, directory: str, log: UUID, *, was_added: bool = False) -> ReplicaMeta:
    """Remember which log a replica that was started belongs to, and that its shard has it; another log is refused."""
    known = _load(disk, directory)
    assert known is not None, "start comes first"
    was_added = was_added or known.was_added
    if (known.log, known.was_added) == (log, was_added):
        return known
    if known.log not in (None, log):
        raise LogError(
            f"{directory} belongs to log {known.log}, and the ordering layer is that of log {log}: "
            "start the replica with another directory, or with the cluster it belongs to"
        )
    return _store(disk, directory, msgspec.structs.replace(known, log=log, was_added=was_added))


def skip_boots(disk: Disk, directory: str, boot: int) -> None:
    """Have the next start come after this boot."""
    assert boot <= BOOT_MAX, boot
    known = _load(disk, directory)
    assert known is not None, "start comes first"
    _store(disk, directory, msgspec.structs.replace(known, boot=max(known.boot, boot)))


def quarantine(disk: Disk, directory: str, *, now_us: int, beside: Sequence[str] = ()) -> str | None:
    """Make the directory nobody's again, and keep what it holds beside it; the name of that, None if there is nothing.

    Goes on where a crash ended it. `StorageFull` when as much is kept already as may be, or the disk is full.
    """
    try:
        known = _load(disk, directory)
        if known is None:
            return None
        if not known.aside and not disk.list(f"{directory}/{LANES}"):
            _forget(disk, directory, beside)
            return None
        if not known.aside:
            name = _name(disk, directory, known, now_us)
            known = _store(disk, directory, msgspec.structs.replace(known, aside=name))
        _move(disk, directory, known, beside)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise StorageFull(f"{directory}: no space is left to set a copy aside: free some") from error
    return known.aside


def kept_aside(disk: Disk, directory: str) -> list[str]:
    """What was quarantined here, and nobody has deleted."""
    return [name for name in disk.list(directory) if _is_aside(name)]


def _is_aside(name: str) -> bool:
    return name.startswith(_ASIDE)


def _name(disk: Disk, directory: str, known: ReplicaMeta, now_us: int) -> str:
    kept = kept_aside(disk, directory)
    if len(kept) >= COPIES_QUARANTINED_MAX:
        raise StorageFull(
            f"{directory} keeps {len(kept)} copies that were quarantined, and no more than {COPIES_QUARANTINED_MAX}: "
            f"delete those that you do not need ({', '.join(kept)})"
        )
    at = datetime.fromtimestamp(now_us / 1e6, UTC)
    name = f"{_ASIDE}{known.shard}-{known.replica}-{at:%Y%m%dT%H%M%SZ}"
    return next(
        each for each in (name, *(f"{name}-{number}" for number in range(2, len(kept) + 2))) if each not in kept
    )


def _move(disk: Disk, directory: str, known: ReplicaMeta, beside: Sequence[str]) -> None:
    lanes = f"{directory}/{LANES}"
    if disk.exists(lanes):
        checked_file.replace(disk, lanes, NAME, msgspec.msgpack.encode(msgspec.structs.replace(known, aside="")))
        for name in beside:
            if disk.exists(f"{directory}/{name}"):
                checked_file.replace(disk, lanes, name, checked_file.load(disk, f"{directory}/{name}"))
        disk.rename(lanes, f"{directory}/{known.aside}")
        disk.sync_directory(directory)
    _forget(disk, directory, beside)


def _forget(disk: Disk, directory: str, beside: Sequence[str]) -> None:
    """Remove what says whose the directory is: last, for lanes and other files without it are refused."""
    if disk.exists(f"{directory}/{LANES}"):
        disk.remove_directory(f"{directory}/{LANES}")
    for name in (each for known in beside for each in (known, f"{known}.new")):
        if disk.exists(f"{directory}/{name}"):
            disk.remove(f"{directory}/{name}")
    disk.sync_directory(directory)
    disk.remove(f"{directory}/{NAME}")
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
