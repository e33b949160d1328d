"""What an orderer answers: views from what it has applied, everything else as the leader or with a redirect."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from ithaca.model.errors import (
    InvalidInput,
    IthacaError,
    NoSuchShard,
    Overloaded,
    ProtocolError,
    Unavailable,
    WrongLane,
)
from ithaca.model.limits import SESSION_ROOM_TRIES_MAX, VIEW_WAIT_S_MAX, VIEW_WAITS_MAX
from ithaca.model.positions import LaneId
from ithaca.model.view import Address, Replica
from ithaca.ordering.entries import (
    CloseLane,
    ExpireSession,
    Finalize,
    Lost,
    MoveSession,
    OpenLane,
    OpenSession,
    OrderingEntry,
    RegisterShard,
    RemoveReplica,
    TrimTo,
    decode_entry,
    encode_entry,
)
from ithaca.ordering.outcomes import LaneOpened, OrderedCut, Outcome, Refused, Session
from ithaca.ordering.state import OrderingState
from ithaca.protocol.codec import Received
from ithaca.protocol.messages import (
    Admit,
    Alive,
    Applied,
    BootIsKnown,
    Enlist,
    GetSession,
    GetStatus,
    GetTail,
    GetView,
    Join,
    Joined,
    Propose,
    Redirect,
    ReportIs,
    SessionIs,
    StatusIs,
    TailIs,
    ViewIs,
)
from ithaca.runtime.connection import Connection
from ithaca.runtime.machine import wall_us
from ithaca.runtime.metrics import OrdererMetrics
from ithaca.runtime.raft_driver import RaftDriver, Waiter
from ithaca.server.orderer_leading import Leading
from ithaca.server.orderer_machine import OrderingMachine
from ithaca.server.orderer_streams import NewsStreams

ANONYMOUS = "~"
"""Names of sessions that nobody will ask for again begin with this."""

_PROPOSABLE = (OpenSession, MoveSession, ExpireSession, TrimTo, CloseLane, Finalize, RegisterShard, RemoveReplica, Lost)
"""What clients may propose; the rest is the leader's own."""


class Requests:
    """Takes the messages of clients and replicas, of all their connections."""

    def __init__(
        self,
        machine: OrderingMachine,
        driver: RaftDriver,
        streams: NewsStreams,
        addresses: Mapping[int, Address],
        status: Callable[[], bytes],
        metrics: OrdererMetrics,
    ) -> None:
        self._machine = machine
        self._driver = driver
        self._streams = streams
        self._addresses = addresses
        self._status = status
        self._metrics = metrics
        self.leading: Leading | None = None
        """While this server leads."""
        self._view_waits: dict[tuple[Connection, int], _ViewWait] = {}
        self._expiring: set[int] = set()
        self._handlers: dict[type, Callable[[Connection, Received, Any], None]] = {
            ReportIs: self._report,
            GetView: self._get_view,
            GetTail: self._get_tail,
            GetSession: self._get_session,
            Propose: self._propose,
            Join: self._join,
            GetStatus: self._get_status,
            Enlist: self._enlist,
            Admit: self._admit,
            Alive: self._alive,
        }

    # What connections call

    def on_message(self, connection: Connection, received: Received) -> None:
        handler = self._handlers.get(type(received.message))
        if handler is None:
            raise ProtocolError(f"an orderer takes no {type(received.message).__name__} from {connection.name}")
        handler(connection, received, received.message)

    def on_lost(self, connection: Connection, error: IthacaError | None) -> None:
        self._streams.leave(connection)
        if self.leading is not None:
            self.leading.spares.lost(connection)

    # What the server calls

    def applied(self) -> None:
        """Entries were applied: whoever waits for this view is answered."""
        if self._view_waits:
            version = self._state.shards.version
            for key, wait in list(self._view_waits.items()):
                if wait.at_least <= version:
                    del self._view_waits[key]
                    wait.timer.cancel()
                    self._answer_view(wait.connection, wait.request)

    def close(self) -> None:
        for wait in self._view_waits.values():
            wait.timer.cancel()
        self._view_waits.clear()

    # From what is applied here

    def _get_status(self, connection: Connection, request: Received, message: GetStatus) -> None:
        connection.answer(request, StatusIs(self._status()))

    def _get_view(self, connection: Connection, request: Received, message: GetView) -> None:
        key = connection, request.correlation
        if message.at_least <= self._state.shards.version:
            self._answer_view(connection, request)
        elif len(self._view_waits) >= VIEW_WAITS_MAX or key in self._view_waits:
            self._fail(connection, request, Overloaded(f"{VIEW_WAITS_MAX} requests wait for a newer view: try again"))
        else:
            timer = asyncio.get_running_loop().call_later(VIEW_WAIT_S_MAX, self._give_up_view, key)
            self._view_waits[key] = _ViewWait(message.at_least, connection, request, timer)

    def _give_up_view(self, key: tuple[Connection, int]) -> None:
        wait = self._view_waits.pop(key)
        version = self._state.shards.version
        self._fail(
            wait.connection, wait.request, Unavailable(f"this orderer knows view {version}, not yet {wait.at_least}")
        )

    def _answer_view(self, connection: Connection, request: Received) -> None:
        configuration = self._state.configuration
        if configuration is None:
            self._fail(connection, request, _not_configured())
            return
        orderers = tuple(address for _, address in sorted(self._addresses.items()))
        connection.answer(request, ViewIs(self._state.view, configuration, orderers, self._leader_address()))

    # As the leader

    def _get_tail(self, connection: Connection, request: Received, message: GetTail) -> None:
        def answer(index: int) -> None:
            state = self._state
            time_us = max(state.time_us, wall_us())
            connection.answer(request, TailIs(state.tail, state.first, time_us, state.shards.version))

        self._read(connection, request, answer)

    def _get_session(self, connection: Connection, request: Received, message: GetSession) -> None:
        def answer(index: int) -> None:
            connection.answer(request, SessionIs(self._state.sessions.by_id.get(message.producer_id)))

        self._read(connection, request, answer)

    def _read(self, connection: Connection, request: Received, answer: Callable[[int], None]) -> None:
        if self._may_lead(connection, request):
            self._driver.submit_read(Waiter(answer, lambda error: self._failed(connection, request, error)))

    def _propose(self, connection: Connection, request: Received, message: Propose) -> None:
        if not self._may_lead(connection, request):
            return
        try:
            entry = decode_entry(message.entry)
            if not isinstance(entry, _PROPOSABLE):
                allowed = ", ".join(kind.__name__ for kind in _PROPOSABLE)
                raise InvalidInput(f"clients may not propose {type(entry).__name__}, only {allowed}")
        except IthacaError as error:
            self._fail(connection, request, error)
            return

        def done(outcomes: list[Outcome]) -> None:
            if isinstance(entry, OpenSession) and _lacks_room(outcomes):
                self._make_room(connection, request, entry, SESSION_ROOM_TRIES_MAX)
            else:
                self._answer_applied(connection, request, outcomes)

        self._submit(connection, request, entry, done)

    def _make_room(self, connection: Connection, request: Received, entry: OpenSession, tries: int) -> None:
        """Expire the oldest anonymous session, and open the new one directly behind that."""
        oldest = self._oldest_anonymous() if tries else None
        if oldest is None:
            self._answer_applied(connection, request, [Refused(entry, "too many sessions")])
            return
        expired = oldest.producer_id
        self._expiring.add(expired)

        def forget(_: object) -> None:
            self._expiring.discard(expired)

        def done(outcomes: list[Outcome]) -> None:
            if _lacks_room(outcomes):
                self._make_room(connection, request, entry, tries - 1)
            else:
                self._answer_applied(connection, request, outcomes)

        self._driver.submit(encode_entry(ExpireSession(expired, oldest.epoch)), Waiter(forget, forget))
        self._submit(connection, request, entry, done)

    def _oldest_anonymous(self) -> Session | None:
        sessions = self._state.sessions.by_id.values()  # in the order of their ids
        return next(
            (each for each in sessions if each.name.startswith(ANONYMOUS) and each.producer_id not in self._expiring),
            None,
        )

    def _join(self, connection: Connection, request: Received, message: Join) -> None:
        if not self._may_lead(connection, request):
            return
        replica = self._member(message.shard, message.replica)
        if isinstance(replica, IthacaError):
            self._fail(connection, request, replica)
            return
        if replica is None:
            self._join_learner(connection, request, message)
            return
        if message.boot < replica.boot:
            connection.answer(request, BootIsKnown(replica.boot))
            return

        def done(outcomes: list[Outcome]) -> None:
            lane = _opened_lane(outcomes)
            if isinstance(lane, IthacaError):
                self._fail(connection, request, lane)
            elif connection.is_open:
                self._answer_joined(connection, request, message, lane)
                if self.leading is not None:
                    self.leading.heard(message.shard, message.replica, is_whole=False)

        self._submit(connection, request, OpenLane(message.shard, message.replica, message.boot), done)

    def _join_learner(self, connection: Connection, request: Received, message: Join) -> None:
        assert self.leading is not None
        shard = self._state.shards.by_number[message.shard]
        refusal = self.leading.spares.joins(shard, message.replica, message.address, connection)
        if refusal is not None:
            self._fail(connection, request, refusal)
        else:
            self._answer_joined(connection, request, message, None)

    def _enlist(self, connection: Connection, request: Received, message: Enlist) -> None:
        if self._may_lead(connection, request):
            assert self.leading is not None
            self.leading.spares.enlist(connection, request, message.address)

    def _admit(self, connection: Connection, request: Received, message: Admit) -> None:
        if self._may_lead(connection, request):
            assert self.leading is not None
            admission = self.leading.spares.admission(message.shard, message.address)
            if isinstance(admission, IthacaError):
                self._fail(connection, request, admission)
            else:
                connection.answer(request, admission)

    def _alive(self, connection: Connection, request: Received, message: Alive) -> None:
        if self.leading is not None:
            for shard, replica in self._streams.replicas_of(connection):
                self.leading.heard(shard, replica, message.whole)

    def _member(self, number: int, replica: int) -> Replica | IthacaError | None:
        """A replica of the view, None if its shard has none of this number, or why there is no such shard."""
        shards = self._state.shards
        shard = shards.by_number.get(number)
        if shard is None and shards.was_reclaimed(number):
            return NoSuchShard(f"shard {number} was finalized and trimmed whole: nothing is left of it")
        if shard is None:
            return Unavailable(f"shard {number} is not registered yet: add it with ithaca shard add")
        return shard.find(replica)

    def _answer_joined(self, connection: Connection, request: Received, message: Join, lane: LaneId | None) -> None:
        """Say where the shard stands; all that is applied from here on follows as news."""
        state = self._state
        summary = state.summary(message.shard)
        assert state.configuration is not None
        assert summary is not None
        cuts = tuple(state.cuts_since(message.shard, 0))
        self._streams.join(connection, message.shard, message.replica)
        connection.answer(request, Joined(state.configuration.log, lane, summary, cuts))

    def _report(self, connection: Connection, received: Received, message: ReportIs) -> None:
        report = message.report
        if self.leading is None:
            return  # the connection is about to end
        if not self._streams.has_joined(connection, report.shard, report.replica):
            raise ProtocolError(f"{connection.name} reports as {report.shard}/{report.replica}, and has not joined so")
        self.leading.receive(report)

    # Parts

    @property
    def _state(self) -> OrderingState:
        return self._machine.state

    def _may_lead(self, connection: Connection, request: Received) -> bool:
        """Whether this server can take a leader's requests; else whoever asks is told."""
        if self.leading is None:
            connection.answer(request, Redirect(self._leader_address()))
            return False
        if not self.leading.is_ready:
            self._fail(connection, request, _not_configured())
            return False
        return True

    def _leader_address(self) -> Address | None:
        leader = self._driver.leader
        return None if leader is None else self._addresses.get(leader)

    def _submit(
        self, connection: Connection, request: Received, entry: OrderingEntry, done: Callable[[list[Outcome]], None]
    ) -> None:
        if self._driver.storage_full is not None:
            self._fail(connection, request, self._driver.storage_full)
            return
        self._metrics.proposals.inc()
        waiter = Waiter(done, lambda error: self._failed(connection, request, error))
        self._driver.submit(encode_entry(entry), waiter)

    def _answer_applied(self, connection: Connection, request: Received, outcomes: list[Outcome]) -> None:
        told = tuple(outcome for outcome in outcomes if not isinstance(outcome, OrderedCut))
        connection.answer(request, Applied(told))

    def _failed(self, connection: Connection, request: Received, error: IthacaError) -> None:
        """What was asked did not come to an end here: it may elsewhere, unless it was perhaps done."""
        if self.leading is None and not error.outcome_unknown:
            connection.answer(request, Redirect(self._leader_address()))
        else:
            self._fail(connection, request, error)

    def _fail(self, connection: Connection, request: Received, error: IthacaError) -> None:
        self._metrics.refused(error)
        connection.fail(request, error)


class _ViewWait:
    """A request for a view that is not there yet."""

    __slots__ = ("at_least", "connection", "request", "timer")

    def __init__(self, at_least: int, connection: Connection, request: Received, timer: asyncio.TimerHandle) -> None:
        self.at_least = at_least
        self.connection = connection
        self.request = request
        self.timer = timer


def _not_configured() -> Unavailable:
    return Unavailable("the ordering layer is not ready yet: it has just started, or a new leader takes over")


def _lacks_room(outcomes: list[Outcome]) -> bool:
    return any(isinstance(outcome, Refused) and outcome.reason == "too many sessions" for outcome in outcomes)


def _opened_lane(outcomes: list[Outcome]) -> LaneId | IthacaError | None:
    """The lane that a replica got, None in a finalized shard; an error when it cannot have one."""
    for outcome in outcomes:
        if isinstance(outcome, LaneOpened):
            return outcome.lane
        if isinstance(outcome, Refused):
            match outcome.reason:
                case "the shard is finalized":
                    return None
                case "the lane is closed":
                    return WrongLane("the lane of this start of the replica was closed: join with a higher boot")
                case reason:
                    return InvalidInput(f"the replica cannot join: {reason}")
    raise AssertionError(f"opening a lane had no outcome: {outcomes}")
