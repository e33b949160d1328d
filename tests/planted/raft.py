"""Planted bugs of consensus, and of the disk under it."""

from ithaca.sim.configuration import Configuration
from tests.planted.bug import Bug


def changes_leaders(drawn: Configuration) -> bool:
    """Whether leaders are cut off or die, with something on its way, and others follow them."""
    breaks = {"usurp", "split", "isolate", "kill", "pause", "reset-orderers"} & {*drawn.faults}
    is_slow = drawn.delay_ns[1] > 1_000_000
    return drawn.orderers > 1 and drawn.focus in ("everybody", "orderers") and bool(breaks) and is_slow


RAFT = (
    Bug(
        "raft-vote-not-kept",
        "terms and votes are not written down, but in snapshots: a server that was restarted votes a second time",
        "ithaca.raft.persistence",
        "changed = hard_state if snapshot or hard_state != self._hard_state else None",
        "changed = hard_state if snapshot else None",
    ),
    Bug(
        "raft-two-votes",
        "a server votes for everybody who asks",
        "ithaca.raft.election",
        "granted = up_to_date and node.vote in (None, request.sender)",
        "granted = up_to_date",
        needs=changes_leaders,
    ),
    Bug(
        "raft-old-log-elected",
        "a candidate gets votes although its log lacks committed entries: the order is rebuilt from a half-healed node",
        "ithaca.raft.election",
        "return (request.last_term, request.last_index) >= (log.last_term, log.last_index)",
        "return request.last_index >= self._node.snapshot.index",
        needs=changes_leaders,
        engine="raft",
    ),
    Bug(
        "raft-conflict-kept",
        "a follower keeps entries that contradict its leader's, and says that it has the leader's",
        "ithaca.raft.follower",
        """            node.truncate(entry.index)
            node.append(entries[offset:])
            return
""",
        """            return
""",
        needs=changes_leaders,
    ),
    Bug(
        "raft-no-consistency-check",
        "a follower takes entries without looking at the one before them",
        "ithaca.raft.follower",
        "return node.log.term_at(message.previous_index) == message.previous_term",
        "return node.log.term_at(message.previous_index) is not None",
        needs=changes_leaders,
    ),
    Bug(
        "raft-reply-before-sync",
        "a follower promises entries that are not on its disk yet",
        "ithaca.raft.follower",
        "node.send_durably(message.sender, AppendReply(node.id, node.term, accepted=True, index=agreed, "
        "round=message.round))",
        "node.send(message.sender, AppendReply(node.id, node.term, accepted=True, index=agreed, round=message.round))",
    ),
    Bug(
        "raft-commit-at-proposal",
        "an entry counts as committed when it is proposed: positions are given out before a majority has them",
        "ithaca.raft.leader",
        "index = node.membership.majority_value(self._durable_index)",
        "index = node.log.last_index",
        needs=changes_leaders,
    ),
    Bug(
        "raft-wall-clock",
        "elections are timed by the time of day, which jumps",
        "ithaca.runtime.raft.driver",
        """def _now_ms() -> int:
    return monotonic_ns() // 1_000_000
""",
        """def _now_ms() -> int:
    from ithaca.runtime.machine import wall_us

    return wall_us() // 1000
""",
    ),
    Bug(
        "raft-log-not-synced",
        "entries, terms and votes are written and not synced",
        "ithaca.storage.raftlog",
        """            if zeroed:
                file.write(self._end, group)
            else:
                file.write_durably(self._end, group)
""",
        """            zeroed = False
            file.write(self._end, group)
""",
        needs=lambda drawn: drawn.orderers > 1 and bool({"power", "blackout"} & {*drawn.faults}),
    ),
    Bug(
        "raft-log-sync-retried",
        "a sync of the Raft log that failed is done once more, and then believed",
        "ithaca.storage.raftlog",
        """            if not _is_full(error):
                self._fence(error)
            try:
                file.truncate(self._end)
""",
        """            if not _is_full(error):
                file.sync()
                self._written = max(self._written, end)
                return
            try:
                file.truncate(self._end)
""",
    ),
    Bug(
        "raft-compaction-drops-entries",
        "when the log is rewritten behind a snapshot, the entries after it are left out",
        "ithaca.storage.raftlog",
        "self._rewrite(DurableState(effect.hard_state, effect.snapshot, effect.entries))",
        "self._rewrite(DurableState(effect.hard_state, effect.snapshot, ()))",
        needs=lambda drawn: drawn.snapshot_entries == 20,
    ),
    Bug(
        "raft-read-without-majority",
        "a leader answers reads without asking a majority whether it still leads",
        "ithaca.raft.leader",
        """        node = self.node
        return node.membership.is_quorum(
            lambda voter: voter == node.id or self.progress[voter].round >= self.reads.round
        )
""",
        """        return True
""",
        needs=changes_leaders,
    ),
    Bug(
        "raft-last-chunk-missing",
        "a snapshot counts as whole before its last chunk has come",
        "ithaca.raft.chunks",
        "if len(self._data) < chunk.size:",
        "if len(self._data) + len(chunk.data) < chunk.size:",
        needs=lambda drawn: drawn.orderers > 1 and drawn.snapshot_entries == 20,
    ),
    Bug(
        "raft-chunk-joined-twice",
        "a chunk that comes twice is joined twice",
        "ithaca.raft.chunks",
        "if chunk.offset == len(self._data):",
        "if chunk.offset <= len(self._data):",
        needs=lambda drawn: drawn.orderers > 1 and drawn.mischief > 0 and drawn.snapshot_entries == 20,
    ),
    Bug(
        "raft-vote-forgotten",
        "only the vote is not written down, and the term is",
        "ithaca.raft.node",
        "return head + self.persistence.flush(HardState(self.term, self.vote))",
        "return head + self.persistence.flush(HardState(self.term, None))",
    ),
    Bug(
        "raft-commits-own-entries",
        "a follower commits up to its own last entry, whether that is the leader's or not",
        "ithaca.raft.follower",
        "node.commit(min(message.commit_index, agreed))",
        "node.commit(min(message.commit_index, node.log.last_index))",
        needs=lambda drawn: drawn.mischief > 0 and bool({"split", "isolate"} & {*drawn.faults}),
        engine="raft",
    ),
    Bug(
        "raft-leader-ignores-terms",
        "a leader does not care for higher terms in the answers that it gets",
        "ithaca.raft.core",
        "if message.term > node.term and not _is_hypothetical(message):",
        "if isinstance(message, AppendReply) and message.term > node.term:\n"
        "            return\n"
        "        if message.term > node.term and not _is_hypothetical(message):",
        needs=changes_leaders,
    ),
)
