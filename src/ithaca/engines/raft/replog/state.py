"""What the entries of the log add up to: the cursor, the trim point, sessions, consumers, users.

```
snapshot  0 length u64: the LSN behind the last record
          8 pieces, each: bytes u32 | msgpack. The first is the rest of the state but for the sessions, which follow;
            its last fields, the consumers and the users, are left out where there never were any
```

A snapshot is the *compaction point*: with Raft's own index, term and members it stands for every entry so far, and the
data log below its length belongs to it.
"""

import struct
from collections.abc import Iterator
from typing import Annotated

import msgspec
from msgspec import Meta

from ithaca.consumers.table import ConsumerTable, PackedConsumers
from ithaca.engines.raft.replog.entries import (
    ChangeConsumers,
    ChangeUsers,
    ExpireSessions,
    Found,
    LogEntry,
    OpenSession,
    Range,
    TrimLog,
)
from ithaca.engines.raft.replog.sessions import Session, Sessions
from ithaca.model.consumers import ConsumerOutcome
from ithaca.model.decoding import UNDECODABLE
from ithaca.model.errors import ProtocolError
from ithaca.model.limits import SNAPSHOT_PIECE_ITEMS
from ithaca.model.security.users import UserOutcome
from ithaca.model.view import ClusterConfiguration
from ithaca.users.table import PackedUsers, UserTable

_LENGTH = struct.Struct("<Q")
_PIECE = struct.Struct("<I")
_Natural = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]


class _Rest(msgspec.Struct, frozen=True, array_like=True):
    configuration: ClusterConfiguration | None
    trim_lsn: _Natural
    next_producer_id: _Natural
    consumers: PackedConsumers = PackedConsumers()
    users: PackedUsers = PackedUsers()


_rest_decoder = msgspec.msgpack.Decoder(_Rest)
_sessions_decoder = msgspec.msgpack.Decoder(list[Session])


Applied = Session | tuple[ConsumerOutcome, ...] | tuple[UserOutcome, ...] | None
"""What applying an entry gives."""


class LogState:
    """The log after some of its entries."""

    def __init__(self) -> None:
        self.configuration: ClusterConfiguration | None = None
        self.length = 0
        """The cursor: everything below this LSN is agreed on."""
        self.trim_lsn = 0
        self.sessions = Sessions()
        self.consumers = ConsumerTable()
        self.users = UserTable()

    @property
    def tail(self) -> int:
        """The next position."""
        return self.length + 1

    @property
    def first(self) -> int:
        """The first position that can be read."""
        return self.trim_lsn + 1

    def copy(self) -> "LogState":
        state = LogState()
        state.configuration, state.length, state.trim_lsn = self.configuration, self.length, self.trim_lsn
        state.sessions, state.consumers = self.sessions.copy(), self.consumers.copy()
        state.users = self.users.copy()
        return state

    def apply(self, entry: LogEntry) -> Applied:
        """Take in the next entry; the session that it opens, or what came of changes of consumers or
        users."""
        match entry:
            case Range():
                self._append(entry)
            case OpenSession(name):
                return self.sessions.open(name)
            case ExpireSessions(sessions):
                for producer_id, epoch in sessions:
                    self.sessions.expire(producer_id, epoch)
            case TrimLog(lsn):
                if lsn <= self.length:
                    self.trim_lsn = max(self.trim_lsn, lsn)
            case ChangeConsumers(changes):
                return self.consumers.apply(changes)
            case ChangeUsers(changes):
                return self.users.apply(changes)
            case Found(configuration):
                self.configuration = self.configuration or configuration
        return None

    def _append(self, of: Range) -> None:
        assert of.first_lsn == self.length, (of.first_lsn, self.length)
        lsn = of.first_lsn
        for batch in of.batches:
            self.sessions.went_on(batch, lsn)
            lsn += batch.count
        self.length = lsn

    def snapshot(self) -> Iterator[bytes]:
        """All of it, in pieces that are made while the state goes on to change."""
        tables = self.consumers.packed(), self.users.packed()
        rest = _Rest(self.configuration, self.trim_lsn, self.sessions.next_producer_id, *tables)
        return _pieces(self.length, rest, list(self.sessions.by_id.values()))

    @classmethod
    def restored(cls, data: bytes) -> "LogState":
        """The inverse of `snapshot`; `ProtocolError` for anything else."""
        state = cls()
        if not data:
            return state
        state.length = length_in(data)
        try:
            pieces = list(_divided(data))
            rest = _rest_decoder.decode(pieces[0])
            sessions = [session for piece in pieces[1:] for session in _sessions_decoder.decode(piece)]
        except (*UNDECODABLE, struct.error, IndexError) as error:
            raise ProtocolError(f"a snapshot of the log cannot be decoded: {error}") from error
        state.configuration, state.trim_lsn = rest.configuration, rest.trim_lsn
        state.sessions = Sessions(sessions, rest.next_producer_id)
        state.consumers = ConsumerTable(rest.consumers)
        state.users = UserTable(rest.users)
        return state


def length_in(snapshot: bytes) -> int:
    """How long the log is at a compaction point; 0 for the one before everything."""
    if not snapshot:
        return 0
    if len(snapshot) < _LENGTH.size:
        raise ProtocolError(f"{len(snapshot)} bytes are no snapshot of the log")
    length: int = _LENGTH.unpack_from(snapshot)[0]
    return length


def _pieces(length: int, rest: _Rest, sessions: list[Session]) -> Iterator[bytes]:
    fields = list(msgspec.structs.astuple(rest))
    while isinstance(fields[-1], PackedConsumers | PackedUsers) and not fields[-1]:
        fields.pop()  # as versions have it that know of none
    yield _LENGTH.pack(length) + _piece(fields)
    for start in range(0, len(sessions), SNAPSHOT_PIECE_ITEMS):
        yield _piece(sessions[start : start + SNAPSHOT_PIECE_ITEMS])


def _piece(value: object) -> bytes:
    data = msgspec.msgpack.encode(value)
    return _PIECE.pack(len(data)) + data


def _divided(data: bytes) -> Iterator[bytes]:
    at = _LENGTH.size
    while at < len(data):
        size: int = _PIECE.unpack_from(data, at)[0]
        at += _PIECE.size
        yield data[at : at + size]
        at += size
