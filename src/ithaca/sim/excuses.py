"""What a fault explains: why a server may end, and what a client may be told. Everything else is a violation.

An error that nobody caused is a mistake, however well it is typed: so servers end only for what befell them, and
clients meet only what their call documents and what the situation allows.
"""

import errno
from collections.abc import Callable
from typing import TYPE_CHECKING

from ithaca.model.errors import (
    AddressInUse,
    AuthenticationFailed,
    Corrupt,
    EmptyPosition,
    Fenced,
    InvalidInput,
    IthacaError,
    LastOrderer,
    LastShard,
    Lost,
    NoSuchReplica,
    NoSuchShard,
    PartGone,
    PositionTaken,
    PublishConflict,
    SequenceGap,
    SessionExpired,
    SessionFenced,
    StorageError,
    StorageFull,
    Trimmed,
    Unavailable,
    WrongLane,
)
from ithaca.sim.faults.shards import FINALIZE_UNHEARD
from ithaca.sim.host import Host

if TYPE_CHECKING:
    from ithaca.sim.configuration import Configuration
    from ithaca.sim.world import World

_READING = (Unavailable, Trimmed, Corrupt, Lost)

DOCUMENTED: dict[str, tuple[type[IthacaError], ...]] = {
    "connect": (Unavailable,),
    "add a user": (Unavailable, StorageFull),
    "append": (Unavailable, StorageFull, SessionExpired),
    "write at a position": (Unavailable, StorageFull, PositionTaken, EmptyPosition, Trimmed, InvalidInput),
    "session": (Unavailable, StorageFull, WrongLane),
    "append in a session": (Unavailable, StorageFull, SessionFenced, SessionExpired, SequenceGap),
    "use a name": (Unavailable, StorageFull, SessionFenced, SequenceGap, WrongLane),
    "expire a session": (Unavailable, StorageFull),
    "subscribe": _READING,
    "read": _READING,
    "read a range": _READING,
    "trim": (*_READING, StorageFull),
    "publish": (Unavailable, StorageFull, PartGone, PublishConflict, WrongLane),
    "consume": (*_READING, StorageFull),
    "take and write": (*_READING, StorageFull, PartGone, WrongLane),
    "reset a consumer": (*_READING, StorageFull),
    "add a shard": (Unavailable, StorageFull),
    "finalize a shard": (Unavailable, StorageFull, LastShard, NoSuchShard),
    "replace a replica": (Unavailable, StorageFull, AddressInUse, NoSuchShard, NoSuchReplica, InvalidInput),
    "change the orderers": (Unavailable, StorageFull, LastOrderer, InvalidInput),
}
"""What each call of a client may raise, by a name for it."""
_APPENDING = frozenset(
    {"append", "write at a position", "append in a session", "use a name", "publish", "take and write"}
)
"""Calls that write to replicas; the others have something ordered at most, and need room on the leader's disk alone."""

_NEEDED: dict[type[IthacaError], Callable[["World"], bool]] = {
    Trimmed: lambda world: world.ordered.first > 1,
    Corrupt: lambda world: world.was_damaged,
    Lost: lambda world: False,
    # A shard that is finalized and has nothing that was not trimmed is gone, one that never had anything included.
    NoSuchShard: lambda world: world.ordered.first > 1 or _finalizes(world.configuration),
    SessionFenced: lambda world: world.configuration.takes_over or "client" in world.configuration.faults,
}
"""What must have come about for a client to be told this."""


def _finalizes(configuration: "Configuration") -> bool:
    asked_for = {"finalize", FINALIZE_UNHEARD} & {*configuration.faults}
    return bool(asked_for) or configuration.failures.action == "finalize-and-add"


def is_allowed(world: "World", error: IthacaError, call: str) -> bool:
    """Whether a client may be told this now."""
    if isinstance(error, AuthenticationFailed):  # whom a server does not know yet
        return bool(world.configuration.ordinary)
    if not isinstance(error, DOCUMENTED[call]):
        return False
    if isinstance(error, StorageFull):
        return any(
            host.disk.lacked_space or host.disk.lacked_descriptors
            for host in world.hosts.values()
            if call in _APPENDING or (host.place is not None and host.place.role == "orderer")
        )
    return all(needed(world) for kind, needed in _NEEDED.items() if isinstance(error, kind))


def is_explained(host: Host, error: Exception) -> bool:
    """Whether what befell a host explains why its server has ended."""
    number = error.errno if isinstance(error, OSError) else None
    if isinstance(error, Fenced) or number == errno.EIO:
        return host.sync_failed_ns is not None
    if isinstance(error, Corrupt):
        return host.was_flipped
    if isinstance(error, StorageFull) or number == errno.ENOSPC:
        return host.disk.lacked_space or host.disk.lacked_descriptors
    if type(error) is StorageError or number == errno.EMFILE:  # it could not open what it starts with
        return host.disk.lacked_descriptors
    if isinstance(error, WrongLane):  # its lane was closed, and it cannot write down that it goes on as its next boot
        return host.disk.lacked_space
    if isinstance(error, InvalidInput):  # it forgot how often it was started
        return host.disks > 1
    return False
