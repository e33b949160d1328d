"""What clients and peers ask of a replica: every outside message is checked here, once, and answered.

Appends go to the core in the order in which they came. Whatever has to wait (reads, streams) is a task of the
connection, and ends with it.
"""

import logging
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from ithaca.engines.scalog.messages.appending import (
    Append,
    AppendPart,
    GetNextSeq,
    GetSessionTail,
    NextSeqIs,
    SessionTailReply,
)
from ithaca.engines.scalog.messages.copying import FollowLane, GetRuns, RunsReply
from ithaca.engines.scalog.messages.losing import GetHeldLength, HeldLengthIs
from ithaca.engines.scalog.messages.places import LocateRecords, RecordLocations, said_follows
from ithaca.engines.scalog.messages.reading import Behind, KeptFrom, Read, SeekBytes, SeekTime, Subscribe, TimeIs
from ithaca.engines.scalog.server.replica.feed import send_stored
from ithaca.engines.scalog.server.replica.streams import Stream
from ithaca.engines.scalog.storage.held_lane import HeldLane
from ithaca.engines.scalog.storage.runs import Runs
from ithaca.engines.scalog.storage.shard_bytes import position_beyond
from ithaca.engines.scalog.storage.shard_reader import places, seek_time
from ithaca.model.errors import (
    InvalidInput,
    IthacaError,
    NotAllowed,
    ProtocolError,
    Trimmed,
    Unavailable,
    Unsupported,
    WrongLane,
)
from ithaca.model.limits import RUNS_ANSWERED_MAX
from ithaca.model.positions import LaneId
from ithaca.protocol.codec import Received
from ithaca.protocol.greeting import GetStatus, StatusIs
from ithaca.runtime.connection import Connection
from ithaca.runtime.machine import machine_name, place_of
from ithaca.server.connection_tasks import ConnectionTasks
from ithaca.server.received_batch import one_batch
from ithaca.server.status import encode_status
from ithaca.server.users.keys import check_appended, readable_row

if TYPE_CHECKING:
    from ithaca.engines.scalog.server.replica.server import ReplicaServer

_log = logging.getLogger("ithaca.replica")
_SEEK_WAIT_S = 5.0


class GatewayPeer:
    """One connection from outside."""

    def __init__(self, server: "ReplicaServer") -> None:
        self._server = server
        self._tasks = ConnectionTasks("replica", _log, server.damage.met)
        self._handlers: dict[type, Callable[[Connection, Received, Any], None]] = {
            Append: self._append,
            AppendPart: self._append_part,
            Read: self._read,
            Subscribe: self._subscribe,
            SeekTime: self._seek_time,
            SeekBytes: self._seek_bytes,
            LocateRecords: self._places,
            GetNextSeq: self._next_seq,
            GetSessionTail: self._placed,
            GetRuns: self._runs,
            FollowLane: self._follow,
            GetHeldLength: self._held_length,
            GetStatus: self._status,
        }

    def on_message(self, connection: Connection, received: Received) -> None:
        handler = self._handlers.get(type(received.message))
        if handler is None:
            raise ProtocolError(f"a replica does not take {type(received.message).__name__}")
        try:
            handler(connection, received, received.message)
        except ProtocolError:
            raise
        except IthacaError as error:
            self._server.metrics.refused(error)
            self._server.damage.met(error)
            connection.fail(received, error)

    def on_lost(self, connection: Connection, error: IthacaError | None) -> None:
        self._tasks.cancel()
        self._server.connection_lost(connection)

    def _append(self, connection: Connection, received: Received, message: Append) -> None:
        batch = one_batch(received)
        check_appended(connection, batch)
        self._check_session(connection, batch.producer_id)
        self._server.appended(connection, received.correlation, message.lane, batch)

    def _append_part(self, connection: Connection, received: Received, message: AppendPart) -> None:
        batch = one_batch(received)
        if batch.producer_id:
            raise InvalidInput(
                f"a batch of a part belongs to no session, and this one names producer {batch.producer_id}"
            )
        check_appended(connection, batch)
        correlation = received.correlation
        self._server.part_appended(connection, correlation, message.lane, message.token, message.lsn, batch)

    def _read(self, connection: Connection, received: Received, message: Read) -> None:
        readable = partial(readable_row, connection)
        try:
            known = self._server.read_view.read_now(message.position, readable)
        except IthacaError as error:
            self._tasks.fail(connection, received, error)
            return
        if known is not None:
            connection.answer(received, *known)
            return

        async def answer() -> None:
            found, payload = await self._server.read_view.read(message.position, message.wait_ms / 1000, readable)
            connection.answer(received, found, payload)

        self._tasks.start(connection, received, answer)

    def _subscribe(self, connection: Connection, received: Received, message: Subscribe) -> None:
        server = self._server
        connection.allow_slow_reader()
        stream = Stream(server.read_view, connection, message, server.metrics.sent)
        self._tasks.start(connection, received, stream.run)

    def _seek_time(self, connection: Connection, received: Received, message: SeekTime) -> None:
        async def answer() -> None:
            read_view = self._server.read_view
            if not await read_view.readable.wait(message.tail - 1, _SEEK_WAIT_S):
                connection.answer(received, Behind(read_view.order.tail))
                return
            connection.answer(received, TimeIs(seek_time(read_view.store, message.time_us, message.tail)))

        self._tasks.start(connection, received, answer)

    def _seek_bytes(self, connection: Connection, received: Received, message: SeekBytes) -> None:
        open_lanes = {lane for lane, is_open, _, _ in self._server.core.lanes() if is_open}
        connection.answer(received, KeptFrom(position_beyond(self._server.store, open_lanes, message.bytes_max)))

    def _places(self, connection: Connection, received: Received, message: LocateRecords) -> None:
        async def answer() -> None:
            if message.machine != machine_name():
                raise Unsupported("the reader is not on this replica's machine: subscribe instead")
            read_view, store = self._server.read_view, self._server.store
            if not await read_view.readable.wait(message.stop - 1, _SEEK_WAIT_S):
                raise Unavailable(f"what is ordered below position {message.stop} is not all here yet: ask another")
            found, up_to = places(store, message.start, message.stop, RUNS_ANSWERED_MAX)
            for stretch in found:
                read_view.check_not_lost(stretch)
            read_view.check_not_strewn(message.start, up_to)
            follows = said_follows([stretch.follows for stretch in found])
            stretches = tuple(stretch[:4] for stretch in found)
            connection.answer(received, RecordLocations(*place_of(store.directory), stretches, up_to, follows))

        self._tasks.start(connection, received, answer)

    def _next_seq(self, connection: Connection, received: Received, message: GetNextSeq) -> None:
        self._check_session(connection, message.producer_id)
        next_seq = self._server.core.next_seq(message.lane, message.producer_id, message.epoch)
        connection.answer(received, NextSeqIs(next_seq))

    def _placed(self, connection: Connection, received: Received, message: GetSessionTail) -> None:
        lane = message.lane
        if not self._server.core.has_every_batch(lane) or self._held(lane).lane.state.has_holes:
            if self._server.core.lost(lane):
                raise Unavailable(f"records of lane {lane} are lost, and what the session did last: expire the session")
            raise Unavailable(f"lane {lane} is not closed and complete at this replica yet: ask again, or another")
        held = self._held(lane)
        placed = held.lane.state.sessions.placed_of(message.producer_id)
        items = [(each.first_seq, each.count, _position_of(held.runs, each.base_lsn)) for each in placed]
        connection.answer(received, SessionTailReply(tuple(items)))

    def _runs(self, connection: Connection, received: Received, message: GetRuns) -> None:
        known = self._held(message.lane).runs
        # If what is asked for was trimmed, the first run that is left says so.
        runs = list(islice(known.runs(message.start, max(message.stop, known.first_lsn + 1)), RUNS_ANSWERED_MAX))
        follows = said_follows([run.follows for run in runs])
        connection.answer(received, RunsReply(tuple(run[:4] for run in runs), follows))

    def _follow(self, connection: Connection, received: Received, message: FollowLane) -> None:
        server = self._server
        if message.stop is not None:
            find, is_settled = partial(self._held, message.lane), server.core.is_settled
            work = partial(
                send_stored, connection, find, message.start, message.stop, is_settled, with_places=server.has_places
            )
        elif server.feed is not None and message.lane == server.core.own_lane:
            work = partial(server.feed.follow, connection, message.start)
        elif server.core.is_written_here(message.lane):
            work = partial(server.part_feeds.follow, connection, message.lane, message.start)
        else:
            raise WrongLane(f"lane {message.lane} is not written here")
        self._tasks.start(connection, received, work)

    def _held_length(self, connection: Connection, received: Received, message: GetHeldLength) -> None:
        connection.answer(received, HeldLengthIs(*self._server.core.held_length(message.lane)))

    def _status(self, connection: Connection, received: Received, _: GetStatus) -> None:
        connection.answer(received, StatusIs(encode_status(self._server.status())))

    def _check_session(self, connection: Connection, producer_id: int) -> None:
        """`NotAllowed` for a session of another user; of one that does not live here the core says so."""
        caller = connection.caller
        name = None if caller is None else self._server.core.session_name(producer_id)
        if caller is not None and name is not None and not caller.owns(name):
            raise NotAllowed(f"session {name!r} is not of user {caller.name}: open one", right="append")

    def _held(self, lane: LaneId) -> HeldLane:
        held = self._server.store.get(lane)
        if held is None:
            raise WrongLane(f"lane {lane} is not held here")
        return held


def _position_of(runs: Runs, lsn: int) -> int:
    """The position of a record that is ordered; 0 when it was trimmed, and is not known any more."""
    try:
        return runs.position_of(lsn)
    except Trimmed:
        return 0
