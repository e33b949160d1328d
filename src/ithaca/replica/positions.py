"""Which positions the records of this shard's lanes have: runs from cuts, and from peers where cuts are gone."""

from collections.abc import Mapping

from ithaca.model.cut import LaneRun, ShardCut
from ithaca.model.positions import LaneId
from ithaca.replica.appends import Appends
from ithaca.replica.events import Effect, NoteRuns, RunsFetched
from ithaca.replica.lanes import LaneCopy, clipped
from ithaca.replica.reporting import RunsSync


class Positions:
    """Takes in runs so that those of each lane stay dense: what comes too early waits in the lane's copy."""

    def __init__(
        self, lanes: Mapping[LaneId, LaneCopy], appends: Appends, runs: RunsSync, effects: list[Effect]
    ) -> None:
        self._lanes = lanes
        self._appends = appends
        self._runs = runs
        self._effects = effects
        self.own_lane: LaneId | None = None
        self.now_us = 0

    def learn(self, cut: ShardCut) -> None:
        """Take in the runs of a cut, each as far as it continues what is known; the others wait."""
        known: list[LaneRun] = []
        for told in cut.runs:
            copy = self._lanes.get(told.lane)
            run = None if copy is None else copy.unknown(told)
            if copy is None or run is None:
                continue  # trimmed, or known already
            if run.lsn == copy.runs_end and copy.is_ready:
                self._extend(copy, run)
                known.append(run)
            else:
                copy.waiting.append((run, cut.time_us))
        if cut.runs:
            self._runs.cut_with_runs = max(self._runs.cut_with_runs, cut.number)
        self._note(known, cut.time_us)

    def drain(self, copy: LaneCopy, first: int) -> None:
        """Take in the runs that waited and continue what is known now."""
        while copy.is_ready and copy.waiting:
            told, time_us = copy.waiting[0]
            if told.lsn > copy.runs_end:
                # Positions rise along a lane: what is before a trimmed record was trimmed too, and need not be known,
                # unless somebody waits for the answer.
                is_trimmed = told.position <= first and copy.lane != self.own_lane
                if not is_trimmed or not self._invent(copy, told.lsn, told.position, time_us):
                    break
                continue
            copy.waiting.popleft()
            run = copy.unknown(told)
            if run is not None:
                self._extend(copy, run)
                self._note([run], time_us)

    def fetched(self, copy: LaneCopy, event: RunsFetched, first: int) -> None:
        """Take in what peers say of a lane; nothing at all says that nobody knows, so that it was trimmed."""
        gap = copy.gap()
        if not copy.is_ready or gap is None:
            return
        if not event.runs:
            behind = copy.waiting[0][0].position if copy.waiting else first
            self._invent(copy, gap[1], min(first, behind), event.time_us)
        known: list[LaneRun] = []
        for told in event.runs:
            # The peer may know of more than is ordered here, and may have trimmed what comes first.
            run = copy.unknown(clipped(told, copy.ordered)) if told.lsn < copy.ordered else None
            if run is None:
                continue
            if run.lsn > copy.runs_end and not self._invent(copy, run.lsn, min(first, run.position), event.time_us):
                copy.fetching_to = 0  # to be asked for again
                break
            self._extend(copy, run)
            known.append(run)
        self._note(known, event.time_us)
        self.drain(copy, first)

    def _extend(self, copy: LaneCopy, run: LaneRun) -> None:
        copy.extend(run)
        if copy.lane == self.own_lane:
            self._appends.ordered(run)

    def _note(self, runs: list[LaneRun], time_us: int) -> None:
        if runs:
            self._effects.append(NoteRuns(tuple(runs), time_us))
            self._runs.noted(self.now_us)

    def _invent(self, copy: LaneCopy, stop: int, below: int, time_us: int) -> bool:
        """Make up positions for `[runs_end, stop)`, which nobody knows: they were trimmed before f+1 replicas had
        synced them, since otherwise somebody would know them.

        `below` is the first position that was not trimmed, or that of the next known run if it is earlier; to be
        below is all that is asked of them from now on. False when they do not fit there: then the trim is not
        known here yet as it was to whoever answered.
        """
        position = below - (stop - copy.runs_end)
        if position < max(copy.end_position, 1):
            return False
        run = LaneRun(copy.lane, copy.runs_end, position, stop - copy.runs_end)
        copy.invented.append((run.lsn, stop))
        if copy.lane == self.own_lane:
            self._appends.position_unknown(stop)
        copy.extend(run)
        self._note([run], time_us)
        return True
