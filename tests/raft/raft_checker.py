"""The safety properties of `ithaca.raft`, by their numbers there, checked as a simulated group goes on.

The checker sees everything: each server's log after each step, each persist that was synced, each message
that leaves. It keeps what a god would know: which entries exist, and which were ever committed.
"""

from zlib import crc32

from ithaca.raft.core import RaftCore
from ithaca.raft.events import Persist, Role
from ithaca.raft.messages import (
    AnyMessage,
    AppendReply,
    DurableState,
    Entry,
    EntryKind,
    HardState,
    ServerId,
    Snapshot,
    VoteReply,
)


class Violation(AssertionError):
    """A property does not hold; the simulation adds the seed and the last events."""


class DurableModel:
    """What a server's disk must hold, by the persists that were synced."""

    def __init__(self, state: DurableState) -> None:
        self.hard_state: HardState = state.hard_state
        self.snapshot: Snapshot = state.snapshot
        self._entries = list(state.entries)

    @property
    def last_index(self) -> int:
        return self.snapshot.index + len(self._entries)

    @property
    def state(self) -> DurableState:
        return DurableState(self.hard_state, self.snapshot, tuple(self._entries))

    def term_at(self, index: int) -> int | None:
        place = index - self.snapshot.index - 1
        return self._entries[place].term if 0 <= place < len(self._entries) else None

    def holds(self, entry: Entry) -> bool:
        return entry.index <= self.snapshot.index or self.term_at(entry.index) == entry.term

    def persisted(self, effect: Persist) -> None:
        if effect.hard_state is not None:
            self.hard_state = effect.hard_state
        if effect.snapshot is not None:
            self.snapshot = effect.snapshot
            self._entries = list(effect.entries)
            return
        if effect.cut_from is not None:
            del self._entries[effect.cut_from - self.snapshot.index - 1 :]
        if effect.entries:
            del self._entries[effect.entries[0].index - self.snapshot.index - 1 :]
            self._entries.extend(effect.entries)


class _Watched:
    """What was last seen of one boot of one server."""

    def __init__(self, core: RaftCore) -> None:
        self.entries: dict[int, Entry] = {}
        self.last_index = core.node.log.first_index - 1
        self.commit_index = core.node.snapshot.index
        self.applied_index = core.node.snapshot.index
        self.leads_term = 0


class Checker:
    """Raises `Violation` at the first step after which a property does not hold."""

    def __init__(self) -> None:
        self.durable: dict[ServerId, DurableModel] = {}
        self.committed: list[Entry] = []
        """Every entry that was ever committed; entry n is at place n - 1."""
        self._committed_in_term: list[int] = []
        self._digests = [0]  # of the state machine after each committed entry
        self._leaders: dict[int, ServerId] = {}
        self._entries: dict[tuple[int, int], tuple[Entry, int]] = {}  # (index, term) -> entry, term before it
        self._terms_committed: set[int] = set()
        self._watched: dict[ServerId, _Watched] = {}

    @property
    def committed_index(self) -> int:
        return len(self.committed)

    @property
    def leaders(self) -> int:
        """How many terms had a leader."""
        return len(self._leaders)

    def digest(self, index: int) -> int:
        return self._digests[index]

    # What happens.

    def created(self, core: RaftCore, state: DurableState) -> None:
        self.durable[core.node.id] = DurableModel(state)
        self._watched[core.node.id] = _Watched(core)

    def recovered(self, core: RaftCore, state: DurableState, half_done: Persist | None) -> None:
        """6: a restart finds what was synced, and of the persist under way either everything or nothing."""
        server = core.node.id
        before = self.durable[server].state
        if half_done is not None:
            self.durable[server].persisted(half_done)
        after = self.durable[server].state
        if state not in (before, after):
            raise Violation(f"6: server {server} recovered {state}, synced was {before}, then {after}")
        self.durable[server] = DurableModel(state)
        self._watched[server] = _Watched(core)

    def persisted(self, server: ServerId, effect: Persist) -> None:
        self.durable[server].persisted(effect)

    def stepped(self, core: RaftCore) -> None:
        watched = self._watched[core.node.id]
        self._check_log(core, watched)
        if core.role is Role.LEADER:
            self._check_leader(core, watched)
        if core.commit_index > watched.commit_index:
            self._check_commit(core, watched)

    def applied(self, server: ServerId, entries: tuple[Entry, ...], digest: int) -> int:
        """5: the next entries, each of them committed; returns the state machine's new digest."""
        watched = self._watched[server]
        for entry in entries:
            if entry.index != watched.applied_index + 1:
                raise Violation(f"5: server {server} applied {entry.index} after {watched.applied_index}")
            if entry.index > self.committed_index or self.committed[entry.index - 1] != entry:
                raise Violation(f"5: server {server} applied {entry}, which was not committed there")
            watched.applied_index = entry.index
            digest = next_digest(digest, entry)
        if digest != self.digest(watched.applied_index):
            raise Violation(f"5: the state of server {server} differs at {watched.applied_index}")
        return digest

    def restored(self, server: ServerId, snapshot: Snapshot, digest: int) -> None:
        watched = self._watched[server]
        if snapshot.index <= watched.applied_index or digest != self.digest(snapshot.index):
            raise Violation(f"5: server {server} restored {snapshot} at {watched.applied_index}")
        watched.applied_index = snapshot.index

    def promised(self, server: ServerId, to: ServerId, message: AnyMessage) -> None:
        """8: votes and acceptances are on the disk before they leave; later terms may have replaced them."""
        durable = self.durable[server]
        if isinstance(message, VoteReply) and message.granted and not message.pre:
            kept = durable.hard_state == HardState(message.term, to)
        elif isinstance(message, AppendReply) and message.accepted:
            kept = durable.hard_state.term == message.term and durable.last_index >= message.index
        else:
            return
        if not kept and durable.hard_state.term <= message.term:
            raise Violation(f"8: server {server} promised {message} to {to} with {durable.hard_state} synced")

    def read(self, index: int, floor: int) -> None:
        if index < floor:
            raise Violation(f"7: a read got index {index} when {floor} had been committed before it began")

    # Properties.

    def _check_log(self, core: RaftCore, watched: _Watched) -> None:
        """2 and 3, for the suffix that changed: an index and a term determine an entry and all before it."""
        log = core.node.log
        leads = watched.leads_term == core.term and core.role is Role.LEADER
        if leads and log.last_index < watched.last_index:
            raise Violation(f"2: leader {core.node.id} dropped entries of term {core.term}")
        index = log.last_index
        while index >= log.first_index:
            entry = log.slice(index, index + 1)[0]
            if watched.entries.get(index) is entry:
                break
            if leads and index <= watched.last_index:
                raise Violation(f"2: leader {core.node.id} replaced entry {index}")
            watched.entries[index] = entry
            self._check_entry(core, entry)
            index -= 1
        watched.last_index = log.last_index

    def _check_entry(self, core: RaftCore, entry: Entry) -> None:
        before = core.node.log.term_at(entry.index - 1)
        assert before is not None
        known = self._entries.get((entry.index, entry.term))
        if known is None:
            self._entries[entry.index, entry.term] = (entry, before)
            if entry.kind is EntryKind.CONFIGURATION:
                self._check_change(core, entry)
        elif known != (entry, before):
            raise Violation(f"3: server {core.node.id} has {entry} after term {before}, elsewhere {known}")

    def _check_change(self, core: RaftCore, entry: Entry) -> None:
        """9: when a configuration is proposed, the one before it and something of its term are committed."""
        log = core.node.log
        before = log.slice(log.first_index, entry.index)
        previous = max((other.index for other in before if other.kind is EntryKind.CONFIGURATION), default=0)
        if previous > self.committed_index:
            raise Violation(f"9: configuration at {entry.index} follows the uncommitted one at {previous}")
        if entry.term not in self._terms_committed:
            raise Violation(f"9: configuration at {entry.index} before anything of term {entry.term}")

    def _check_leader(self, core: RaftCore, watched: _Watched) -> None:
        """1, and 4 when a leader appears."""
        server, term = core.node.id, core.term
        if self._leaders.setdefault(term, server) != server:
            raise Violation(f"1: servers {self._leaders[term]} and {server} lead term {term}")
        if watched.leads_term == term:
            return
        watched.leads_term = term
        log = core.node.log
        for entry, in_term in zip(self.committed, self._committed_in_term, strict=True):
            if in_term < term and entry.index >= log.first_index and log.term_at(entry.index) != entry.term:
                raise Violation(f"4: leader {server} of term {term} lacks {entry}, committed in {in_term}")

    def _check_commit(self, core: RaftCore, watched: _Watched) -> None:
        """5 and 6: nobody commits anything else at an index; a new commit is on a majority's disks."""
        node = core.node
        start = max(watched.commit_index + 1, node.log.first_index)
        watched.commit_index = node.commit_index
        for entry in node.log.slice(start, node.commit_index + 1):
            if entry.index <= self.committed_index:
                if self.committed[entry.index - 1] != entry:
                    raise Violation(
                        f"5: server {node.id} committed {entry}, elsewhere {self.committed[entry.index - 1]}"
                    )
                continue
            if entry.index != self.committed_index + 1:
                raise Violation(f"5: {entry} was committed after {self.committed_index}")
            voters = node.membership.current.voters
            holders = [voter for voter in voters if self.durable[voter].holds(entry)]
            if 2 * len(holders) <= len(voters):
                raise Violation(f"6: {entry} was committed with only {holders} of {voters} holding it")
            self.committed.append(entry)
            self._committed_in_term.append(core.term)
            self._terms_committed.add(entry.term)
            self._digests.append(next_digest(self._digests[-1], entry))


def next_digest(digest: int, entry: Entry) -> int:
    """The simulated state machine: a digest of every payload in order."""
    return crc32(entry.data, digest) if entry.kind is EntryKind.PAYLOAD else digest
