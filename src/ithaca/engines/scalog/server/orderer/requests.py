"""What an orderer is asked. What clients ask the leader for is here; what replicas say is in `joins`, what
aggregators say in `carried`, and views are in `views`."""

from collections.abc import Callable
from itertools import islice
from typing import Any

from ithaca.engines.scalog.messages.appending import FinishPart, GetPart, PartIs
from ithaca.engines.scalog.messages.listing import GetSessions, GetWriters, SessionsAre, WritersAre, listed
from ithaca.engines.scalog.messages.losing import DeclareLoss
from ithaca.engines.scalog.messages.order import (
    Admit,
    Applied,
    GetSession,
    GetTail,
    GetView,
    Propose,
    SessionIs,
    TailReply,
)
from ithaca.engines.scalog.messages.reporting import Enlist, Join, ReportIs, SignOfLife
from ithaca.engines.scalog.messages.requests import REQUESTS, EndSession, RelocateSession, Request, entry_of, request_of
from ithaca.engines.scalog.ordering.entries import OrderingEntry, decode_entry, encode_entry, goes_by_time, timed
from ithaca.engines.scalog.ordering.outcomes import Outcome, RefusedEntry
from ithaca.engines.scalog.ordering.prepared.entries import ExpireParts
from ithaca.engines.scalog.server.orderer.aggregators import Aggregators
from ithaca.engines.scalog.server.orderer.answers import Answers
from ithaca.engines.scalog.server.orderer.carried import CarriedRequests
from ithaca.engines.scalog.server.orderer.joins import JoinRequests
from ithaca.engines.scalog.server.orderer.leading import LeaderService
from ithaca.engines.scalog.server.orderer.machine import OrderingMachine
from ithaca.engines.scalog.server.orderer.streams import NewsStreams
from ithaca.engines.scalog.server.orderer.users import UserRequests, check_room
from ithaca.engines.scalog.server.orderer.views import ViewRequests
from ithaca.model.errors import (
    InvalidInput,
    IthacaError,
    ProtocolError,
)
from ithaca.model.limits import NAMES_ANSWERED_MAX
from ithaca.protocol.codec import Received
from ithaca.protocol.consumers import BeatGroup, ChangeConsumers, ConsumersChanged, GetConsumers, GetGroup
from ithaca.protocol.greeting import GetStatus, StatusIs
from ithaca.protocol.members import AddOrderer, GetMembers, RemoveOrderer
from ithaca.protocol.together import Together
from ithaca.runtime.connection import Connection
from ithaca.runtime.metrics import OrdererMetrics
from ithaca.server.consumers import Question
from ithaca.server.raft_host.host import RaftHost
from ithaca.sessions.carried import decode_carried


class Requests:
    """Takes the messages of clients and replicas, of all their connections."""

    def __init__(
        self,
        machine: OrderingMachine,
        host: RaftHost,
        streams: NewsStreams,
        status: Callable[[], bytes],
        metrics: OrdererMetrics,
        aggregators: Aggregators,
        time_us: Callable[[], int],
    ) -> None:
        """`time_us` is the order's time, as the leader says it."""
        self._time_us = time_us
        self._changes = host.changes
        self._status = status
        self._answers = Answers(machine, host, metrics)
        self._views = ViewRequests(self._answers)
        joins = self._joins = self._make_joins(streams, aggregators)
        self.together = Together.of(ReportIs, joins.reports)
        """What is taken in one go of what came together."""
        self._handlers: dict[type, Callable[[Connection, Received, Any], None]] = {
            ReportIs: joins.report,
            GetView: self._views.get,
            GetTail: self._get_tail,
            GetSession: self._get_session,
            Propose: self._propose,
            FinishPart: self._finish_part,
            GetPart: self._get_part,
            DeclareLoss: self._declare_loss,
            GetSessions: self._get_sessions,
            GetWriters: self._get_writers,
            Join: joins.join,
            SignOfLife: joins.sign_of_life,
            Enlist: joins.enlist,
            Admit: joins.admit,
            AddOrderer: self._members,
            RemoveOrderer: self._members,
            GetMembers: self._members,
            ChangeConsumers: self._change_consumers,
            GetConsumers: self._tell_of_consumers,
            BeatGroup: self._tell_of_consumers,
            GetGroup: self._tell_of_consumers,
            GetStatus: self._get_status,
            **UserRequests(self._answers).handlers,
        }
        self._handlers |= dict.fromkeys(REQUESTS, self._asked)
        self._handlers |= CarriedRequests(self._answers, streams, aggregators).handlers

    def _make_joins(self, streams: NewsStreams, aggregators: Aggregators) -> JoinRequests:
        return JoinRequests(self._answers, streams, aggregators)

    # What connections call

    def on_message(self, connection: Connection, received: Received) -> None:
        handler = self._handlers.get(type(received.message))
        if handler is None:
            raise ProtocolError(f"an orderer takes no {type(received.message).__name__} from {connection.name}")
        handler(connection, received, received.message)

    def on_lost(self, connection: Connection, error: IthacaError | None) -> None:
        self._joins.lost(connection)

    # What the server calls

    def leads(self, leading: LeaderService | None) -> None:
        """This server leads from now on, or does not any more."""
        self._answers.leading = leading

    def leader_changed(self) -> None:
        """Another server leads, or this one does and is ready, or nobody does: whoever waited for that is answered."""
        for connection, request in self._answers.leader_changed():
            if connection.is_open:
                self.on_message(connection, request)

    def applied(self) -> None:
        """Entries were applied: whoever waits for this view is answered."""
        self._views.applied()

    def close(self) -> None:
        self._views.close()
        self._answers.close()

    # From this server alone

    def _get_status(self, connection: Connection, request: Received, message: GetStatus) -> None:
        connection.answer(request, StatusIs(self._status()))

    # As the leader

    def _get_tail(self, connection: Connection, request: Received, message: GetTail) -> None:
        def answer(index: int) -> None:
            state = self._answers.state
            time_us = self._time_us()
            connection.answer(request, TailReply(state.tail, state.first, time_us, state.shards.version))

        self._answers.read(connection, request, answer)

    def _get_session(self, connection: Connection, request: Received, message: GetSession) -> None:
        def answer(index: int) -> None:
            connection.answer(request, SessionIs(self._answers.state.sessions.by_id.get(message.producer_id)))

        self._answers.read(connection, request, answer)

    def _propose(self, connection: Connection, request: Received, message: Propose) -> None:
        """A client of version 1 of the protocol: its entry is taken for the request that leads to it."""
        if self._answers.may_lead(connection, request):
            try:
                asked = request_of(decode_entry(message.entry))
            except IthacaError as error:
                self._answers.fail(connection, request, error)
            else:
                self._asked(connection, request, asked)

    def _asked(self, connection: Connection, request: Received, message: Request) -> None:
        if not self._answers.may_lead(connection, request):
            return
        try:
            _check(message)
            entry = entry_of(message)
            encode_entry(entry)
        except IthacaError as error:
            self._answers.fail(connection, request, InvalidInput(str(error)))
            return
        if connection.caller is not None and not self._may_ask(connection, request, message, entry):
            return

        def done(outcomes: list[Outcome]) -> None:
            self._answers.applied(connection, request, outcomes)

        def order() -> None:
            self._answers.submit(connection, request, timed(entry, self._time_us()), done)

        self._behind_time(connection, request, entry, order)

    def _behind_time(
        self, connection: Connection, request: Received, entry: OrderingEntry, order: Callable[[], None]
    ) -> None:
        """Have an entry ordered, and before it the time that it goes by."""
        if goes_by_time(entry):
            self._answers.submit(connection, request, ExpireParts((), self._time_us()), lambda _: order())
        else:
            order()

    def _may_ask(self, connection: Connection, request: Received, message: Request, entry: OrderingEntry) -> bool:
        """Whether the session is the user's own, and what it asks for is not too much; else it is told."""
        assert connection.caller is not None
        state = self._answers.state
        if isinstance(message, EndSession | RelocateSession):
            session = state.sessions.by_id.get(message.producer_id)
            if session is None or not connection.caller.owns(session.name):
                # As if there were none: what it will be of whoever comes first is not this user's to say.
                connection.answer(request, Applied((RefusedEntry(entry, "no such session"),)))
                return False
        try:
            check_room(connection.caller, state, message)
        except IthacaError as error:
            self._answers.fail(connection, request, error)
            return False
        return True

    def _finish_part(self, connection: Connection, request: Received, message: FinishPart) -> None:
        if self._answers.may_lead(connection, request):
            assert self._answers.leading is not None
            self._answers.leading.finish_part(
                message,
                lambda outcomes: self._answers.applied(connection, request, outcomes),
                lambda error: self._answers.failed(connection, request, error),
            )

    def _declare_loss(self, connection: Connection, request: Received, message: DeclareLoss) -> None:
        if self._answers.may_lead(connection, request) and self._answers.has_room(connection, request):
            assert self._answers.leading is not None
            self._answers.leading.losses.declare(
                message,
                lambda outcomes: self._answers.applied(connection, request, outcomes),
                lambda error: self._answers.failed(connection, request, error),
            )

    def _get_part(self, connection: Connection, request: Received, message: GetPart) -> None:
        def answer(index: int) -> None:
            connection.answer(request, PartIs(self._answers.state.parts.find((message.lane, message.token))))

        self._answers.read(connection, request, answer)

    def _get_sessions(self, connection: Connection, request: Received, message: GetSessions) -> None:
        def answer(index: int) -> None:
            state = self._answers.state
            named = (each for _, each in sorted(state.sessions.by_id.items()) if not each.is_anonymous)
            some = islice((each for each in named if each.producer_id > message.after), NAMES_ANSWERED_MAX)
            connection.answer(request, SessionsAre(self._time_us(), tuple(map(listed, some))))

        self._answers.read(connection, request, answer)

    def _get_writers(self, connection: Connection, request: Received, message: GetWriters) -> None:
        def answer(index: int) -> None:
            writers = self._answers.state.parts.writers
            names = islice((name for name in sorted(writers.by_name) if name > message.after), NAMES_ANSWERED_MAX)
            items = tuple((writers.by_name[name], writers.published_us(name)) for name in names)
            connection.answer(request, WritersAre(self._time_us(), items))

        self._answers.read(connection, request, answer)

    def _change_consumers(self, connection: Connection, request: Received, message: ChangeConsumers) -> None:
        if self._answers.may_lead(connection, request) and self._answers.has_room(connection, request):
            assert self._answers.leading is not None
            waiter = self._answers.waiter(
                connection, request, lambda outcomes: connection.answer(request, ConsumersChanged(outcomes))
            )
            self._answers.leading.consumers.change(message.commands, waiter)

    def _tell_of_consumers(self, connection: Connection, request: Received, message: Question) -> None:
        def answer(index: int) -> None:
            if self._answers.leading is not None:
                self._answers.leading.consumers.answer(connection, request, message)

        self._answers.read(connection, request, answer)

    def _members(
        self, connection: Connection, request: Received, message: AddOrderer | RemoveOrderer | GetMembers
    ) -> None:
        if not self._answers.may_lead(connection, request):
            return
        if isinstance(message, GetMembers) or self._answers.has_room(connection, request):
            waiter = self._answers.waiter(connection, request, lambda members: connection.answer(request, members))
            match message:
                case AddOrderer(server, address):
                    self._changes.add(server, address, waiter)
                case RemoveOrderer(server):
                    self._changes.remove(server, waiter)
                case GetMembers():
                    self._changes.tell(waiter)


def _check(message: Request) -> None:
    """What a session carries must mean something to its next home, or nothing could be told from a repeat there."""
    if isinstance(message, RelocateSession):
        decode_carried(message.carried)
