"""What others may know of a replica without taking a step: how far it is, and what it has of each lane."""

from collections.abc import Mapping
from typing import Literal

from ithaca.engines.scalog.ordering.lost import Ranges, merged
from ithaca.engines.scalog.replica.appends import Appends
from ithaca.engines.scalog.replica.events import Effect, Held
from ithaca.engines.scalog.replica.lanes import LaneCopy
from ithaca.engines.scalog.replica.positions import Positions
from ithaca.engines.scalog.replica.readable import Readable
from ithaca.engines.scalog.replica.reporting import Reporting, RunsSync, Timer
from ithaca.engines.scalog.replica.settled import SettledCopies
from ithaca.engines.scalog.replica.settling import Settling
from ithaca.engines.scalog.replica.staging import Staging
from ithaca.model.limits import LANE_ASK_S
from ithaca.model.positions import LaneId
from ithaca.model.view import Shard

State = Literal["joining", "learning", "catching up", "serving", "full", "finalized", "reclaimed", "removed"]


class ReplicaFacts:
    """The parts of one boot of one replica, and what they say. Only `core` changes anything."""

    def __init__(
        self,
        shard: int,
        replica: int,
        boot: int,
        held: Mapping[LaneId, Held],
        *,
        settled: SettledCopies | None,
        now_us: int,
    ) -> None:
        self._shard = shard
        self._replica = replica
        self._now_us = now_us
        self._effects: list[Effect] = []
        self._lanes = {lane: LaneCopy(lane, found) for lane, found in sorted(held.items())}
        """Those of which something may change."""
        self._settled = settled if settled is not None else SettledCopies()
        self._lost: dict[LaneId, Ranges] = {}
        """What is lost of settled lanes."""
        self._unplaced: dict[LaneId, LaneCopy] = {}
        """The lanes that end with lost records whose positions nobody knows."""
        self._is_joined = False
        self._is_reclaimed = False
        self._is_removed = False
        self._readable = Readable(self._lanes)
        self._appends = Appends(self._effects)
        self._runs = RunsSync(self._effects)
        self._reporting = Reporting(replica, boot, self._lanes, self._settled, self._runs, self._effects)
        self._settling = Settling(replica, self._appends, self._readable, self._effects)
        self._staging = Staging(replica, self._lanes, self._appends, self._effects)
        self._positions = Positions(self._lanes, self._appends, self._runs, self._effects)
        self._lane_wait = Timer(int(LANE_ASK_S * 1e6))
        """Until it asks again for a lane, if it has none."""
        self.own_lane: LaneId | None = None
        self.shard_view: Shard | None = None
        self.view_version = 0
        self.cut_number = 0

    @property
    def deadline_us(self) -> int | None:
        """When the next `Tick` has something to do, unless other events come first."""
        times_us = (self._reporting.due_us, self._runs.due_us, self._lane_wait.due_us)
        return min((time_us for time_us in times_us if time_us is not None), default=None)

    @property
    def first(self) -> int:
        """The first position that was not trimmed."""
        return self._readable.first

    @property
    def readable(self) -> int:
        """Positions below are ordered, and those of this shard are on this disk."""
        return self._readable.limit

    @property
    def tail(self) -> int:
        """The next position that will be given, as far as is known."""
        return self._readable.tail

    @property
    def leaving_view(self) -> int:
        """The version of a view in which the shard takes nothing new; 0 while it is live."""
        return 0 if self.shard_view is not None and self.shard_view.phase == "live" else self.view_version

    @property
    def pending_bytes(self) -> int:
        """Accepted and not yet ordered."""
        return self._appends.pending_bytes

    @property
    def runs_unsynced(self) -> int:
        """The most runs of a lane that wait to be synced; above `RUNS_UNSYNCED_MAX` there are never any."""
        return self._runs.unsynced

    @property
    def state(self) -> State:
        if self._is_reclaimed or self._is_removed:
            return "reclaimed" if self._is_reclaimed else "removed"
        if not self._is_joined:
            return "joining"
        if self._is_learner:
            return "learning"
        is_final = self.shard_view is not None and self.shard_view.phase == "finalized"
        if (self._appends.is_full or self._runs.has_refused) and not is_final:
            return "full"
        if all(copy.is_ready and (copy.is_open or copy.is_settled) for copy in self._lanes.values()):
            return "finalized" if is_final else "serving"
        return "catching up"

    @property
    def is_complete(self) -> bool:
        """Whether nothing that is ordered of the shard is missing here, as far as is known."""
        is_there = self.state in ("serving", "finalized")
        return is_there and not any(copy.is_behind for copy in self._lanes.values())

    def received(self, lane: LaneId) -> int:
        """The LSN from which on the lane's batches are wanted; what is not synced yet is not wanted again."""
        copy = self._lanes.get(lane)
        return self._settled.length(lane) or 0 if copy is None else copy.received

    @property
    def settled_count(self) -> int:
        """How many lanes are closed and complete here, and not among `lanes`."""
        return len(self._settled)

    def lanes(self) -> list[tuple[LaneId, bool, int, int]]:
        """Every lane that is not settled, in order: whether it is open, how much of it is synced here, and ordered."""
        return [(lane, copy.is_open, copy.durable, copy.ordered) for lane, copy in sorted(self._lanes.items())]

    def lost(self, lane: LaneId) -> Ranges:
        """The LSNs of the lane that were ordered and are gone."""
        copy = self._lanes.get(lane)
        return self._lost.get(lane, ()) if copy is None else copy.lost

    def strewn(self) -> Ranges:
        """Positions between which records of this shard were lost of which nobody knows where they stood: those of them
        that no other shard has a record at."""
        found: Ranges = ()
        for copy in self._unplaced.values():
            bounds = copy.strewn(self.first)
            if bounds is not None:
                found = merged(found, *bounds)
        return found

    def held_length(self, lane: LaneId) -> tuple[int, int]:
        """Up to which LSN the lane is synced here, and up to which its positions are known."""
        copy = self._lanes.get(lane)
        settled = self._settled.length(lane) or 0
        return (settled, settled) if copy is None else (copy.durable, copy.runs_end)

    def is_behind(self, lane: LaneId) -> bool:
        """Whether something of a lane is waited for: records or positions that are not declared lost."""
        copy = self._lanes.get(lane)
        return copy is not None and copy.is_behind

    def session_name(self, producer_id: int) -> str | None:
        """The name of a session that lives in the own lane."""
        return self._appends.sessions.name_of(producer_id)

    def next_seq(self, lane: LaneId, producer_id: int, epoch: int) -> int:
        """The number that continues a session at home here; raises what an append would be refused with."""
        return self._appends.next_seq(lane, producer_id, epoch)

    def is_written_here(self, lane: LaneId) -> bool:
        """Whether it is a part that is being written here."""
        return self._staging.is_written_here(lane)

    def is_settled(self, lane: LaneId) -> bool:
        """Whether the lane is closed, and complete here: nothing will be written to it any more."""
        copy = self._lanes.get(lane)
        return lane in self._settled if copy is None else copy.is_settled

    def has_every_batch(self, lane: LaneId) -> bool:
        """Whether the lane is here exactly as it was ordered: only then what is not in it never will be.

        A lane with holes is complete for readers, and cannot say which batches were there.
        """
        copy = self._lanes.get(lane)
        if copy is None:
            return lane in self._settled and not self._settled.has_holes(lane)
        return copy.is_settled and not copy.has_holes

    def has_all_ordered(self, lane: LaneId) -> bool:
        """Whether all that is ordered of the lane is here, and can be read; of a lane that was trimmed, nothing is."""
        copy = self._lanes.get(lane)
        return self._is_joined and (copy is None or (copy.is_ready and not copy.is_behind))

    def ordered_length(self, lane: LaneId) -> int | None:
        """How much of the lane is ordered, as far as this replica knows; None for a lane that it does not know."""
        copy = self._lanes.get(lane)
        return self._settled.length(lane) if copy is None else copy.ordered

    @property
    def _is_learner(self) -> bool:
        """Whether this replica is not of the shard yet."""
        return self.shard_view is not None and self.shard_view.find(self._replica) is None
