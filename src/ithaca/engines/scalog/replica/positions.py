"""Which positions the records of this shard's lanes have: runs from cuts, and from peers where cuts are gone.

The ordering layer keeps a cut until f+1 replicas have synced its runs. So nobody lacks a run for long in a shard
without masking; with it a replica that was slow asks its peers, as does one that joins a shard that is older.
They may have trimmed what it asks for: then it goes on behind that, and never makes up a position.

Runs wait in memory until they are synced, and no more than `RUNS_UNSYNCED_MAX` of a lane. While a disk takes none,
those that come are not taken in, as if they had never come: what can be read, watermarks and acknowledgements stop
where the positions are not known. Once there is room, they are learnt again, from cuts that are kept and from peers.
"""

from collections.abc import Mapping

from ithaca.engines.scalog.replica.appends import Appends
from ithaca.engines.scalog.replica.events import Effect, NoteRuns, RunsFetched, SkipRuns
from ithaca.engines.scalog.replica.lanes import LaneCopy, clipped
from ithaca.engines.scalog.replica.reporting import RunsSync
from ithaca.model.cut import LaneRun, ShardCut
from ithaca.model.limits import RUNS_UNSYNCED_MAX
from ithaca.model.positions import LaneId


class Positions:
    """Takes in runs so that those of each lane stay dense: what comes too early waits in the lane's copy."""

    def __init__(
        self, lanes: Mapping[LaneId, LaneCopy], appends: Appends, runs: RunsSync, effects: list[Effect]
    ) -> None:
        self._lanes = lanes
        self._appends = appends
        self._runs = runs
        self._effects = effects
        self.now_us = 0

    def learn(self, cut: ShardCut) -> None:
        """Take in the runs of a cut, each as far as it continues what is known; the others wait."""
        known: list[LaneRun] = []
        for told in cut.runs:
            copy = self._lanes.get(told.lane)
            run = None if copy is None else copy.unknown(told)
            if copy is None or run is None:
                continue  # trimmed, or known already
            if run.lsn != copy.runs_end or not copy.is_ready:
                self._wait(copy, run, cut.time_us)
            elif self._takes(copy):
                self._extend(copy, run)
                known.append(run)
        if cut.runs:
            self._runs.cut_with_runs = max(self._runs.cut_with_runs, cut.number)
        self._note(known, cut.time_us)

    def drain(self, copy: LaneCopy) -> None:
        """Take in the runs that waited and continue what is known now."""
        while copy.is_ready and copy.waiting and copy.waiting[0][0].lsn <= copy.runs_end:
            told, time_us = copy.waiting[0]
            run = copy.unknown(told)
            if run is not None:
                if not self._takes(copy):
                    break
                self._extend(copy, run)
                self._note([run], time_us)
            copy.waiting.popleft()

    def fetched(self, copy: LaneCopy, event: RunsFetched, first: int) -> bool:
        """Take in what a peer says of a lane; False when that is of use only once more of the order is known here."""
        if not copy.is_ready or copy.gap() is None:
            return True
        for told in event.runs:
            if told.lsn > copy.runs_end:
                # The peer has trimmed what is before, by a trim that may not have come here yet.
                if told.position > first or told.lsn >= copy.ordered:
                    return False
                self._skip(copy, told.lsn)
            run = copy.unknown(clipped(told, copy.ordered))
            if run is not None and run.count:  # the peer may know of more than is ordered here
                if not self._takes(copy):
                    return False
                self._extend(copy, run)
                self._note([run], event.time_us)
        self.drain(copy)
        return True

    def _takes(self, copy: LaneCopy) -> bool:
        """Whether there is room for another run; else this one is to be learnt again."""
        if not copy.has_room:
            self._runs.refuse(copy)
        return copy.has_room

    def _wait(self, copy: LaneCopy, run: LaneRun, time_us: int) -> None:
        """What waits is no more than what may be noted: the rest is a gap, which peers fill."""
        if len(copy.waiting) < RUNS_UNSYNCED_MAX and not copy.are_runs_refused:
            copy.waiting.append((run, time_us))

    def _extend(self, copy: LaneCopy, run: LaneRun) -> None:
        copy.extend(run)
        self._runs.count(copy)
        if self._appends.is_own(copy):
            self._appends.ordered(run)

    def _skip(self, copy: LaneCopy, lsn: int) -> None:
        copy.skip(lsn)
        self._effects.append(SkipRuns(copy.lane, lsn))
        if self._appends.is_own(copy):
            self._appends.position_unknown(lsn)

    def _note(self, runs: list[LaneRun], time_us: int) -> None:
        if runs:
            self._effects.append(NoteRuns(tuple(runs), time_us))
            self._runs.noted(self.now_us)
