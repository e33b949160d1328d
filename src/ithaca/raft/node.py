"""The state that every role shares (figure 2, "State"), and the few ways in which it changes."""

from random import Random

import msgspec

from ithaca.raft.chunks import IncomingSnapshot
from ithaca.raft.events import Apply, Effect, Restore, Role, RoleChanged, Send, Settings, TakeSnapshot
from ithaca.raft.limits import RAFT_APPLY_ENTRIES_MAX, RAFT_HELD_BACK_ENTRIES_MAX
from ithaca.raft.log import Log
from ithaca.raft.membership import Membership
from ithaca.raft.messages import AnyMessage, AppendReply, DurableState, Entry, HardState, ServerId, Snapshot
from ithaca.raft.persistence import Persistence


class Node:
    """One server's term, vote, role, log and configuration."""

    def __init__(
        self, server: ServerId, settings: Settings, random: Random, durable: DurableState, now_ms: int
    ) -> None:
        snapshot = durable.snapshot
        self.id = server
        self.settings = settings
        self.random = random
        self.now_ms = now_ms
        self.term = durable.hard_state.term
        self.vote = durable.hard_state.vote
        self.role = Role.FOLLOWER
        self.leader: ServerId | None = None
        self.leader_heard_ms = 0
        self.snapshot = snapshot
        self.log = Log(snapshot.index, snapshot.term, settings.weigh)
        self.log.append(durable.entries)
        self.membership = Membership(snapshot)
        self.membership.append(durable.entries)
        self.persistence = Persistence(self.log, durable.hard_state)
        self.commit_index = snapshot.index
        self.applied_index = snapshot.index
        self._restoring: Snapshot | None = None
        self._snapshot_due = False
        self.incoming: IncomingSnapshot | None = None
        """What has come so far of the leader's snapshot."""
        self.offered: Snapshot | None = None
        """A leader's snapshot that waits for what it refers to."""
        self._reported = RoleChanged(self.role, self.term, self.leader)
        self.reset_election_timer()

    @property
    def is_voter(self) -> bool:
        return self.id in self.membership.current.voters

    @property
    def may_campaign(self) -> bool:
        """Voters may, and so may a server whose removal is not committed: the others may need its entries
        to go on (thesis §4.2.2).
        """
        return any(self.id in each.voters for each in self.membership.since(self.commit_index))

    @property
    def hears_leader(self) -> bool:
        """Whether a leader is alive as far as this server knows: then it helps nobody to replace it."""
        if self.role is Role.LEADER:
            return True
        return self.leader is not None and self.now_ms - self.leader_heard_ms < self.settings.election_timeout_ms

    def reset_election_timer(self) -> None:
        timeout_ms = self.settings.election_timeout_ms
        self.election_deadline_ms = self.now_ms + self.random.randrange(timeout_ms, 2 * timeout_ms)

    def become(self, role: Role, leader: ServerId | None) -> None:
        self.role = role
        self.leader = leader
        self.reset_election_timer()

    def adopt_term(self, term: int) -> None:
        """A higher term makes anyone a follower, with a vote to give (§5.1)."""
        assert term > self.term, (term, self.term)
        self.term = term
        self.vote = None
        self.incoming = None
        self.become(Role.FOLLOWER, None)

    def hear_leader(self, leader: ServerId) -> None:
        """An AppendEntries or snapshot of the current term came: its sender is the leader (§5.2)."""
        assert self.role is not Role.LEADER, f"two leaders in term {self.term}: {self.id} and {leader}"
        self.become(Role.FOLLOWER, leader)
        self.leader_heard_ms = self.now_ms

    def lose_leader(self) -> None:
        """The connection to the leader broke: do not count on it any more, and stand soon, in turn with the others.

        If it is alive after all, its next message makes up for this; and nobody is elected whose voters hear it.
        """
        lost, self.leader = self.leader, None
        rivals = [voter for voter in sorted(self.membership.current.voters) if voter != lost]
        if self.id in rivals:
            step_ms = self.settings.succession_ms
            soon_ms = self.now_ms + step_ms // 2 + step_ms * rivals.index(self.id)
            self.election_deadline_ms = min(self.election_deadline_ms, soon_ms)

    def send(self, to: ServerId, message: AnyMessage) -> None:
        self.persistence.now.append(Send(to, message))

    def send_durably(self, to: ServerId, message: AnyMessage) -> None:
        """Send a promise: it leaves when everything that is true now is durable.

        Replies to appends are cumulative, so those that wait for the disk together become one.
        """
        waiting = self.persistence.later
        if waiting and isinstance(message, AppendReply):
            last = waiting[-1]
            if isinstance(last, Send) and last.to == to and isinstance(last.message, AppendReply):
                merged = _merged(last.message, message)
                if merged is not None:
                    waiting[-1] = Send(to, merged)
                    return
        waiting.append(Send(to, message))

    def append(self, entries: tuple[Entry, ...]) -> bool:
        """Append to the log; tells whether the configuration changed."""
        self.offered = None  # what is fetched for a snapshot would be in the way of what belongs to these
        self.log.append(entries)
        return self.membership.append(entries)

    def truncate(self, index: int) -> None:
        """Drop a suffix that contradicts the leader's log (§5.3)."""
        assert index > self.commit_index, f"committed entry {index} would be lost"
        self.log.truncate(index)
        self.membership.truncate(index)
        self.persistence.truncate(index)

    def commit(self, index: int) -> None:
        assert index <= self.log.last_index, (index, self.log.last_index)
        self.commit_index = max(self.commit_index, index)

    def install(self, snapshot: Snapshot) -> None:
        """Replace the whole log by a snapshot from the leader (§7)."""
        assert snapshot.index > self.commit_index
        self.persistence.truncate(self.commit_index + 1)
        self.log.reset(snapshot.index, snapshot.term)
        self.membership.restore(snapshot)
        self.persistence.replace(snapshot)
        self.snapshot = self._restoring = snapshot
        self.commit_index = snapshot.index

    def drop_uncommitted(self) -> None:
        """Let go, durably, of what may contradict the leader's log: it is asked before it gives a snapshot.

        Nobody counts on it: this server lacks the snapshot's last entry, so those who committed that are a majority
        without it, and have every entry up to there.
        """
        index = self.commit_index + 1
        if self.log.last_index >= index:
            self.log.truncate(index)
            self.membership.truncate(index)
            self.persistence.cut(index)

    def compact(self, index: int, data: bytes, needed_after: int | None) -> None:
        """The state machine gave its snapshot at `index`: the log up to there is no longer needed (§7), but for what
        follows an earlier snapshot that somebody is being sent.
        """
        assert index <= self.applied_index, (index, self.applied_index)
        self._snapshot_due = False
        if index <= self.snapshot.index:
            return  # the leader's snapshot overtook it
        term = self.log.term_at(index)
        assert term is not None, index
        self.snapshot = Snapshot(index, term, self.membership.at(index), data)
        self.membership.compact(index)
        self.persistence.replace(self.snapshot)
        keep_after = index - self.settings.trailing_entries
        if needed_after is not None:
            keep_after = min(keep_after, max(needed_after, index - RAFT_HELD_BACK_ENTRIES_MAX))
        self.log.compact(keep_after)

    def flush(self) -> list[Effect]:
        """End a step: what it did to role and state machine comes first, in order."""
        head: list[Effect] = []
        changed = RoleChanged(self.role, self.term, self.leader)
        if changed != self._reported:
            self._reported = changed
            head.append(changed)
        self._apply(head)
        return head + self.persistence.flush(HardState(self.term, self.vote))

    def _apply(self, effects: list[Effect]) -> None:
        """Give the state machine what is committed and durable here, so that it never outruns the log."""
        ready = min(self.commit_index, self.persistence.index)
        if self._restoring is not None and ready >= self._restoring.index:
            effects.append(Restore(self._restoring))
            self.applied_index = self._restoring.index
            self._restoring = None
            self._snapshot_due = False
        while self.applied_index < ready and self._restoring is None:
            stop = min(ready, self.applied_index + RAFT_APPLY_ENTRIES_MAX)
            effects.append(Apply(self.log.slice(self.applied_index + 1, stop + 1)))
            self.applied_index = stop
        if not self._snapshot_due and self.applied_index - self.snapshot.index >= self.settings.snapshot_entries:
            self._snapshot_due = True
            effects.append(TakeSnapshot(self.applied_index))


def _merged(earlier: AppendReply, later: AppendReply) -> AppendReply | None:
    if earlier.term != later.term or earlier.accepted != later.accepted:
        return None
    if not later.accepted or later.index >= earlier.index:
        return later
    return msgspec.structs.replace(later, index=earlier.index)
