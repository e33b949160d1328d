"""What a leader does during its term: replicate, commit, confirm reads, change members, hand over.

A `LeaderTerm` lives exactly as long as its server leads one term.
"""

from ithaca.model.quorum import majority
from ithaca.raft.events import (
    ChangeMembership,
    Propose,
    Proposed,
    ReadIndex,
    Reason,
    RefusedRequest,
    Role,
    TransferLeadership,
    Transferring,
)
from ithaca.raft.limits import (
    RAFT_CATCH_UP_IDLE_MS,
    RAFT_CATCH_UP_LAG_ENTRIES,
    RAFT_ENTRY_BYTES_MAX,
    RAFT_PROPOSAL_ENTRIES_MAX,
)
from ithaca.raft.membership import changed
from ithaca.raft.messages import (
    AppendEntries,
    AppendReply,
    ChunkReply,
    Configuration,
    Entry,
    EntryKind,
    InstallSnapshot,
    ServerId,
    Snapshot,
    SnapshotChunk,
    TimeoutNow,
    configuration_entry,
)
from ithaca.raft.node import Node
from ithaca.raft.progress import Progress, Stage
from ithaca.raft.reads import Reads


class LeaderTerm:
    """One term of leading."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.progress: dict[ServerId, Progress] = {}
        self.reads = Reads(node)
        self.first_index = node.log.last_index + 1
        """Where this term's entries begin: the first is a no-op, so that something can be committed."""
        self.heartbeat_due_ms = node.now_ms + node.settings.heartbeat_ms
        self.uncommitted_bytes = sum(map(node.settings.weigh, node.log.slice(node.commit_index + 1, self.first_index)))
        """What is proposed and not committed."""
        self.committed_bytes = 0
        """What was committed since it leads."""
        self._committed_ms = node.now_ms - RAFT_CATCH_UP_IDLE_MS
        self._successor: ServerId | None = None
        self._transfer_deadline_ms = 0
        node.become(Role.LEADER, node.id)
        self._follow_members()
        self._append((Entry(self.first_index, node.term, EntryKind.NOOP, b""),))

    @property
    def uncommitted_entries(self) -> int:
        return self.node.log.last_index - self.node.commit_index

    # Requests.

    def propose(self, event: Propose) -> None:
        node = self.node
        reason = self._obstacle(event)
        if reason is not None:
            self.refuse(event.request, reason)
            return
        first = node.log.last_index + 1
        entries = tuple(
            Entry(first + offset, node.term, EntryKind.PAYLOAD, payload)
            for offset, payload in enumerate(event.payloads)
        )
        self._append(entries)
        node.persistence.now.append(Proposed(event.request, node.term, first))

    def change_membership(self, event: ChangeMembership) -> None:
        node = self.node
        result = self._changed(event)
        if isinstance(result, str):
            self.refuse(event.request, result)
            return
        index = node.log.last_index + 1
        self._append((configuration_entry(index, node.term, result),))
        node.persistence.now.append(Proposed(event.request, node.term, index))

    def transfer(self, event: TransferLeadership) -> None:
        node = self.node
        if event.server == node.id or event.server not in node.membership.current.voters:
            self.refuse(event.request, "no such member")
            return
        self._successor = event.server
        self._transfer_deadline_ms = node.now_ms + node.settings.election_timeout_ms
        node.persistence.now.append(Transferring(event.request))
        self._hand_over()

    def read(self, event: ReadIndex) -> None:
        self.reads.add(event)
        self._confirm_reads()

    def refuse(self, request: int, reason: Reason) -> None:
        self.node.persistence.now.append(RefusedRequest(request, reason, self.node.leader))

    def _obstacle(self, event: Propose) -> Reason | None:
        node = self.node
        settings = node.settings
        if self._successor is not None:
            return "transferring"
        if not 0 < len(event.payloads) <= RAFT_PROPOSAL_ENTRIES_MAX:
            return "too large"
        if max(map(len, event.payloads)) > RAFT_ENTRY_BYTES_MAX:
            return "too large"
        if self.uncommitted_entries >= settings.uncommitted_entries_max:
            return "overloaded"
        return "overloaded" if self.uncommitted_bytes >= settings.uncommitted_bytes_max else None

    def _changed(self, event: ChangeMembership) -> Configuration | Reason:
        node = self.node
        if self._successor is not None:
            return "transferring"
        if not self._has_committed:
            return "no entry of this term committed"  # else two leaders' changes might not overlap
        if node.membership.index > node.commit_index:
            return "change pending"
        if event.change == "promote" and event.server in self.progress:
            match_index = self.progress[event.server].match_index
            if node.log.last_index - match_index > node.settings.learner_lag_entries_max:
                return "learner is behind"
            if match_index < node.membership.index:
                return "learner is behind"  # it does not know yet that it was added, and votes for nobody
        after = changed(node.membership.current, event)
        if isinstance(after, Configuration) and not self._is_alive(after.voters):
            return "no majority would be alive"
        return after

    # Events.

    def tick(self) -> None:
        node = self.node
        if node.now_ms < self.heartbeat_due_ms:
            return
        self.heartbeat_due_ms = node.now_ms + node.settings.heartbeat_ms
        if not self._hears_majority():
            node.become(Role.FOLLOWER, None)
            return
        if self._successor is not None and node.now_ms >= self._transfer_deadline_ms:
            self._successor = None
        for server, progress in self.progress.items():
            resend_ms = progress.snapshot_sent_ms + node.settings.election_timeout_ms
            if progress.stage is Stage.SNAPSHOT and node.now_ms >= resend_ms:
                self._repeat_snapshot(server, progress)
            if progress.stage is Stage.PROBE:
                progress.probe_sent = False
                self._replicate(server)
            else:
                self._replicate(server)  # what was held back, if nothing is committed any more
                self._send_heartbeat(server)

    def on_reply(self, reply: AppendReply) -> None:
        progress = self.progress.get(reply.sender)
        if progress is None:
            return  # no longer a member
        progress.heard_ms = self.node.now_ms
        progress.round = max(progress.round, reply.round)
        if reply.accepted:
            assert reply.index <= self.node.log.last_index, (reply.index, self.node.log.last_index)
            if progress.accepted(reply.index):
                self.advance_commit()
        else:
            agreed = self.node.log.last_at_most(reply.hint_index, reply.hint_term)
            progress.rejected(reply.index, agreed + 1)
        if self.node.role is not Role.LEADER:
            return
        self._replicate(reply.sender)
        self._confirm_reads()
        self._hand_over()

    def on_chunk_reply(self, reply: ChunkReply) -> None:
        progress = self.progress.get(reply.sender)
        if progress is None:
            return  # no longer a member
        progress.heard_ms = self.node.now_ms
        offset = progress.chunk_held(reply)
        if offset is not None and progress.snapshot is not None:
            self._send_snapshot(reply.sender, progress.snapshot, offset)

    def on_unreachable(self, server: ServerId) -> None:
        progress = self.progress.get(server)
        if progress is not None:
            progress.back_to_probe()
            progress.probe_sent = True  # the next heartbeat tries again

    def advance_commit(self) -> None:
        """Commit what a majority holds, but by counting only entries of this term (§5.4.2, figure 8)."""
        node = self.node
        index = node.membership.majority_value(self._durable_index)
        if index <= node.commit_index or not self.may_commit(index):
            return
        size = sum(map(node.settings.weigh, node.log.slice(node.commit_index + 1, index + 1)))
        self.uncommitted_bytes -= size
        node.commit(index)  # followers learn of it with the next append or heartbeat
        self._feed(size)
        if node.settings.commit_told_ms is not None:
            self.heartbeat_due_ms = min(self.heartbeat_due_ms, node.now_ms + node.settings.commit_told_ms)
        if not node.is_voter and node.membership.index <= index:
            node.become(Role.FOLLOWER, None)  # it led until its own removal was committed (thesis §4.2.2)
            return
        self._confirm_reads()

    def may_commit(self, index: int) -> bool:
        return self.node.log.term_at(index) == self.node.term

    def abandon(self) -> None:
        self.reads.abandon()

    # Parts.

    @property
    def _has_committed(self) -> bool:
        return self.node.commit_index >= self.first_index

    def _durable_index(self, server: ServerId) -> int:
        if server == self.node.id:
            return self.node.persistence.index
        return self.progress[server].match_index

    def _append(self, entries: tuple[Entry, ...]) -> None:
        self.uncommitted_bytes += sum(map(self.node.settings.weigh, entries))
        if self.node.append(entries):
            self._follow_members()
        for server in self.progress:
            self._replicate(server)

    def _follow_members(self) -> None:
        node = self.node
        members = [server for server in node.membership.current.members if server != node.id]
        for server in [known for known in self.progress if known not in members]:
            del self.progress[server]
        for server in members:
            if server not in self.progress:
                self.progress[server] = Progress(node.settings, node.log.last_index + 1, node.now_ms)

    def _feed(self, size: int) -> None:
        """So many bytes were committed: those who are far behind get their share."""
        node = self.node
        self._committed_ms = node.now_ms
        self.committed_bytes += size
        if not node.settings.paces:
            return
        for server, progress in self.progress.items():
            if self._is_far_behind(progress):
                progress.pace.committed(size, node.now_ms)
                self._replicate(server)

    def _is_far_behind(self, progress: Progress) -> bool:
        """Whether what it gets next was committed without it, a while ago."""
        lag = self.node.commit_index - progress.next_index
        return progress.stage is Stage.REPLICATE and lag >= RAFT_CATCH_UP_LAG_ENTRIES

    @property
    def is_busy(self) -> bool:
        """Whether something was committed a moment ago."""
        return self.node.now_ms - self._committed_ms < RAFT_CATCH_UP_IDLE_MS

    def _is_held_back(self, progress: Progress) -> bool:
        is_paced = self.node.settings.paces and self.is_busy and self._is_far_behind(progress)
        return is_paced and not progress.pace.allows

    def _replicate(self, server: ServerId) -> None:
        """Send what the follower lacks, as far as its window allows."""
        node, progress = self.node, self.progress[server]
        settings = node.settings
        while progress.may_send and not self._is_held_back(progress):
            previous_term = node.log.term_at(progress.next_index - 1)
            if previous_term is None:
                self._send_snapshot(server, node.snapshot, 0)
                return
            entries = node.log.batch(progress.next_index, settings.append_entries_max, settings.append_bytes_max)
            if not entries and progress.stage is Stage.REPLICATE:
                return
            self._send_append(server, progress.next_index - 1, previous_term, entries)
            progress.sent(entries)

    def _send_snapshot(self, server: ServerId, snapshot: Snapshot, offset: int) -> None:
        """Send a snapshot, or the chunk of it that begins here."""
        node, chunk_bytes = self.node, self.node.settings.snapshot_chunk_bytes
        if len(snapshot.data) <= chunk_bytes:
            node.send(server, InstallSnapshot(node.id, node.term, snapshot, self.reads.round))
        else:
            of = snapshot.index, snapshot.term, snapshot.configuration, len(snapshot.data)
            data = snapshot.data[offset : offset + chunk_bytes]
            node.send(server, SnapshotChunk(node.id, node.term, *of, offset, data))
        self.progress[server].sent_snapshot(snapshot, offset, node.now_ms)

    def _repeat_snapshot(self, server: ServerId, progress: Progress) -> None:
        """Nothing has come of what was sent: send it again, as long as somebody is there and could go on behind it."""
        snapshot = progress.snapshot
        if snapshot is not None and self._hears(server) and self.node.log.term_at(snapshot.index) is not None:
            self._send_snapshot(server, snapshot, progress.snapshot_offset)
        else:
            progress.back_to_probe()

    @property
    def needed_after(self) -> int | None:
        """Where those go on who catch up, or are sent a snapshot: without these entries they would need another."""
        sent = [
            progress.match_index if progress.snapshot is None else progress.snapshot.index
            for server, progress in self.progress.items()
            if self._hears(server) and (progress.snapshot is not None or self._catches_up(progress))
        ]
        return min(sent, default=None)

    def _catches_up(self, progress: Progress) -> bool:
        return self.node.settings.paces and self._is_far_behind(progress)

    def _send_heartbeat(self, server: ServerId) -> None:
        """An append without entries, where the next one would go: it also shows whether one was lost."""
        progress = self.progress[server]
        previous = progress.next_index - 1
        previous_term = self.node.log.term_at(previous)
        if previous_term is None and progress.stage is Stage.REPLICATE:
            progress.back_to_probe()  # compacted while in flight: a loss could no longer be noticed
            self._replicate(server)
            return
        if previous_term is None or progress.stage is Stage.SNAPSHOT:
            previous = previous_term = 0  # fits every log
        self._send_append(server, previous, previous_term, ())

    def _send_append(self, server: ServerId, previous: int, previous_term: int, entries: tuple[Entry, ...]) -> None:
        node = self.node
        message = AppendEntries(
            node.id, node.term, previous, previous_term, entries, node.commit_index, self.reads.round
        )
        node.send(server, message)

    def _hears_majority(self) -> bool:
        """Check quorum (thesis §6.2): a leader that is cut off must not look alive to its clients."""
        return self.node.membership.is_quorum(self._hears)

    def _hears(self, server: ServerId) -> bool:
        since_ms = self.node.now_ms - self.node.settings.election_timeout_ms
        return server == self.node.id or self.progress[server].heard_ms > since_ms

    def _is_alive(self, voters: tuple[ServerId, ...]) -> bool:
        """Whether enough of them are heard to go on after a change that makes these the voters."""
        return sum(map(self._hears, voters)) >= majority(len(voters))

    @property
    def is_handing_over(self) -> bool:
        return self._successor is not None

    @property
    def successor(self) -> ServerId | None:
        """The voter that would lead soonest if this server handed over; None when it hears no other."""
        others = [voter for voter in self.node.membership.current.voters if voter != self.node.id]
        heard = [voter for voter in others if self._hears(voter)]
        return max(heard, key=lambda voter: self.progress[voter].match_index, default=None)

    def _confirm_reads(self) -> None:
        if not self._has_committed:
            return
        while True:
            if self.reads.is_confirming:
                if not self.is_round_answered():
                    return
                self.reads.confirmed()
            if not self.reads.start_round():
                return
            for server in self.progress:
                self._send_heartbeat(server)

    def is_round_answered(self) -> bool:
        node = self.node
        return node.membership.is_quorum(
            lambda voter: voter == node.id or self.progress[voter].round >= self.reads.round
        )

    def _hand_over(self) -> None:
        """Once the successor has everything, it need not wait for its time-out (thesis §3.10)."""
        node, successor = self.node, self._successor
        if successor is None or successor not in self.progress:
            return
        if self.progress[successor].match_index == node.log.last_index:
            node.send(successor, TimeoutNow(node.id, node.term))
