"""What an orderer is asked: as in scalog; changes of shards wait for a free order, publications for their place."""

from collections.abc import Callable

from ithaca.engines.belfast.messages import DiskIs, FollowSlots, GetOwner, LaneCopied, LaneReportIs, OwnerIs, PromiseIs
from ithaca.engines.belfast.server.orderer.joins import SlotJoinRequests
from ithaca.engines.belfast.server.orderer.leading import CHANGES, SlotLeaderService
from ithaca.engines.belfast.server.orderer.machine import BelfastMachine
from ithaca.engines.belfast.server.orderer.publishing import WaitingRequests
from ithaca.engines.belfast.server.orderer.streams import SlotStreams
from ithaca.engines.belfast.speculation.outcomes import PublicationReserved
from ithaca.engines.scalog.messages.losing import DeclareLoss
from ithaca.engines.scalog.messages.requests import Request, entry_of
from ithaca.engines.scalog.ordering.entries import timed
from ithaca.engines.scalog.ordering.outcomes import Outcome
from ithaca.engines.scalog.ordering.prepared.entries import Publish
from ithaca.engines.scalog.ordering.prepared.outcomes import PartsPublished
from ithaca.engines.scalog.server.orderer.aggregators import Aggregators
from ithaca.engines.scalog.server.orderer.joins import JoinRequests
from ithaca.engines.scalog.server.orderer.leading import LeaderService
from ithaca.engines.scalog.server.orderer.requests import Requests
from ithaca.engines.scalog.server.orderer.streams import NewsStreams
from ithaca.model.engine import Feature
from ithaca.model.errors import IthacaError, Unavailable
from ithaca.model.interface.unsupported import unsupported
from ithaca.protocol.codec import Received
from ithaca.runtime.connection import Connection
from ithaca.runtime.metrics import OrdererMetrics
from ithaca.server.raft_host.host import RaftHost


class SlotRequests(Requests):
    """Takes the messages of clients and replicas, of all their connections."""

    def __init__(
        self,
        machine: BelfastMachine,
        host: RaftHost,
        streams: SlotStreams,
        status: Callable[[], bytes],
        metrics: OrdererMetrics,
        aggregators: Aggregators,
        time_us: Callable[[], int],
    ) -> None:
        self._slots_machine = machine
        self._slot_streams = streams
        self._publishing = WaitingRequests()
        super().__init__(machine, host, streams, status, metrics, aggregators, time_us)
        joins = self._slot_joins
        self._handlers |= {DiskIs: joins.disk, LaneReportIs: joins.lane_report}
        self._handlers |= {PromiseIs: joins.promise, LaneCopied: joins.copied}
        self._handlers |= {GetOwner: self._get_owner, FollowSlots: self._follow_slots}

    def _make_joins(self, streams: NewsStreams, aggregators: Aggregators) -> JoinRequests:
        assert isinstance(streams, SlotStreams)
        return SlotJoinRequests(self._answers, streams, aggregators)

    @property
    def _slot_joins(self) -> SlotJoinRequests:
        assert isinstance(self._joins, SlotJoinRequests)
        return self._joins

    def leads(self, leading: LeaderService | None) -> None:
        super().leads(leading)
        for connection, request in self._publishing.take_all():
            self._answers.failed(connection, request, Unavailable("another server leads: ask it"))

    def took(self, outcomes: list[Outcome]) -> None:
        """An entry was applied: publications that waited may be ordered with it."""
        for outcome in outcomes:
            if isinstance(outcome, PartsPublished):
                for connection, request in self._publishing.take(outcome.published):
                    self._answers.applied(connection, request, [outcome])

    def _declare_loss(self, connection: Connection, request: Received, message: DeclareLoss) -> None:
        self._answers.fail(connection, request, unsupported(Feature.LOSSES))

    def _asked(self, connection: Connection, request: Received, message: Request) -> None:
        try:
            entry = entry_of(message)
        except IthacaError:
            super()._asked(connection, request, message)  # which says what is wrong with it
            return
        if isinstance(entry, CHANGES):
            if self._answers.may_lead(connection, request):
                self._behind_time(connection, request, entry, lambda: self._ask_when_free(connection, request, message))
        elif isinstance(entry, Publish) and self._answers.may_lead(connection, request):
            self._publish(connection, request, entry)
        elif not isinstance(entry, Publish):
            super()._asked(connection, request, message)

    def _ask_when_free(self, connection: Connection, request: Received, message: Request) -> None:
        if self._answers.may_lead(connection, request) and self._answers.has_room(connection, request):
            leading = self._answers.leading
            assert isinstance(leading, SlotLeaderService)
            leading.order_when_free(
                timed(entry_of(message), self._time_us()),
                lambda outcomes: self._answers.applied(connection, request, outcomes),
                lambda error: self._answers.failed(connection, request, error),
            )

    def _publish(self, connection: Connection, request: Received, entry: Publish) -> None:
        """It is answered when it is ordered: until then it has its positions, and others before it have none."""

        def done(outcomes: list[Outcome]) -> None:
            published = any(isinstance(outcome, PartsPublished) for outcome in outcomes)
            reserved = [outcome for outcome in outcomes if isinstance(outcome, PublicationReserved)]
            if reserved and not published:
                self._publishing.add(entry, reserved[0], (connection, request))
            else:
                self._answers.applied(connection, request, outcomes)

        self._answers.submit(connection, request, timed(entry, self._time_us()), done)

    def _get_owner(self, connection: Connection, request: Received, message: GetOwner) -> None:
        def answer(index: int) -> None:
            owner = self._slots_machine.slots_state.slots.kept.owner(message.position)
            connection.answer(request, OwnerIs(None if owner is None else owner.shard))

        self._answers.read(connection, request, answer)

    def _follow_slots(self, connection: Connection, request: Received, message: FollowSlots) -> None:
        def begin(index: int) -> None:
            if connection.is_open and self._answers.leading is not None:
                connection.allow_slow_reader()
                self._slot_streams.follow(connection)
                self._slot_joins.speculators_changed()

        self._answers.read(connection, request, begin)
