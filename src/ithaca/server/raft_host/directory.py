"""The directory of a member: whose it is, and its store.

```
lock      the server's process id, under an advisory lock
meta      the server's number and whether it ever took part, in the format of `storage.checked_file`
…         the store's file, as `RaftFiles` has it
```

A server that lost its store must not start again under the same number: it has forgotten its votes, and might give
them twice. So `meta` says that there is a store as soon as there is one, and from then on it is never made again.
"""

import errno

import msgspec

from ithaca.model.errors import ConfigError, Corrupt, StorageError, StorageFull
from ithaca.raft.messages import DurableState, ServerId, first_state
from ithaca.runtime.raft.ports import RaftFiles, RaftStore
from ithaca.server.raft_host.identity import RaftMember
from ithaca.storage import checked_file
from ithaca.storage.disk import Disk

META = "meta"


class Meta(msgspec.Struct, frozen=True):
    """What `meta` says."""

    server: ServerId
    took_part: bool = False


def open_store(disk: Disk, directory: str, files: RaftFiles, member: RaftMember) -> tuple[RaftStore, DurableState]:
    """The member's store with what it holds; on the first start that is who founded the group."""
    path = f"{directory}/{files.name}"
    try:
        meta = _claim(disk, directory, path, member)
        exists = disk.exists(path)
        if meta.took_part and not exists:
            raise Corrupt("the file is missing, and the server took part", file=path)
        if exists:
            store, state = files.open(disk, directory)
        else:
            state = _state_to_begin_with(member)
            store = files.create(disk, directory, state)
        if not meta.took_part:
            _store(disk, directory, Meta(member.server, took_part=True))
        return store, state
    except Corrupt as error:
        raise error.in_words(f"{error}: {_advice(member)}") from error
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StorageFull(f"no space is left for {directory}: free some and start again") from error
        raise StorageError(f"{directory}: {error.strerror or error}") from error


def _state_to_begin_with(member: RaftMember) -> DurableState:
    founders = member.founders()
    return first_state(*founders, addresses=founders) if founders else DurableState()


def _advice(member: RaftMember) -> str:
    return (
        f"the {member.words.role} may have forgotten votes and entries that others count on, and does not start; a "
        f"majority of the others goes on without it. Never empty its directory: {member.words.way_out}"
    )


def _claim(disk: Disk, directory: str, store_path: str, member: RaftMember) -> Meta:
    path = f"{directory}/{META}"
    if not disk.exists(path):
        if disk.exists(store_path):
            raise Corrupt("the file is missing, and there is a Raft log", file=path)
        _store(disk, directory, Meta(member.server))
    meta = checked_file.load_value(disk, path, Meta)
    if meta.server != member.server:
        raise ConfigError(
            f"{directory} belongs to {member.named(meta.server)}, not {member.server}: give each server its own "
            "directory"
        )
    return meta


def _store(disk: Disk, directory: str, meta: Meta) -> None:
    checked_file.replace(disk, directory, META, msgspec.msgpack.encode(meta))
