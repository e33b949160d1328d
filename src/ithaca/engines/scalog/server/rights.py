"""What each message of a client takes, and whose words it is in: one row for each.

Names of sessions and writers, and tokens of parts, are kept with their owners (`users.names`): they are put so before
anybody else sees them, and back again in answers. Keys of what is appended, and what is read of a batch, are looked at
by the replica that has it (`server.users.keys`).
"""

from typing import Any

from msgspec.structs import replace

from ithaca.engines.scalog.messages.appending import (
    Append,
    AppendPart,
    FinishPart,
    GetNextSeq,
    GetPart,
    GetSessionTail,
)
from ithaca.engines.scalog.messages.listing import GetSessions, GetWriters, SessionsAre, WritersAre
from ithaca.engines.scalog.messages.losing import DeclareLoss
from ithaca.engines.scalog.messages.order import Admit, Applied, GetSession, GetTail, GetView, SessionIs
from ithaca.engines.scalog.messages.places import LocateRecords
from ithaca.engines.scalog.messages.reading import Read, SeekTime, Subscribe
from ithaca.engines.scalog.messages.requests import (
    AddShard,
    BeginPart,
    BeginSession,
    DismissReplica,
    DropParts,
    EndSession,
    EndWriter,
    FinalizeShard,
    KeepParts,
    PublishParts,
    RelocateSession,
    TrimBefore,
)
from ithaca.engines.scalog.ordering.outcomes import ExpiredSession, Session, SessionMoved, SessionOpened
from ithaca.engines.scalog.ordering.prepared.entries import PartName
from ithaca.engines.scalog.ordering.prepared.outcomes import PartsPublished, PublishConflicts
from ithaca.model.limits import SESSION_NAME_BYTES_MAX, WRITER_NAME_BYTES_MAX
from ithaca.protocol.codec import Received
from ithaca.server.users.rules import (
    RULES,
    WORDING,
    Rules,
    Wording,
    after_name,
    known,
    needs,
    needs_some,
    open_to_all,
    owned_command,
)
from ithaca.users.caller import Caller


def _begin_session(caller: Caller, received: Received) -> Received:
    message: BeginSession = received.message  # type: ignore[assignment]
    caller.prefixes("append")
    return received._replace(message=replace(message, name=caller.owned(message.name, SESSION_NAME_BYTES_MAX)))


def _one_part(caller: Caller, received: Received) -> Received:
    """A message about a part: the token is that of its owner."""
    message: BeginPart | AppendPart | FinishPart | GetPart = received.message  # type: ignore[assignment]
    caller.prefixes("append")
    return received._replace(message=replace(message, token=caller.token(message.token)))


def _some_parts(caller: Caller, received: Received) -> Received:
    message: DropParts | KeepParts = received.message  # type: ignore[assignment]
    caller.prefixes("append")
    return received._replace(message=replace(message, parts=_owned_parts(caller, message.parts)))


def _publish(caller: Caller, received: Received) -> Received:
    """Whoever publishes also commits what it has consumed, which takes the right to read."""
    message: PublishParts = received.message  # type: ignore[assignment]
    caller.prefixes("append")
    if message.consumed:
        caller.prefixes("read")
    owned = PublishParts(
        # Without a name nothing is remembered of it, whoever it is.
        caller.owned(message.writer, WRITER_NAME_BYTES_MAX) if message.writer else "",
        message.key,
        message.owner,
        _owned_parts(caller, message.parts),
        tuple(owned_command(caller, each) for each in message.consumed),  # type: ignore[misc]
    )
    return received._replace(message=owned)


def _end_writer(caller: Caller, received: Received) -> Received:
    message: EndWriter = received.message  # type: ignore[assignment]
    caller.prefixes("append")
    return received._replace(message=EndWriter(caller.owned(message.writer, WRITER_NAME_BYTES_MAX), message.key))


def _owned_parts(caller: Caller, parts: tuple[PartName, ...]) -> tuple[PartName, ...]:
    return tuple((lane, caller.token(token)) for lane, token in parts)


def _said_session(caller: Caller, session: Session) -> Session:
    return replace(session, name=caller.said(session.name))


def _session_is(caller: Caller, message: SessionIs) -> SessionIs:
    """A session of somebody else is none."""
    session = message.session
    return SessionIs(None if session is None or not caller.owns(session.name) else _said_session(caller, session))


def _applied(caller: Caller, message: Applied) -> Applied:
    return Applied(tuple(_said_outcome(caller, each) for each in message.outcomes))


def _said_outcome(caller: Caller, outcome: Any) -> Any:
    match outcome:
        case SessionOpened() | SessionMoved() | ExpiredSession():
            return replace(outcome, session=_said_session(caller, outcome.session))
        case PartsPublished(published) | PublishConflicts(published):
            return replace(outcome, published=replace(published, writer=caller.said(published.writer)))
        case _:
            return outcome


def _get_writers(caller: Caller, received: Received) -> Received:
    message: GetWriters = received.message  # type: ignore[assignment]
    caller.check("admin")
    return received._replace(message=GetWriters(after_name(caller, message.after)))


def _sessions_are(caller: Caller, message: SessionsAre) -> SessionsAre:
    said = tuple(replace(each, name=caller.said(each.name)) for each in message.sessions)
    return SessionsAre(message.time_us, said)


def _writers_are(caller: Caller, message: WritersAre) -> WritersAre:
    said = ((replace(each, writer=caller.said(each.writer)), time_us) for each, time_us in message.writers)
    return WritersAre(message.time_us, tuple(said))


SCALOG_RULES: Rules = {
    **RULES,
    GetView: open_to_all,
    GetTail: known,
    GetSession: needs_some("append"),
    GetSessions: needs("admin"),
    GetWriters: _get_writers,
    BeginSession: _begin_session,
    RelocateSession: needs_some("append"),
    EndSession: needs_some("append"),
    TrimBefore: needs("trim"),
    BeginPart: _one_part,
    AppendPart: _one_part,
    FinishPart: _one_part,
    GetPart: _one_part,
    PublishParts: _publish,
    DropParts: _some_parts,
    KeepParts: _some_parts,
    EndWriter: _end_writer,
    AddShard: needs("admin"),
    FinalizeShard: needs("admin"),
    DismissReplica: needs("admin"),
    DeclareLoss: needs("admin"),
    Admit: needs("admin"),
    Append: needs_some("append"),
    GetNextSeq: needs_some("append"),
    GetSessionTail: needs_some("append"),
    Read: needs_some("read"),
    Subscribe: needs_some("read"),
    SeekTime: needs_some("read"),
    LocateRecords: needs("read"),
}

SCALOG_WORDING: Wording = {
    **WORDING,
    Applied: _applied,
    SessionIs: _session_is,
    SessionsAre: _sessions_are,
    WritersAre: _writers_are,
}
