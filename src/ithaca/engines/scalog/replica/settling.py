"""What each lane needs next on this disk: to be made, followed, cut, completed, or to learn its positions.

`reconcile` looks at a lane as it is and asks for what is missing, so it may be called at any time, twice too.
"""

from collections.abc import Iterable

from ithaca.engines.scalog.replica.appends import Appends
from ithaca.engines.scalog.replica.events import CreateLane, Effect, Fetch, FetchRuns, Follow, Truncate, Unfollow, Write
from ithaca.engines.scalog.replica.lanes import LaneCopy
from ithaca.engines.scalog.replica.readable import Readable
from ithaca.model.positions import LaneId
from ithaca.model.view import Address, Shard
from ithaca.wire.batch import NOOPS, SNAPSHOT, Batch, lane_seed
from ithaca.wire.build import noops

_NOOPS_MAX = (1 << 32) - 1
"""What one run of no-ops can count."""


class Settling:
    """Brings the copies of this replica to where the order says that they should be."""

    def __init__(self, replica: int, appends: Appends, readable: Readable, effects: list[Effect]) -> None:
        self._replica = replica
        self._appends = appends
        self._readable = readable
        self._effects = effects
        self.taken_from: dict[LaneId, Fetch | None] = {}
        """Open lanes that are not pulled from their primaries, but from here, or not at all."""
        self._shard: Shard | None = None
        self._peers: tuple[Address, ...] = ()
        self._is_over = False
        self._done: list[LaneCopy] = []

    def look_at(self, copy: LaneCopy) -> None:
        """Note a lane that may be complete by now."""
        if copy.is_done:
            self._done.append(copy)

    def take_done(self) -> list[LaneCopy]:
        """The lanes that were noted since."""
        done, self._done = self._done, []
        return done

    def follow(self, shard: Shard) -> None:
        """The shard is like this now."""
        self._shard = shard
        self._peers = tuple(each.address for each in shard.replicas if each.replica != self._replica)

    def take_from(self, copy: LaneCopy, source: Fetch | None) -> None:
        """Have an open lane pulled from here, and not from its primary."""
        self.taken_from[copy.lane] = source
        self.reconcile(copy)

    def abandon(self, copies: Iterable[LaneCopy]) -> None:
        """This replica is none any more: nothing is copied for it."""
        self._is_over = True
        for copy in copies:
            if copy.source is not None or copy.fetching_to:
                self._effects.append(Unfollow(copy.lane))
                copy.source, copy.fetching_to = None, 0

    def reconcile(self, copy: LaneCopy) -> None:
        """Ask for what the lane needs next; when that is there, this is to be called again."""
        if self._is_over or copy.is_busy or not (copy.is_open or copy.is_closed):
            return
        if not copy.is_present:
            copy.is_busy = True
            self._effects.append(CreateLane(copy.lane))
            return
        if copy.is_closed:
            self._fill(copy, copy.lost_from_received())
            if not self._peers:
                self.give_up(copy)
        self._pull(copy, None if self._appends.is_own(copy) else self._wanted(copy))
        if copy.is_closed and copy.received > copy.due and copy.durable == copy.received:
            # Only when nothing is being written: what is written later would stand behind the cut.
            copy.is_busy = True
            self._effects.append(Truncate(copy.lane, copy.due))
            return
        self._learn_positions(copy)
        self.look_at(copy)

    def give_up(self, copy: LaneCopy) -> None:
        """No peer has more of the lane, nor knows what was there: a rest that nobody may read is filled.

        Of trimmed batches some may still be had, and others start inside them: only a whole rest is filled, and only
        now, since a peer may know which batches of which sessions were there.
        """
        is_dead = copy.dead_from_received(self._readable.first) >= copy.due
        if copy.is_closed and copy.is_ready and is_dead:
            self._fill(copy, copy.due)

    def take(self, copy: LaneCopy, batch: Batch, position: int = 0) -> None:
        """A peer has sent this batch of the lane, or a snapshot of what was before the next."""
        if not copy.is_ready:
            return
        if batch.end_lsn <= copy.received:
            self._make_up(copy, batch)
            return
        if copy.source is None:
            return
        if copy.is_closed and batch.end_lsn > copy.due:
            return  # the peer has not cut its copy yet
        if batch.base_lsn > copy.received and copy.dead_from_received(self._readable.first) >= batch.base_lsn:
            self._fill(copy, batch.base_lsn)  # the peer has trimmed what is before
            if batch.kind == SNAPSHOT:
                self._make_up(copy, batch)
                return
        if batch.base_lsn != copy.received or batch.kind == SNAPSHOT:
            # Something of the stream was not taken: it is to start again, where this copy ends. What is fetched of the
            # positions goes on: it may be they that say that what is before was trimmed.
            self._effects.append(copy.source)
            self._learn_positions(copy)
            return
        copy.received = batch.end_lsn
        copy.has_holes = copy.has_holes or batch.kind == NOOPS
        self._effects.append(Write(copy.lane, batch, position))
        if copy.is_closed and copy.received >= copy.due:
            copy.source = None  # it has come to its end

    def _make_up(self, copy: LaneCopy, snapshot: Batch) -> None:
        """Take in what a whole lane says of the batches before this place, if they are not all here.

        Never behind the end of a copy that is settled: nothing is written to it any more.
        """
        is_next = snapshot.base_lsn == copy.received and not copy.is_settled
        if snapshot.kind == SNAPSHOT and copy.has_holes and is_next:
            copy.has_holes = False
            self._effects.append(Write(copy.lane, snapshot))

    def _wanted(self, copy: LaneCopy) -> Follow | Fetch | None:
        assert self._shard is not None
        if copy.is_open and copy.lane in self.taken_from:
            return self.taken_from[copy.lane]
        if copy.is_open:
            primary = None if copy.lane.replica == self._replica else self._shard.find(copy.lane.replica)
            return None if primary is None else Follow(copy.lane, primary.address)
        if copy.received < copy.due and self._peers:
            return Fetch(copy.lane, copy.due, self._peers)
        return None

    def _pull(self, copy: LaneCopy, wanted: Follow | Fetch | None) -> None:
        if wanted == copy.source:
            return
        if copy.source is not None:
            self._effects.append(Unfollow(copy.lane))
            copy.fetching_to = 0  # that has ended, too
        if wanted is not None:
            self._effects.append(wanted)
        copy.source = wanted

    def _learn_positions(self, copy: LaneCopy) -> None:
        gap = copy.gap()
        if gap is None and copy.unplaced is not None and copy.fetching_to > copy.runs_end and copy.source is None:
            self._effects.append(Unfollow(copy.lane))  # nobody knows what is being asked for
        if gap is None or copy.are_runs_refused:
            copy.fetching_to = 0
        elif copy.fetching_to <= copy.runs_end:
            start, copy.fetching_to = gap
            self._effects.append(FetchRuns(copy.lane, start, copy.fetching_to, self._peers))

    def _fill(self, copy: LaneCopy, stop: int) -> None:
        """Put no-ops where records were that nobody can or may read: LSNs on a disk are dense."""
        while copy.received < stop:
            copy.has_holes = True
            batch = noops(min(stop - copy.received, _NOOPS_MAX), timestamp_us=0)
            batch.placed(copy.received, lane_seed(copy.lane))
            copy.received = batch.end_lsn
            self._effects.append(Write(copy.lane, batch))
