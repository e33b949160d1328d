"""What clients and other servers ask: every outside message is checked here, once, and answered.

Appends go to the leader's part in the order in which they came. Whatever has to wait (reads, streams) is a task of the
connection, and ends with it. What only a leader can answer is kept for a moment while nobody leads, then redirected.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from ithaca.engines.raft.messages import (
    Append,
    BeginSession,
    CopyLane,
    EndSession,
    GetLog,
    GetSessions,
    LaneCopy,
    LaneLocation,
    LocateLane,
    LogIs,
    PositionIs,
    Read,
    SeekTime,
    SessionIs,
    SessionsAre,
    Subscribe,
    TrimBefore,
)
from ithaca.engines.raft.replog.entries import ChangeUsers, Control, ExpireSessions, OpenSession, TrimLog
from ithaca.engines.raft.replog.sessions import Session
from ithaca.engines.raft.server.copying import batches_to_copy
from ithaca.engines.raft.server.reading import Stream
from ithaca.model.errors import (
    InvalidInput,
    IthacaError,
    NamesFull,
    NoSuchSession,
    NotAllowed,
    ProtocolError,
    SessionExpired,
    Unavailable,
    Unsupported,
)
from ithaca.model.limits import NAMES_ANSWERED_MAX, ORDERING_NAMED_SESSIONS_MAX
from ithaca.model.positions import lsn_of
from ithaca.protocol import users as protocol_users
from ithaca.protocol.codec import Received
from ithaca.protocol.consumers import BeatGroup, ChangeConsumers, ConsumersChanged, GetConsumers, GetGroup
from ithaca.protocol.greeting import GetStatus, Redirect, StatusIs
from ithaca.protocol.members import AddOrderer, GetMembers, RemoveOrderer
from ithaca.runtime.connection import Connection
from ithaca.runtime.machine import machine_name, place_of
from ithaca.runtime.raft.ports import Waiter
from ithaca.server.connection_tasks import ConnectionTasks
from ithaca.server.consumers import Question
from ithaca.server.leader_waits import LeaderWaits
from ithaca.server.raft_host.orderers import agreed_orderers
from ithaca.server.received_batch import one_batch
from ithaca.server.status import encode_status
from ithaca.server.users.desk import listed_users, too_many
from ithaca.server.users.keys import check_appended, readable_row
from ithaca.users.names import owner_of
from ithaca.users.table import UserChanges

if TYPE_CHECKING:
    from ithaca.engines.raft.server.server import RaftServer

_log = logging.getLogger("ithaca.raft")

LOCATE_WAIT_S = 1.0
"""A server that is asked for its files has so long to learn what is agreed on."""


class Requests:
    """What all connections of a server have in common."""

    def __init__(self, server: "RaftServer") -> None:
        self.server = server
        self._waits = LeaderWaits(self._turn_away)
        self._handlers: dict[type, Callable[[Connection, Received, Any], None]] = {
            Append: self._append,
            GetLog: self._get_log,
            BeginSession: self._begin_session,
            EndSession: self._end_session,
            TrimBefore: self._trim,
            SeekTime: self._seek_time,
            GetSessions: self._get_sessions,
            AddOrderer: self._members,
            RemoveOrderer: self._members,
            GetMembers: self._members,
            ChangeConsumers: self._change_consumers,
            protocol_users.ChangeUsers: self._change_users,
            protocol_users.ListUsers: self._list_users,
            GetConsumers: self._tell_of_consumers,
            BeatGroup: self._tell_of_consumers,
            GetGroup: self._tell_of_consumers,
        }

    def close(self) -> None:
        self._waits.close()

    def leader_changed(self) -> None:
        """Another server leads, or this one does and is ready, or nobody does."""
        server = self.server
        if not server.is_ready and (server.leading is not None or server.host.group.leader is None):
            self._waits.lost()
            return
        for connection, request in self._waits.found():
            if connection.is_open:
                self.take(connection, request)

    def take(self, connection: Connection, request: Received) -> None:
        """Take what only the leader answers; `ProtocolError` for what nobody does."""
        handler = self._handlers.get(type(request.message))
        if handler is None:
            raise ProtocolError(f"a server of this engine does not take {type(request.message).__name__}")
        if not self.server.is_ready:
            if not self._waits.hold(connection, request):
                self._turn_away(connection, request)
            return
        try:
            handler(connection, request, request.message)
        except ProtocolError:
            raise
        except IthacaError as error:
            self.fail(connection, request, error)

    def fail(self, connection: Connection, request: Received, error: IthacaError) -> None:
        self.server.metrics.refused(error)
        connection.fail(request, error)

    def _turn_away(self, connection: Connection, request: Received) -> None:
        if self.server.leading is None:
            group = self.server.host.group
            connection.answer(request, Redirect(group.leader, agreed_orderers(group)))
        else:
            self.fail(connection, request, Unavailable("this server has just been elected: try again"))

    def _waiter(self, connection: Connection, request: Received, done: Callable[..., None]) -> Waiter:
        def failed(error: IthacaError) -> None:
            if self.server.leading is None and not error.outcome_unknown:
                self._turn_away(connection, request)
            else:
                self.fail(connection, request, error)

        def answered(result: Any) -> None:
            try:
                done(result)
            except IthacaError as error:
                self.fail(connection, request, error)

        return Waiter(answered, failed)

    # As the leader

    def _append(self, connection: Connection, request: Received, message: Append) -> None:
        assert self.server.leading is not None
        batch = one_batch(request)
        if not batch.producer_id:
            raise InvalidInput("a batch belongs to a session, and this one names none")
        check_appended(connection, batch)
        self._check_session(connection, batch.producer_id)
        self.server.metrics.received_bytes.inc(batch.total_bytes)
        self.server.leading.append(connection, request.correlation, batch)

    def _check_session(self, connection: Connection, producer_id: int) -> None:
        """`NotAllowed` for a session of another user. Whoever has opened one knows of it after it was agreed on."""
        if connection.caller is None:
            return
        session = self.server.machine.state.sessions.by_id.get(producer_id)
        if session is None:
            raise SessionExpired(f"the session of producer {producer_id} has expired, or is not open: open it again")
        if not connection.caller.owns(session.name):
            raise NotAllowed(f"session {session.name!r} is not of user {connection.caller.name}", right="append")

    def _check_room(self, connection: Connection, name: str) -> None:
        """`Overloaded` for a session more than its user may have."""
        user = None if connection.caller is None else connection.caller.user
        if user is None or not user.limits.sessions:
            return
        sessions = self.server.machine.state.sessions.by_id.values()
        names = {each.name for each in sessions if owner_of(each.name) == user.name}
        if name not in names and len(names) >= user.limits.sessions:
            raise too_many(user.name, len(names), "sessions", user.limits.sessions)

    def _change_users(self, connection: Connection, request: Received, message: protocol_users.ChangeUsers) -> None:
        def done(outcomes: Any) -> None:
            connection.answer(request, protocol_users.UsersChanged(outcomes))

        self._propose(connection, request, ChangeUsers(UserChanges(message.commands)), done)

    def _list_users(self, connection: Connection, request: Received, message: protocol_users.ListUsers) -> None:
        def answer(_: int) -> None:
            connection.answer(request, listed_users(self.server.machine.state.users, message))

        self._read(connection, request, answer)

    def _propose(
        self, connection: Connection, request: Received, entry: Control, done: Callable[[Session | None], None]
    ) -> None:
        assert self.server.leading is not None
        full = self.server.host.driver.storage_full
        if full is not None:
            raise Unavailable(f"the leader cannot write now: {full}")
        self.server.metrics.proposals.inc()
        self.server.leading.propose(entry, self._waiter(connection, request, done))

    def _read(self, connection: Connection, request: Received, answer: Callable[[int], None]) -> None:
        """Answer once it is certain that this server led after the request had come."""
        self.server.host.driver.submit_read(self._waiter(connection, request, answer))

    def _log_is(self) -> LogIs:
        state = self.server.machine.state
        return LogIs(state.first, state.tail)

    def _get_log(self, connection: Connection, request: Received, message: GetLog) -> None:
        self._read(connection, request, lambda _: connection.answer(request, self._log_is()))

    def _begin_session(self, connection: Connection, request: Received, message: BeginSession) -> None:
        def done(session: Session | None) -> None:
            if session is None:
                raise NamesFull(
                    f"session {message.name!r} cannot be opened, since {ORDERING_NAMED_SESSIONS_MAX} names are taken: "
                    "expire one that nobody needs any more (ithaca session list, ithaca session expire NAME)"
                )
            connection.answer(request, SessionIs(session.producer_id, session.epoch, session.next_seq))

        self._check_room(connection, message.name)
        self._propose(connection, request, OpenSession(message.name), done)

    def _end_session(self, connection: Connection, request: Received, message: EndSession) -> None:
        def ended(_: object) -> None:
            connection.answer(request, self._log_is())

        def look(_: int) -> None:
            session = self.server.machine.state.sessions.find(message.name)
            if session is None:
                raise NoSuchSession(f"there is no session {message.name!r}: it was never opened, or has expired")
            entry = ExpireSessions(((session.producer_id, message.epoch or session.epoch),))
            loop = asyncio.get_running_loop()  # the read is told from within Raft, and a proposal must not be
            loop.call_soon(self._again, connection, request, entry, ended)

        self._read(connection, request, look)

    def _again(self, connection: Connection, request: Received, entry: Control, done: Callable[..., None]) -> None:
        if self.server.is_ready:
            self._propose(connection, request, entry, done)
        else:
            self._turn_away(connection, request)

    def _trim(self, connection: Connection, request: Received, message: TrimBefore) -> None:
        def done(_: object) -> None:
            state = self.server.machine.state
            if message.before > state.tail:
                raise InvalidInput(
                    f"cannot trim before {message.before}: the tail is {state.tail}, and only what is written can go"
                )
            connection.answer(request, self._log_is())

        self._propose(connection, request, TrimLog(lsn_of(message.before)), done)

    def _seek_time(self, connection: Connection, request: Received, message: SeekTime) -> None:
        def look(_: int) -> None:
            tail = self.server.machine.state.tail

            async def answer() -> None:
                connection.answer(request, PositionIs(await self.server.read_view.seek_time(message.time_us, tail)))

            self.server.start_task(connection, request, answer)

        self._read(connection, request, look)

    def _get_sessions(self, connection: Connection, request: Received, message: GetSessions) -> None:
        def answer(_: int) -> None:
            named = (each for each in self.server.machine.state.sessions.named() if each.producer_id > message.after)
            found = [(each.producer_id, each.name, each.epoch) for each in islice(named, NAMES_ANSWERED_MAX)]
            connection.answer(request, SessionsAre(tuple(found)))

        self._read(connection, request, answer)

    def _change_consumers(self, connection: Connection, request: Received, message: ChangeConsumers) -> None:
        assert self.server.consumers is not None
        waiter = self._waiter(
            connection, request, lambda outcomes: connection.answer(request, ConsumersChanged(outcomes))
        )
        self.server.consumers.change(message.commands, waiter)

    def _tell_of_consumers(self, connection: Connection, request: Received, message: Question) -> None:
        def answer(_: int) -> None:
            if self.server.consumers is not None:
                self.server.consumers.answer(connection, request, message)

        self._read(connection, request, answer)

    def _members(
        self, connection: Connection, request: Received, message: AddOrderer | RemoveOrderer | GetMembers
    ) -> None:
        changes = self.server.host.changes
        waiter = self._waiter(connection, request, lambda members: connection.answer(request, members))
        match message:
            case AddOrderer(server, address):
                changes.add(server, address, waiter)
            case RemoveOrderer(server):
                changes.remove(server, waiter)
            case GetMembers():
                changes.tell(waiter)


class RequestPeer:
    """One connection from outside."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests
        self._server = requests.server
        self.tasks = ConnectionTasks("server", _log, requests.server.failed_to_answer)

    def on_message(self, connection: Connection, received: Received) -> None:
        try:
            match received.message:
                case Read() as message:
                    self._read(connection, received, message)
                case Subscribe() as message:
                    self._subscribe(connection, received, message)
                case CopyLane() as message:
                    self._copy(connection, received, message)
                case LocateLane() as message:
                    self._locate(connection, received, message)
                case GetStatus():
                    connection.answer(received, StatusIs(encode_status(self._server.status())))
                case _:
                    self._requests.take(connection, received)
        except ProtocolError:
            raise
        except IthacaError as error:
            self._requests.fail(connection, received, error)

    def on_lost(self, connection: Connection, error: IthacaError | None) -> None:
        self.tasks.cancel()

    def _check_member(self) -> None:
        """Who waits to be added has nothing to read, perhaps for ever: readers do not wait here."""
        if self._server.host.group.state == "waiting":
            raise Unavailable("this server waits to be added, and has nothing to read yet: ask another")

    def _read(self, connection: Connection, received: Received, message: Read) -> None:
        self._check_member()
        readable = partial(readable_row, connection)
        try:
            known = self._server.read_view.read_now(message.position, readable)
        except IthacaError as error:
            self.tasks.fail(connection, received, error)
            return
        if known is not None:
            connection.answer(received, *known)
            return

        async def answer() -> None:
            found, payload = await self._server.read_view.read(message.position, message.wait_ms / 1000, readable)
            connection.answer(received, found, payload)

        self.tasks.start(connection, received, answer)

    def _subscribe(self, connection: Connection, received: Received, message: Subscribe) -> None:
        self._check_member()
        connection.allow_slow_reader()
        stream = Stream(self._server.read_view, connection, message, self._server.metrics.sent)
        self.tasks.start(connection, received, stream.run)

    def _copy(self, connection: Connection, received: Received, message: CopyLane) -> None:
        async def answer() -> None:
            length = self._server.machine.state.length
            stop = min(message.stop, length)
            if message.lsn >= stop:
                raise Unavailable(f"this server knows the log up to LSN {length}, and {message.lsn} was asked for")
            batches = await asyncio.to_thread(batches_to_copy, self._server.store, message.lsn, stop)
            await self._server.copy_pace.wait(sum(batch.total_bytes for batch in batches))
            connection.answer(received, LaneCopy(), [buffer for batch in batches for buffer in batch.buffers()])

        self.tasks.start(connection, received, answer)

    def _locate(self, connection: Connection, received: Received, message: LocateLane) -> None:
        self._check_member()

        async def answer() -> None:
            if message.machine != machine_name():
                raise Unsupported("the reader is not on this server's machine: subscribe instead")
            readable = self._server.read_view.readable
            readable.check_open()
            readable.check_not_trimmed(message.start)
            if not await readable.wait(message.stop - 1, LOCATE_WAIT_S):
                raise Unavailable(f"what is agreed on below position {message.stop} is not all here yet: ask another")
            connection.answer(received, LaneLocation(*place_of(self._server.store.lane.directory)))

        self.tasks.start(connection, received, answer)
