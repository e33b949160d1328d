"""What storage servers ask of the leader: they join without a lane, say which disk they have, and get a lane later, one
of each shard."""

from ithaca.engines.belfast.leading.keeping import Here
from ithaca.engines.belfast.messages import DiskIs, LaneCopied, LaneReportIs, PromiseIs
from ithaca.engines.belfast.server.orderer.leading import SlotLeaderService
from ithaca.engines.belfast.server.orderer.streams import SlotStreams
from ithaca.engines.belfast.speculation.takeover import Copied, Promised
from ithaca.engines.scalog.messages.reporting import Join
from ithaca.engines.scalog.server.orderer.aggregators import Aggregators
from ithaca.engines.scalog.server.orderer.answers import Answers
from ithaca.engines.scalog.server.orderer.joins import JoinRequests
from ithaca.model.errors import ProtocolError, WrongLane
from ithaca.model.positions import LaneId
from ithaca.model.view import Replica
from ithaca.protocol.codec import Received
from ithaca.runtime.connection import Connection


class SlotJoinRequests(JoinRequests):
    """Takes what replicas say, of all connections."""

    def __init__(self, answers: Answers, streams: SlotStreams, aggregators: Aggregators) -> None:
        super().__init__(answers, streams, aggregators)
        self._slot_streams = streams

    @property
    def _leading_slots(self) -> SlotLeaderService | None:
        leading = self._answers.leading
        assert leading is None or isinstance(leading, SlotLeaderService)
        return leading

    def lost(self, connection: Connection) -> None:
        went = self._streams.replicas_of(connection)
        super().lost(connection)
        for shard, replica in went:
            if self._leading_slots is not None:
                self._leading_slots.went(shard, replica)
        self.speculators_changed()

    def speculators_changed(self) -> None:
        """Clients that follow the order of slots have come or gone."""
        if self._leading_slots is not None:
            self._leading_slots.speculators_are(self._slot_streams.speculators)

    def disk(self, connection: Connection, received: Received, message: DiskIs) -> None:
        if self._leading_slots is not None and self._has_joined_as(connection, message.shard, message.replica):
            self._leading_slots.came(message.shard, message.replica, Here(message.boot, message.disk))

    def lane_report(self, connection: Connection, received: Received, message: LaneReportIs) -> None:
        leading, lane, synced = self._leading_slots, message.report.lane, message.synced
        if leading is not None and self._has_joined_as(connection, lane.shard, lane.replica):
            leading.lane_reported(message.report)
            if synced is not None and self._has_joined_as(connection, synced.shard, synced.replica):
                leading.receive(synced)

    def promise(self, connection: Connection, received: Received, message: PromiseIs) -> None:
        lane, ack = message.lane, message.ack
        if self._leading_slots is not None and self._has_joined_as(connection, lane.shard, ack.replica):
            self._leading_slots.promised(lane, Promised(ack.replica, ack.length, ack.disk))

    def copied(self, connection: Connection, received: Received, message: LaneCopied) -> None:
        lane, ack = message.lane, message.ack
        if self._leading_slots is not None and self._has_joined_as(connection, lane.shard, ack.replica):
            self._leading_slots.copied(lane, ack.disk, Copied(ack.replica, ack.length, message.placed))

    def _has_joined_as(self, connection: Connection, shard: int, replica: int) -> bool:
        if not self._streams.has_joined(connection, shard, replica):
            raise ProtocolError(f"{connection.name} speaks as {shard}/{replica}, and has not joined so")
        return True

    def _join_replica(self, connection: Connection, request: Received, message: Join, replica: Replica) -> None:
        """No entry tells here that this server leads, so that is asked of the others first."""
        if self._takes_boot(connection, request, message, replica):
            self._answers.read(connection, request, lambda _: self._let_in(connection, request, message))

    def _let_in(self, connection: Connection, request: Received, message: Join) -> None:
        replica = self._member(message)
        if self._leading_slots is None or not connection.is_open:
            return
        if not isinstance(replica, Replica) or message.boot < replica.boot:
            self.join(connection, request, message)  # it was removed, or has started again, meanwhile
        elif self._leading_slots.must_start_again(message.shard, message.replica, message.boot):
            why = f"replica {message.shard}/{message.replica} had a lane in this start: join with a higher boot"
            self._answers.fail(connection, request, WrongLane(why))
        else:
            is_own = replica.is_open and replica.boot == message.boot
            lane = LaneId(message.shard, message.replica, replica.incarnation) if is_own else None
            self._answer(connection, request, message, lane, lambda: self._has_joined(message))

    def _has_joined(self, message: Join) -> None:
        super()._has_joined(message)
        replica = self._member(message)
        if isinstance(replica, Replica) and replica.is_open:
            self._slot_streams.tell(LaneId(message.shard, message.replica, replica.incarnation))
