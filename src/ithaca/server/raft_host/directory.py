"""The directory of an orderer: whose it is, and its Raft log.

```
lock      the server's process id, under an advisory lock
meta      the server's number and whether it ever took part, in the format of `storage.checked_file`
raft.log  in the format of `storage.raftlog`
```

A server that lost its Raft log must not start again under the same number: it has forgotten its votes, and might
give them twice. So `meta` says that there is a log as soon as there is one, and from then on it is never made again.
"""

import errno
from collections.abc import Callable

import msgspec

from ithaca.model.config.cluster import ClusterFile, check_founders
from ithaca.model.errors import ConfigError, Corrupt, StorageError, StorageFull
from ithaca.model.limits import ZERO_AHEAD_BYTES
from ithaca.raft.messages import DurableState, ServerId, first_state
from ithaca.storage import checked_file
from ithaca.storage.disk import Disk
from ithaca.storage.raftlog import FILE_NAME, RaftLog

META = "meta"
_WAY_OUT = (
    "the orderer may have forgotten votes and entries that others count on, and does not start; a majority of the "
    "others goes on without it. Never empty its directory: remove it with ithaca orderer remove, and add another one"
)


class Meta(msgspec.Struct, frozen=True):
    """What `meta` says."""

    server: ServerId
    took_part: bool = False


def open_raft_log(
    disk: Disk, directory: str, server: ServerId, first: Callable[[], DurableState]
) -> tuple[RaftLog, DurableState]:
    """The server's log with what it holds; on the first start that is `first()`."""
    try:
        meta = _claim(disk, directory, server)
        exists = disk.exists(f"{directory}/{FILE_NAME}")
        if meta.took_part and not exists:
            raise Corrupt("the file is missing, and the server took part", file=f"{directory}/{FILE_NAME}")
        if exists:
            log, state = RaftLog.open(disk, directory, zero_ahead_bytes=ZERO_AHEAD_BYTES)
        else:
            state = first()
            log = RaftLog.create(disk, directory, state, zero_ahead_bytes=ZERO_AHEAD_BYTES)
        if not meta.took_part:
            _store(disk, directory, Meta(server, took_part=True))
        return log, state
    except Corrupt as error:
        raise error.in_words(f"{error}: {_WAY_OUT}") from error
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StorageFull(f"no space is left for {directory}: free some and start again") from error
        raise StorageError(f"{directory}: {error.strerror or error}") from error


def state_to_begin_with(file: ClusterFile, server: ServerId) -> DurableState:
    """Who founded the group, as the file says; an orderer that joins later knows of nobody, and waits."""
    if file.orderer(server).joining:
        return DurableState()
    founders = check_founders(file)
    return first_state(*founders, addresses=founders)


def _claim(disk: Disk, directory: str, server: ServerId) -> Meta:
    path = f"{directory}/{META}"
    if not disk.exists(path):
        if disk.exists(f"{directory}/{FILE_NAME}"):
            raise Corrupt("the file is missing, and there is a Raft log", file=path)
        _store(disk, directory, Meta(server))
    meta = checked_file.load_value(disk, path, Meta)
    if meta.server != server:
        raise ConfigError(
            f"{directory} belongs to orderer {meta.server}, not {server}: give each server its own directory"
        )
    return meta


def _store(disk: Disk, directory: str, meta: Meta) -> None:
    checked_file.replace(disk, directory, META, msgspec.msgpack.encode(meta))
