"""One term of leading the ordering layer: what `leading.SlotLeader` says is proposed, and told to primaries."""

import logging
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from ithaca.engines.belfast.leading.keeping import Here, StartAgain
from ithaca.engines.belfast.leading.leader import LeaderSettings, Propose, SlotLeader
from ithaca.engines.belfast.limits import WINDOW_ROUNDS
from ithaca.engines.belfast.server.orderer.streams import SlotStreams
from ithaca.engines.belfast.speculation.entries import BelfastEntry, FailLane, TakeLane, encode_entry
from ithaca.engines.belfast.speculation.progress import AskPass
from ithaca.engines.belfast.speculation.reports import LaneReport
from ithaca.engines.belfast.speculation.state import BelfastState
from ithaca.engines.belfast.speculation.takeover import AskPromise, Copied, CopyLane, Promised
from ithaca.engines.scalog.ordering.entries import AddReplica, CloseLane, Finalize, OrderingEntry, RemoveReplica
from ithaca.engines.scalog.ordering.leader import CutProposer
from ithaca.engines.scalog.ordering.outcomes import Outcome, RefusedEntry
from ithaca.engines.scalog.server.orderer.leading import LeaderService
from ithaca.engines.scalog.server.orderer.time import OrderTime
from ithaca.model.config.cluster import ClusterFile
from ithaca.model.errors import IthacaError, Unavailable
from ithaca.model.limits import ORDERER_RETRY_S
from ithaca.model.positions import LaneId
from ithaca.runtime.dialling import Said
from ithaca.runtime.machine import monotonic_ns
from ithaca.runtime.metrics import OrdererMetrics
from ithaca.runtime.raft.driver import RaftDriver

_log = logging.getLogger("ithaca.orderer")

CHANGES = (AddReplica, CloseLane, Finalize, RemoveReplica)
"""What changes a shard is ordered while the order is free: all that was delivered is ordered by then."""


class _Change(NamedTuple):
    entry: OrderingEntry
    done: Callable[[list[Outcome]], None]
    failed: Callable[[IthacaError], None]


class SlotLeaderService(LeaderService):
    """The leader's work during one term."""

    leaves_shards = False  # lanes that fail are taken over

    def __init__(
        self,
        file: ClusterFile,
        term: int,
        state: BelfastState,
        driver: RaftDriver,
        metrics: OrdererMetrics,
        ready: Callable[[], None],
        hello: Callable[[], Said],
        clock: OrderTime,
        streams: SlotStreams,
    ) -> None:
        self._slots_state = state
        self._streams = streams
        self._settings = LeaderSettings(file.slots, WINDOW_ROUNDS, file.failures.detection_ms * 1000)
        self._slots: SlotLeader | None = None
        self._here: dict[tuple[int, int], Here] = {}
        """Who came before there was anything to order."""
        self._changes: list[_Change] = []
        self._changing = 0
        """Changes that wait or are in flight."""
        self._is_deciding = False
        super().__init__(file, term, state, driver, metrics, ready, hello, clock)

    def end(self) -> None:
        super().end()
        self._slots = None
        changes, self._changes = self._changes, []
        for change in changes:
            change.failed(Unavailable("another server leads: ask it"))

    def _make_proposer(self) -> CutProposer:
        self._slots = SlotLeader(self._slots_state, self._settings)
        self._slots.speculators = self._streams.speculators
        for (shard, replica), here in self._here.items():
            self._slots.came(shard, replica, here)
        return self._slots

    # What replicas say

    def came(self, shard: int, replica: int, here: Here) -> None:
        """A replica has joined, and said what disk it has."""
        self._here[shard, replica] = here
        if self._slots is not None:
            self._slots.came(shard, replica, here)
            self.propose()

    def went(self, shard: int, replica: int) -> None:
        self._here.pop((shard, replica), None)
        if self._slots is not None:
            self._slots.supervisor.went(shard, replica)
            self.propose()

    def must_start_again(self, shard: int, replica: int, boot: int) -> bool:
        """Whether only a new start of this replica can have a lane."""
        return self._slots is not None and self._slots.supervisor.must_start_again(shard, replica, boot)

    def speculators_are(self, count: int) -> None:
        """So many clients follow the order of slots here."""
        if self._slots is not None and self._slots.speculators != count:
            self._slots.speculators = count
            self.propose()

    def promised(self, lane: LaneId, promise: Promised) -> None:
        if self._slots is not None:
            self._slots.takeovers.promised(lane, promise)
            self.propose()

    def copied(self, lane: LaneId, disk: int, copied: Copied) -> None:
        if self._slots is not None:
            self._slots.takeovers.copied(lane, disk, copied)
            self.propose()

    def _look_for_failures(self) -> None:
        super()._look_for_failures()
        if self._slots is not None:
            silent = self.silent()
            here = {(shard, replica) for shard, replicas in silent.items() for replica in replicas}
            self._slots.supervisor.are_silent(here & self._here.keys())
            self.propose()

    def lane_reported(self, report: LaneReport) -> None:
        if self._slots is not None and self._slots.lane_reported(report):
            self.propose()

    # Ordering

    def propose(self) -> None:
        """Have done what is due at the end of this turn of the loop: what came together is decided on once."""
        if not self._is_deciding:
            self._is_deciding = True
            self._loop.call_soon(self._decide)

    def _decide(self) -> None:
        """Have done all that is due, and plan for when more will be."""
        self._is_deciding = False
        leader = self._slots
        if leader is None or self._is_over:
            return
        self._change()
        now_us, time_us = monotonic_ns() // 1000, self._clock.lead()
        for effect in leader.decide(now_us, time_us):
            match effect:
                case Propose(entry=entry):
                    self._propose(leader, entry)
                case AskPass(lane=lane, cut=cut):
                    self._streams.ask_to_pass(lane, cut)
                case AskPromise(lane=lane, replica=replica):
                    self._streams.ask_promise(replica, lane)
                case CopyLane(lane=lane, source=source, target=target, length=length):
                    self._streams.have_copied(lane, source, target, length)
                case StartAgain(shard=shard, replica=replica):
                    connection = self._streams.connection(shard, replica)
                    if connection is not None:
                        connection.abort(Unavailable(f"replica {shard}/{replica} is to start again for another lane"))
        at_us = leader.decide_at_us(now_us, time_us)
        if at_us is not None:
            self._plan((at_us - now_us) / 1e6, self.propose)

    def _propose(self, leader: SlotLeader, entry: BelfastEntry) -> None:
        if isinstance(entry, FailLane):
            _log.warning("lane %s fails: too few replicas of its shard are left", entry.lane)
        elif isinstance(entry, TakeLane):
            _log.info("lane %s is taken over: its primary is gone, and all that it delivered is ordered", entry.lane)
        self._submit(encode_entry(entry), partial(leader.done, entry), partial(self._lost, leader, entry))

    def _lost(self, leader: SlotLeader, entry: BelfastEntry, error: IthacaError) -> None:
        leader.lost(entry)
        if not self._is_over:
            _log.warning("%s was not taken: %s", type(entry).__name__, error)
            self._plan(ORDERER_RETRY_S, self.propose)

    # Changes of shards

    def _order(
        self, entry: OrderingEntry, done: Callable[[list[Outcome]], None], failed: Callable[[IthacaError], None]
    ) -> None:
        if isinstance(entry, CHANGES):
            self.order_when_free(entry, done, failed)
        else:
            super()._order(entry, done, failed)

    def order_when_free(
        self, entry: OrderingEntry, done: Callable[[list[Outcome]], None], failed: Callable[[IthacaError], None]
    ) -> None:
        """Order what would close lanes: first all that was delivered is ordered, and the order free."""
        self._changes.append(_Change(entry, done, failed))
        self._changing += 1
        self.propose()

    def _change(self) -> None:
        leader = self._slots
        assert leader is not None
        leader.changes = self._changing
        if self._changes and leader.is_free:
            changes, self._changes = self._changes, []
            for change in changes:
                failed = partial(self._change_failed, change)
                super()._order(change.entry, partial(self._changed, change), failed)

    def _changed(self, change: _Change, outcomes: list[Outcome]) -> None:
        refused = outcomes[0] if outcomes and isinstance(outcomes[0], RefusedEntry) else None
        if refused is not None and refused.reason == "the lane is to be taken over first" and not self._is_over:
            self._changes.append(change)  # the order was fixed again meanwhile
            return
        self._changing -= 1
        change.done(outcomes)

    def _change_failed(self, change: _Change, error: IthacaError) -> None:
        self._changing -= 1
        change.failed(error)
