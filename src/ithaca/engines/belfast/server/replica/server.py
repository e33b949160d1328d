"""A storage server of Belfast: the shell around `replica.SlotCore`, which performs its effects and decides nothing."""

import asyncio
from collections.abc import Sequence

from ithaca.engines.belfast.leading.lane_slots import LaneSlots
from ithaca.engines.belfast.replica.core import SlotCore
from ithaca.engines.belfast.replica.events import (
    PassAsked,
    Placed,
    SendAck,
    SendLaneReport,
    SlotEvent,
    SlotsTold,
    Speculate,
    TurnEnded,
)
from ithaca.engines.belfast.server.replica.disk_number import disk_number
from ithaca.engines.belfast.server.replica.gateway import SlotGatewayPeer
from ithaca.engines.belfast.server.replica.links import SlotCopies, SlotOrderLink
from ithaca.engines.belfast.speculation.acks import Ack
from ithaca.engines.scalog.replica.core import ReplicaCore
from ithaca.engines.scalog.replica.events import Event, Held, Write
from ithaca.engines.scalog.replica.settled import SettledCopies
from ithaca.engines.scalog.server.replica.copies import Copies
from ithaca.engines.scalog.server.replica.gateway import GatewayPeer
from ithaca.engines.scalog.server.replica.order import OrderLink
from ithaca.engines.scalog.server.replica.server import ReplicaServer
from ithaca.model.positions import LaneId
from ithaca.protocol.greeting import Hello
from ithaca.runtime.connection import Connection
from ithaca.runtime.machine import monotonic_ns


class SlotReplicaServer(ReplicaServer):
    """One replica of one shard. `start`, then `wait` until it is stopped or fails, then `stop`."""

    is_dense = False

    async def _open(self) -> None:
        await super()._open()
        self._is_turn_open = False
        performers = self._performing.performers
        self._write_batch = performers[Write]
        performers |= {
            Write: self._write,
            SendLaneReport: lambda effect: self._slot_order.report_lane(effect.report),
            SendAck: lambda effect: self._slot_copies.acknowledge(effect.lane, effect.ack),
            Speculate: lambda effect: None,
            Placed: lambda effect: None,
        }

    async def _make_core(self, boot: int, held: dict[LaneId, Held], settled: SettledCopies) -> ReplicaCore:
        number = await asyncio.to_thread(disk_number, self._disk, self._directory, boot)
        now_us = monotonic_ns() // 1000
        self.slot_core = SlotCore(self._shard, self._replica, boot, number, held, settled=settled, now_us=now_us)
        return self.slot_core

    def _make_copies(self) -> Copies:
        self._slot_copies = SlotCopies(self, self._hello, self._synced)
        return self._slot_copies

    def _make_order(self) -> OrderLink:
        self._slot_order = SlotOrderLink(
            self._orderers(), self._join(), self._hello, self, self._sign_every_s(), self.slot_core.disk
        )
        return self._slot_order

    def _accept(self, connection: Connection, hello: Hello) -> GatewayPeer:
        return SlotGatewayPeer(self)

    def _synced(self, lane: LaneId) -> Ack:
        return Ack(self._replica, self.slot_core.disk, self.slot_core.durable(lane))

    # Events in, effects out

    def slot_step(self, event: SlotEvent) -> None:
        """Take an event of slots, and whatever it leads to."""
        if not self._has_parted:
            self._take(event)
            self._finish_turn()

    def _stepped(self, event: Event | SlotEvent) -> Sequence[object]:
        return self.slot_core.step_any(event)

    def _take(self, event: Event | SlotEvent) -> None:
        super()._take(event)  # type: ignore[arg-type]

    def slots_told(self, slots: LaneSlots) -> None:
        self.slot_step(SlotsTold(slots))

    def pass_asked(self, lane: LaneId, cut: int) -> None:
        self.slot_step(PassAsked(lane, cut))

    def _write(self, effect: Write) -> None:
        self._write_batch(effect)
        if effect.lane == self.core.own_lane and not self._is_turn_open:
            self._is_turn_open = True
            asyncio.get_running_loop().call_soon(self._end_turn)

    def _end_turn(self) -> None:
        self._is_turn_open = False
        self.slot_step(TurnEnded())
