"""A storage server of Belfast: the shell around `replica.SlotCore`, which performs its effects and decides nothing."""

import asyncio
from collections.abc import Sequence

from ithaca.engines.belfast.leading.lane_slots import LaneSlots
from ithaca.engines.belfast.replica.core import SlotCore
from ithaca.engines.belfast.replica.events import (
    CopyAsked,
    PassAsked,
    SendAck,
    SendCopied,
    SendLaneReport,
    SendPromise,
    SlotEvent,
    SlotsTold,
    Speculate,
    SpeculatorsAre,
    TurnEnded,
)
from ithaca.engines.belfast.server.replica.disk_number import NAME as DISK_NUMBER
from ithaca.engines.belfast.server.replica.disk_number import disk_number
from ithaca.engines.belfast.server.replica.followers import LaneFollowers
from ithaca.engines.belfast.server.replica.gateway import SlotGatewayPeer
from ithaca.engines.belfast.server.replica.links import SlotCopies, SlotOrderLink
from ithaca.engines.belfast.server.replica.promises import NAME as PROMISES
from ithaca.engines.belfast.server.replica.promises import PromisesFile, load_promises, stored_places
from ithaca.engines.belfast.server.replica.speculators import LaneSpeculators
from ithaca.engines.belfast.server.rights import BELFAST_RULES
from ithaca.engines.belfast.speculation.reports import Ack
from ithaca.engines.belfast.speculation.takeover import PromiseAsked, PromiseSynced, SyncPromise
from ithaca.engines.scalog.replica.core import ReplicaCore
from ithaca.engines.scalog.replica.events import Event, Held, Write
from ithaca.engines.scalog.replica.settled import SettledCopies
from ithaca.engines.scalog.server.replica.copies import Copies
from ithaca.engines.scalog.server.replica.gateway import GatewayPeer
from ithaca.engines.scalog.server.replica.order import OrderLink
from ithaca.engines.scalog.server.replica.server import ReplicaServer
from ithaca.model.errors import WrongLane
from ithaca.model.positions import LaneId
from ithaca.protocol.greeting import Hello
from ithaca.runtime.connection import Connection
from ithaca.runtime.machine import monotonic_ns


class SlotReplicaServer(ReplicaServer):
    """One replica of one shard. `start`, then `wait` until it is stopped or fails, then `stop`."""

    rules = BELFAST_RULES
    is_dense = False
    has_places = True
    beside = (PROMISES, DISK_NUMBER)

    async def _open(self) -> None:
        await super()._open()
        self._is_turn_open = False
        self._speculators: LaneSpeculators | None = None
        self._streams_told = 0
        self.followers = LaneFollowers()
        self._promises_file = PromisesFile(self._disk, self._directory, lambda: self.slot_core.promised, self.fail)
        performers = self._performing.performers
        self._write_batch = performers[Write]
        performers |= {
            Write: self._write,
            SendLaneReport: lambda effect: self._slot_order.report_lane(effect.report, effect.synced),
            SendAck: lambda effect: self._slot_copies.acknowledge(effect.lane, effect.ack),
            Speculate: self._speculated,
            SyncPromise: lambda effect: self._promises_file.store(lambda: self.slot_step(PromiseSynced(effect.lane))),
            SendPromise: lambda effect: self._slot_order.promise(effect.lane, effect.ack),
            SendCopied: lambda effect: self._slot_order.copied(effect.lane, effect.ack, effect.placed),
        }

    async def stop(self) -> None:
        if self._listener is not None:
            await self._promises_file.close()
        await super().stop()

    async def _make_core(self, boot: int, held: dict[LaneId, Held], settled: SettledCopies) -> ReplicaCore:
        number = await asyncio.to_thread(disk_number, self._disk, self._directory, boot)
        promised = await asyncio.to_thread(load_promises, self._disk, self._directory)
        placed = await asyncio.to_thread(stored_places, self.store, held)
        self.slot_core = SlotCore(
            *(self._shard, self._replica, boot, number, held),
            settled=settled,
            now_us=monotonic_ns() // 1000,
            promised=promised,
            placed=placed,
        )
        return self.slot_core

    def _make_copies(self) -> Copies:
        self._slot_copies = SlotCopies(self, self._greeter.hello, self._synced)
        return self._slot_copies

    def _make_order(self) -> OrderLink:
        self._slot_order = SlotOrderLink(
            self._orderers(), self._join(), self._greeter.hello, self, self._sign_every_s(), self.slot_core.disk
        )
        return self._slot_order

    def _accept(self, connection: Connection, hello: Hello) -> GatewayPeer:
        return SlotGatewayPeer(self)

    def _synced(self, lane: LaneId) -> Ack | None:
        return self.slot_core.acknowledged(lane)

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

    def promise_asked(self, lane: LaneId) -> None:
        self.slot_step(PromiseAsked(lane))

    def copy_asked(self, lane: LaneId, source: int, length: int) -> None:
        self.slot_step(CopyAsked(lane, source, length))

    def _write(self, effect: Write) -> None:
        is_own = effect.lane == self.core.own_lane
        self._write_batch(effect)
        if not is_own:
            return
        if not self._is_turn_open:
            # Behind the disk's turn: where it is quick, the leader hears in one message that the cut is passed and
            # synced here, else of the cut while that is written.
            self._is_turn_open = True
            asyncio.get_running_loop().call_soon(self._end_turn)
        ordered = self.core.ordered_length(effect.lane) or 0
        self._speculators_of(effect.lane).placed(effect.batch, effect.position, ordered)

    def _end_turn(self) -> None:
        self._is_turn_open = False
        self.slot_step(TurnEnded())

    # Speculators

    def _speculators_of(self, lane: LaneId) -> LaneSpeculators:
        if self._speculators is None or self._speculators.lane != lane:
            if self._speculators is not None:
                self._speculators.close()
            self._speculators = LaneSpeculators(lane)
        return self._speculators

    def speculate(self, connection: Connection, lane: LaneId) -> None:
        """Send what is durable of the lane, until the connection ends."""
        if lane != self.slot_core.placing_lane:
            raise WrongLane(f"lane {lane} is not written here, or not yet")
        speculators = self._speculators_of(lane)
        speculators.add(connection, *self.slot_core.watermark)
        self._count_speculators()

    def connection_lost(self, connection: Connection) -> None:
        super().connection_lost(connection)
        self.followers.remove(connection)
        if self._speculators is not None:
            self._speculators.remove(connection)
            self._count_speculators()

    def _count_speculators(self) -> None:
        """Followers say what they have synced while there are any, and the core passes cuts by the clock."""
        streams = 0 if self._speculators is None else len(self._speculators)
        if streams != self._streams_told:
            self._streams_told = streams
            self.followers.want(streams > 0)
            self.slot_step(SpeculatorsAre(streams))

    def _speculated(self, effect: Speculate) -> None:
        self._speculators_of(effect.lane).moved(effect.position, effect.durable)
