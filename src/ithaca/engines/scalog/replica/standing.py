"""What a replica is to its shard: one that has a lane, waits for one, or is none any more.

A lane that was closed is never open again. So a replica that lives on goes on as its next boot, without an end of its
process: it keeps what it holds, and has lost nothing. Only what it had accepted and nobody ordered is refused.
"""

from collections.abc import Callable

from ithaca.engines.scalog.replica.events import StartedAgain
from ithaca.engines.scalog.replica.facts import ReplicaFacts
from ithaca.model.view import Shard


class ReplicaStanding(ReplicaFacts):
    """The part of the core that is about the replica itself."""

    asks_for_lanes = True
    """Whether a lane is given to who joins, so that one without a lane joins again. In an engine that is built on this
    one the order may open lanes when it likes."""

    def _standing(self, shard: Shard, was_learner: bool, before: Shard | None) -> str | None:
        """What has become of this replica itself, if only the leader can tell how it goes on."""
        me = shard.find(self._replica)
        if me is None:
            return "it was removed from its shard" if self._replica <= shard.replica_last else None
        if was_learner:
            return "it has become a replica of its shard"
        if shard.phase == "finalized" or (me.is_open and self._is_mine(me.incarnation)):
            return None
        is_news = before is not None and before.find(self._replica) != me
        if self._is_mine(me.incarnation) and (is_news or not self.asks_for_lanes):
            return "its lane was closed"
        others = {lane for lane in shard.open_lanes() if lane.replica != self._replica}
        is_more = self.asks_for_lanes and before is not None and not others.issubset(before.open_lanes())
        return "others of its shard have got lanes, and it has none" if is_more and not me.is_open else None

    def _is_mine(self, incarnation: int) -> bool:
        """Whether this lane of the replica is that of this boot."""
        return self.own_lane is not None and self.own_lane.incarnation == incarnation

    def _await_lane(self) -> None:
        """Ask again for a lane after a while, if this replica should have one and was let in without."""
        me = None if self.shard_view is None else self.shard_view.find(self._replica)
        is_live = self.shard_view is not None and self.shard_view.phase != "finalized"
        if self.asks_for_lanes and is_live and me is not None and not (me.is_open and self._is_mine(me.incarnation)):
            self._lane_wait.set(self._now_us)
        else:
            self._lane_wait.clear()

    def _start_again(self, event: StartedAgain) -> None:
        """The lane of this boot is closed, and the order will give the next boot another one."""
        assert not self._is_joined, "a replica starts again before it joins"
        self._reporting.start_again(event.boot)
        former = None if self.own_lane is None else self._lanes.get(self.own_lane)
        self.own_lane = None
        self._appends.ended()
        if former is not None:
            former.is_open = False
            self._settling.look_at(former)

    def _removed(self) -> None:
        """Nothing more is accepted, and nothing is known of what was: others may have ordered it since."""
        self._is_removed = True
        self._withdraw(self._appends.abandoned)

    def _gone(self) -> None:
        """Somebody says that nothing is left of the shard. No entry says so here, so nothing is deleted."""
        self._is_reclaimed = True
        self._withdraw(self._appends.dropped)

    def _withdraw(self, refuse_pending: Callable[[], None]) -> None:
        self._settling.abandon(self._lanes.values())
        self._staging.abandoned()
        if self.own_lane is not None and self.own_lane in self._lanes:
            self._lanes[self.own_lane].is_open = False
            refuse_pending()
