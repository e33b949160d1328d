"""A replica's connections: to the leader, which tells it its slots, and to the primaries whose lanes it copies."""

from collections.abc import Callable
from typing import Protocol

from ithaca.engines.belfast.leading.lane_slots import LaneSlots
from ithaca.engines.belfast.messages import (
    AskPromise,
    CopyLane,
    DiskIs,
    LaneCopied,
    LaneReportIs,
    LaneSynced,
    PassTo,
    PromiseIs,
    SlotsAre,
    TellSynced,
)
from ithaca.engines.belfast.speculation.places import PlacedRun
from ithaca.engines.belfast.speculation.reports import Ack, LaneReport
from ithaca.engines.scalog.messages.reporting import Join, Joined
from ithaca.engines.scalog.ordering.reports import Report
from ithaca.engines.scalog.server.replica.copies import Copies, Taker
from ithaca.engines.scalog.server.replica.order import Follower, OrderLink
from ithaca.model.positions import LaneId
from ithaca.model.view import Address
from ithaca.protocol.codec import Message, Received
from ithaca.runtime.connection import Connection
from ithaca.runtime.dialling import Said


class SlotFollower(Follower, Protocol):
    """Who takes what the order says, of slots too."""

    def slots_told(self, slots: LaneSlots) -> None: ...

    def pass_asked(self, lane: LaneId, cut: int) -> None: ...

    def promise_asked(self, lane: LaneId) -> None: ...

    def copy_asked(self, lane: LaneId, source: int, length: int) -> None: ...


class SlotOrderLink(OrderLink):
    """One connection to the leader at a time."""

    def __init__(
        self,
        orderers: tuple[Address, ...],
        join: Join,
        hello: Callable[[], Said],
        follower: SlotFollower,
        sign_every_s: float,
        disk: int,
    ) -> None:
        super().__init__(orderers, join, hello, follower, sign_every_s)
        self._slot_follower = follower
        self._disk = disk

    def report_lane(self, report: LaneReport, synced: Report | None) -> None:
        if self._joined and self._connection is not None:
            self._connection.send(LaneReportIs(report, synced))
            if self._watch is not None and synced is not None:
                self._watch.waits()

    def promise(self, lane: LaneId, ack: Ack) -> None:
        if self._joined and self._connection is not None:
            self._connection.send(PromiseIs(lane, ack))

    def copied(self, lane: LaneId, ack: Ack, placed: tuple[PlacedRun, ...]) -> None:
        if self._joined and self._connection is not None:
            self._connection.send(LaneCopied(lane, ack, placed))

    def on_message(self, connection: Connection, received: Received) -> None:
        if isinstance(received.message, Joined):
            # Before all that is reported: on which disk it is synced.
            connection.send(DiskIs(self._join.shard, self._join.replica, self._join.boot, self._disk))
        super().on_message(connection, received)
        match received.message:
            case SlotsAre(slots):
                self._slot_follower.slots_told(slots)
            case PassTo(lane, cut):
                self._slot_follower.pass_asked(lane, cut)
            case AskPromise(lane):
                self._slot_follower.promise_asked(lane)
            case CopyLane(lane, source, length):
                self._slot_follower.copy_asked(lane, source, length)
            case _:
                pass


class SlotCopies(Copies):
    """Copies of the peers' lanes, whose primaries hear how much of them is synced here if they ask for that."""

    def __init__(self, taker: Taker, hello: Callable[[], Said], synced: Callable[[LaneId], Ack | None]) -> None:
        """`synced` says how much of a lane is synced here; None if its primary must not hear of it."""
        super().__init__(taker, hello)
        self._synced = synced
        self._primaries: dict[LaneId, Connection] = {}
        """Those that have asked, on the connections that they did."""

    def acknowledge(self, lane: LaneId, ack: Ack) -> None:
        """Tell the primary, if it wants to know; one that cannot be reached now asks again when it can."""
        connection = self._primaries.get(lane)
        if connection is not None and connection.is_open:
            connection.send(LaneSynced(lane, ack))

    def stop(self, lane: LaneId) -> None:
        super().stop(lane)
        self._primaries.pop(lane, None)

    def heard(self, connection: Connection, lane: LaneId, message: Message) -> None:
        if not isinstance(message, TellSynced) or message.lane != lane:
            return
        if not message.is_wanted:
            self._primaries.pop(lane, None)
            return
        self._primaries[lane] = connection
        ack = self._synced(lane)
        if ack is not None:
            connection.send(LaneSynced(lane, ack))
