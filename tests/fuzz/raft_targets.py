"""What the engine raft agrees on, as Raft carries and keeps it."""

from typing import Any
from uuid import UUID

from tests.engines.raft.batches import batch_of
from tests.fuzz.target import NESTED, NO_TEXT, Target

from ithaca.engines.raft.name import LANE
from ithaca.engines.raft.replog.entries import (
    ChangeUsers,
    ExpireSessions,
    Found,
    LogEntry,
    OpenSession,
    TrimLog,
    decode_entry,
    encode_entry,
    range_of,
)
from ithaca.engines.raft.replog.state import LogState
from ithaca.model.errors import ProtocolError
from ithaca.model.security.users import RevokeUser
from ithaca.model.view import ClusterConfiguration
from ithaca.users.table import UserChanges
from ithaca.wire.batch import lane_seed

_RANGE = range_of([batch_of(1, 1, 2).placed(0, lane_seed(LANE)), batch_of(1, 3, 1).placed(2, lane_seed(LANE))])
_ENTRIES: tuple[LogEntry, ...] = (
    ChangeUsers(UserChanges((RevokeUser("alice"),))),
    Found(ClusterConfiguration(UUID(int=7), "raft")),
    OpenSession("importer"),
    _RANGE,
    TrimLog(2),
    ExpireSessions(((1, 1),)),
)


def _points() -> tuple[bytes, ...]:
    """A compaction point after each entry."""
    state = LogState()
    found = []
    for entry in _ENTRIES:
        state.apply(entry)
        found.append(_encoded(state))
    return tuple(found)


def _encoded(state: LogState) -> bytes:
    return b"".join(state.snapshot())


def _reencoded(data: bytes) -> bytes:
    """A point as the state that it gives would write it."""
    return _encoded(LogState.restored(data))


TARGETS: tuple[Target[Any], ...] = (
    Target(
        "range-entry",
        decode_entry,
        (ProtocolError,),
        tuple(map(encode_entry, _ENTRIES)),
        encode_entry,
        regressions=(NESTED, NO_TEXT),
    ),
    Target("compaction-point", _reencoded, (ProtocolError,), _points(), lambda data: data),
)
