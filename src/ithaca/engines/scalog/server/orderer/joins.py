"""What storage servers ask of the leader: replicas join, here or through an aggregator, report and give signs of life;
spares enlist, and learners are let in."""

from collections.abc import Callable, Sequence

from ithaca.engines.scalog.messages.aggregation import Assigned
from ithaca.engines.scalog.messages.order import Admit
from ithaca.engines.scalog.messages.reporting import BootIsKnown, Enlist, Join, ReportIs, SignOfLife
from ithaca.engines.scalog.ordering.decisions.joins import boot_problem, member, opened_lane
from ithaca.engines.scalog.ordering.entries import CloseLane, OpenLane
from ithaca.engines.scalog.ordering.outcomes import Outcome
from ithaca.engines.scalog.server.orderer.aggregators import Aggregators
from ithaca.engines.scalog.server.orderer.answers import Answers
from ithaca.engines.scalog.server.orderer.streams import NewsStreams
from ithaca.engines.scalog.server.orderer.telling import Telling
from ithaca.model.errors import AuthenticationFailed, IthacaError, ProtocolError, Unavailable
from ithaca.model.positions import LaneId
from ithaca.model.security.identity import server_problem
from ithaca.model.view import Replica
from ithaca.protocol.codec import Received
from ithaca.protocol.members import OrderersAre
from ithaca.runtime.connection import Connection
from ithaca.runtime.machine import wall_us


class JoinRequests:
    """Takes what replicas, spares and learners say, of all connections."""

    def __init__(self, answers: Answers, streams: NewsStreams, aggregators: Aggregators) -> None:
        self._answers = answers
        self._streams = streams
        self._aggregators = aggregators
        self._telling = Telling(answers, streams)

    def lost(self, connection: Connection) -> None:
        """The connection has ended."""
        self._streams.leave(connection)
        self._aggregators.lost(connection)
        if self._answers.leading is not None:
            self._answers.leading.spares.lost(connection)

    def join(self, connection: Connection, request: Received, message: Join) -> None:
        """A replica of the view is let in by an ordered entry. Whoever is none may have become one elsewhere, and gives
        up its place when it is refused: so it is told only once it is certain that this server leads."""
        _check_certificate(connection, message)
        if not self._answers.may_lead(connection, request):
            return
        replica = self._member(message)
        if isinstance(replica, Replica):
            self._join_replica(connection, request, message, replica)
        else:
            self._answers.read(connection, request, lambda _: self._join_other(connection, request, message))

    def _join_other(self, connection: Connection, request: Received, message: Join) -> None:
        """As of now this server has led since it was asked, and knows of everything that was agreed before."""
        if self._answers.leading is None or not connection.is_open:
            return
        replica = self._member(message)
        if isinstance(replica, Replica):
            self._join_replica(connection, request, message, replica)
        elif replica is None:
            self._join_learner(connection, request, message)
        else:
            self._answers.fail(connection, request, replica)

    def _takes_boot(self, connection: Connection, request: Received, message: Join, replica: Replica) -> bool:
        """Whether it may join by the boot that it says; it is told if not."""
        if message.boot < replica.boot:
            connection.answer(request, BootIsKnown(replica.boot))
            return False
        problem = boot_problem(replica, message.boot, max(self._answers.state.time_us, wall_us()))
        if problem is not None:
            self._answers.fail(connection, request, problem)
        return problem is None

    def _join_replica(self, connection: Connection, request: Received, message: Join, replica: Replica) -> None:
        if not self._takes_boot(connection, request, message, replica):
            return
        if self._is_placed_elsewhere(connection, request, message):
            return

        assert self._answers.leading is not None
        if not self._answers.leading.may_open(message.shard, message.replica, message.boot):
            self._join_without_lane(connection, request, message, replica)
            return

        def done(outcomes: list[Outcome]) -> None:
            lane = opened_lane(outcomes)
            if isinstance(lane, IthacaError):
                self._answers.fail(connection, request, lane)
            elif connection.is_open:
                self._answer(connection, request, message, lane, lambda: self._has_joined(message))

        self._answers.submit(connection, request, OpenLane(message.shard, message.replica, message.boot), done)

    def _join_without_lane(self, connection: Connection, request: Received, message: Join, replica: Replica) -> None:
        """Its shard cannot order, and others can. The lane of an earlier start, which nobody writes, is closed."""

        def done(_: list[Outcome]) -> None:
            if connection.is_open:
                self._answer(connection, request, message, None, has_joined)

        def has_joined() -> None:
            self._aggregators.joined(message)
            if self._answers.leading is not None:
                self._answers.leading.joined_without_lane(message.shard, message.replica, message.boot)

        if replica.is_open:
            entry = CloseLane(LaneId(message.shard, replica.replica, replica.incarnation))
            self._answers.submit(connection, request, entry, done)
        else:
            done([])

    def _has_joined(self, message: Join) -> None:
        self._aggregators.joined(message)
        if self._answers.leading is not None:
            self._answers.leading.heard(message.shard, message.replica, is_complete=False)

    def report(self, connection: Connection, received: Received, message: ReportIs) -> None:
        self.reports(connection, (message,))

    def reports(self, connection: Connection, messages: Sequence[ReportIs]) -> None:
        """Take in what came together: all in front of the first of a replica that has not joined over this."""
        leading = self._answers.leading
        if leading is None:
            return  # the connection is about to end
        reports = [message.report for message in messages]
        stranger = self._streams.stranger(connection, reports)
        if stranger is None:
            leading.receive_all(reports)
            return
        if stranger:
            leading.receive_all(reports[:stranger])
        report = reports[stranger]
        raise ProtocolError(f"{connection.name} reports as {report.shard}/{report.replica}, and has not joined so")

    def sign_of_life(self, connection: Connection, request: Received, message: SignOfLife) -> None:
        if self._answers.leading is not None:
            for shard, replica in self._streams.replicas_of(connection):
                self._answers.leading.heard(shard, replica, message.whole)

    def enlist(self, connection: Connection, request: Received, message: Enlist) -> None:
        if self._answers.may_lead(connection, request):
            assert self._answers.leading is not None
            connection.send(OrderersAre(self._answers.orderers))
            self._answers.leading.spares.enlist(connection, request, message.address)

    def admit(self, connection: Connection, request: Received, message: Admit) -> None:
        if self._answers.may_lead(connection, request):
            assert self._answers.leading is not None
            admission = self._answers.leading.spares.admission(message.shard, message.address)
            if isinstance(admission, IthacaError):
                self._answers.fail(connection, request, admission)
            else:
                connection.answer(request, admission)

    # Parts

    def _join_learner(self, connection: Connection, request: Received, message: Join) -> None:
        """It joins at the leader, which adds it; once it is a replica, it joins again, maybe through an aggregator."""
        assert self._answers.leading is not None
        if message.via:
            self._answers.fail(connection, request, Unavailable("a learner joins at the leader itself"))
            return
        shard = self._answers.state.shards.by_number[message.shard]
        refusal = self._answers.leading.spares.joins(shard, message.replica, message.address, connection)
        if refusal is not None:
            self._answers.fail(connection, request, refusal)
        else:
            self._answer(connection, request, message, None, lambda: None)

    def _member(self, message: Join) -> Replica | IthacaError | None:
        return member(self._answers.state.shards, message.shard, message.replica, message.address)

    def _is_placed_elsewhere(self, connection: Connection, request: Received, message: Join) -> bool:
        """Whether a replica is to report through an aggregator, or has to wait until that is known; it is told so."""
        to = self._aggregators.place(message)
        if isinstance(to, Unavailable):
            self._answers.fail(connection, request, to)
        elif to is not None:
            connection.answer(request, Assigned(to))
        return to is not None

    def _answer(
        self, connection: Connection, request: Received, message: Join, lane: LaneId | None, then: Callable[[], None]
    ) -> None:
        """Say where the shard stands; all that is applied from here on follows as news."""
        if self._telling.is_long(message):
            self._telling.tell(connection, request, message, lane, then)
        else:
            self._telling.conclude(connection, request, message, lane, {})
            then()


def _check_certificate(connection: Connection, message: Join) -> None:
    """Who has a certificate joins as what it says, unless it is an aggregator, which speaks for others."""
    hello, identity = connection.hello, connection.identity
    if hello is None or identity is None or hello.role == "aggregator":
        return
    problem = server_problem(identity, identity.cluster, "replica", f"{message.shard}/{message.replica}")
    if problem is not None:
        raise AuthenticationFailed(f"{connection.name} cannot join: {problem}")
