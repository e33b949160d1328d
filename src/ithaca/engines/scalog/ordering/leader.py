"""The ordering leader's soft state: when to propose which cut (design §5 "Self-clocking").

A leader knows the committed state and the reports it received, nothing more; it is made when leadership
begins and dropped when it ends. Whatever it proposes is safe: `OrderingState` takes maxima, and passes over
what no longer counts. So the leader may propose twice, never too much.
"""

from collections.abc import Mapping

from ithaca.engines.scalog.ordering import entries
from ithaca.engines.scalog.ordering.outcomes import OrderedCut, Outcome, ViewChanged
from ithaca.engines.scalog.ordering.prepared.entries import SealPart
from ithaca.engines.scalog.ordering.prepared.outcomes import PartDropped, PartSealed, PartsPublished, StagedPart
from ithaca.engines.scalog.ordering.reports import Report, Reports
from ithaca.engines.scalog.ordering.retention import Retention
from ithaca.engines.scalog.ordering.state import OrderingState
from ithaca.model.cut import LaneLengths, shard_of
from ithaca.model.errors import InvalidInput
from ithaca.model.positions import LaneId
from ithaca.model.view import ClusterConfiguration


class CutProposer:
    """Turns reports into cuts. `now_us` is a monotonic clock, `time_us` the wall clock."""

    def __init__(self, state: OrderingState) -> None:
        self._state = state
        self._reports = Reports(state)
        self._retention = Retention(state.kept, state.shards.by_number)
        self._moved: dict[int, int] = {}
        """Durable lengths, by lane key, of lanes that moved beyond the last proposed cut."""
        self._heard: dict[int, None] = {}
        """Shards of which something is known that `_moved` and the retention do not know yet: worked out once for each
        cut, however many reports came in between."""
        self._proposed: dict[int, int] = {}
        self._in_flight = 0
        self._last_us: int | None = None

    def receive(self, report: Report) -> bool:
        """Take in a report; False for one that is stale or from nowhere."""
        accepted = self._reports.receive(report)
        if accepted:
            self._heard[report.shard] = None
        return accepted

    def propose(self, now_us: int, time_us: int) -> entries.Cut | None:
        """The next cut, if one is due: call after `receive`, after `applied`, and at the deadline."""
        if self._in_flight >= self._configuration.pipeline_cuts or now_us < self._earliest_us():
            return None
        self._take_in()
        ready = self._ready()
        moved = self._state.lanes.growing(LaneLengths.of_keys(ready), self._state.shards.version)
        # What would order nothing is let go: it is ordered or closed, or its shard will report again.
        self._moved = {key: length for key, length in self._moved.items() if key not in ready}
        if not len(moved) and not self._is_grace_cut_due(time_us):
            return None
        self._proposed.update(moved.pairs())
        self._in_flight += 1
        self._last_us = now_us
        return entries.cut(moved, time_us=time_us, view=self._state.shards.version, forget=self._retention.take())

    def applied(self, outcomes: list[Outcome], *, own: bool) -> None:
        """The state applied an entry, with these outcomes; `own` says that this leader's term proposed it."""
        own = own and not any(isinstance(outcome, PartsPublished) for outcome in outcomes)
        for outcome in outcomes:
            if isinstance(outcome, OrderedCut):
                self._retention.keep(outcome)
                self._reports.ordered(outcome)
                self._in_flight -= own
            elif isinstance(outcome, PartSealed | PartDropped):
                self._reports.forget(outcome.lane)
            elif isinstance(outcome, ViewChanged):
                self._view_changed(outcome)

    def refused(self) -> None:
        """Raft did not take the last cut that was proposed: start over from what is applied."""
        self._in_flight -= 1
        self._proposed.clear()
        self._retention = Retention(self._state.kept, self._state.shards.by_number)
        self._heard |= dict.fromkeys(self._reports.shards())

    def deadline_us(self, now_us: int, time_us: int) -> int | None:
        """When to call `propose` at the latest; None when only a report or an applied cut can make one due."""
        if self._in_flight >= self._configuration.pipeline_cuts:
            return None
        earliest_us = max(now_us, self._earliest_us())
        if self._heard or self._ready():
            return earliest_us
        order_us = max(time_us, self._state.time_us)
        graces = self._state.shards.graces.values()
        return min((max(earliest_us, now_us + grace.until_us - order_us) for grace in graces), default=None)

    def seal(self, part: StagedPart, length: int) -> SealPart | None:
        """The entry that seals the part at the length that its maker says, once f+1 replicas have synced that.

        `InvalidInput` for one that is longer by now: lengths that are durable end with a batch, others may not.
        """
        durable = self._reports.durable_length(part.lane)
        if durable > length:
            raise InvalidInput(f"part {part.lane} has {durable} records: it cannot be finished with {length}")
        if durable < length:
            return None
        return SealPart(part.lane, part.token, length, self._state.shards.version)

    def reported_lengths(self, shard: int, replica: int) -> Mapping[LaneId, int]:
        """How much of each lane a replica has synced, by all of its reports since it started."""
        return self._reports.lengths_of(shard, replica)

    def restarted(self, shard: int, replica: int, boot: int) -> None:
        """The replica has started again, so that what it reported before does not count any more."""
        self._reports.restarted(shard, replica, boot)

    def has_caught_up(self, shard: int, replica: int) -> bool:
        """Whether a learner holds all that is ordered of its shard, so that it may be added."""
        return self._reports.has_caught_up(shard, replica)

    @property
    def _configuration(self) -> ClusterConfiguration:
        assert self._state.configuration is not None, "a log is configured before anything is ordered"
        return self._state.configuration

    def _view_changed(self, outcome: ViewChanged) -> None:
        # Cuts in flight may be passed over from here on, so what they held is proposed once more. What was
        # durable in an earlier configuration may not be in this one: only reports of its epoch count.
        self._proposed.clear()
        if outcome.now is None:
            self._retention.reclaimed(outcome.shard)
        else:
            self._note(outcome.shard)

    def _take_in(self) -> None:
        """Work out what the reports since the last time come to."""
        for shard in self._heard:
            self._note(shard)
        self._heard.clear()

    def _note(self, shard: int) -> None:
        durable, runs_cut = self._reports.synced(shard)
        proposed, moved = self._proposed, self._moved
        for key, length in durable:
            if length > proposed.get(key, 0):
                moved[key] = length
            elif moved:
                moved.pop(key, None)
        self._retention.synced(shard, runs_cut)

    def _ready(self) -> dict[int, int]:
        """What moved, without the shards that are left out for now."""
        left_out = self._retention.holding_back()
        if not left_out:
            return self._moved
        return {key: length for key, length in self._moved.items() if shard_of(key) not in left_out}

    def _earliest_us(self) -> int:
        return 0 if self._last_us is None else self._last_us + self._configuration.order_interval_us

    def _is_grace_cut_due(self, time_us: int) -> bool:
        """Whether a finalizing shard waits for this cut, although nothing moved (Scalog §4.4.1)."""
        order_us = max(time_us, self._state.time_us)
        return any(order_us >= grace.until_us for grace in self._state.shards.graces.values())
