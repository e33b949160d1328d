"""What each message of a client takes: one row for each.

Names of sessions are kept with their owners (`users.names`). Keys of what is appended, and what is read of a batch, are
looked at where the batch is.
"""

from msgspec.structs import replace

from ithaca.engines.raft.messages import (
    Append,
    BeginSession,
    EndSession,
    GetLog,
    GetSessions,
    LocateLane,
    Read,
    SeekTime,
    SessionsAre,
    Subscribe,
    TrimBefore,
)
from ithaca.model.limits import SESSION_NAME_BYTES_MAX
from ithaca.protocol.codec import Received
from ithaca.server.users.rules import RULES, WORDING, Rules, Wording, known, needs, needs_some
from ithaca.users.caller import Caller


def _session(caller: Caller, received: Received) -> Received:
    message: BeginSession | EndSession = received.message  # type: ignore[assignment]
    caller.prefixes("append")
    return received._replace(message=replace(message, name=caller.owned(message.name, SESSION_NAME_BYTES_MAX)))


def _sessions_are(caller: Caller, message: SessionsAre) -> SessionsAre:
    return SessionsAre(tuple((producer_id, caller.said(name), epoch) for producer_id, name, epoch in message.items))


RAFT_RULES: Rules = {
    **RULES,
    Append: needs_some("append"),
    BeginSession: _session,
    EndSession: _session,
    TrimBefore: needs("trim"),
    GetLog: known,
    Read: needs_some("read"),
    Subscribe: needs_some("read"),
    SeekTime: needs_some("read"),
    GetSessions: needs("admin"),
    LocateLane: needs("read"),
}

RAFT_WORDING: Wording = {**WORDING, SessionsAre: _sessions_are}
