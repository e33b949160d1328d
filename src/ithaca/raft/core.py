"""The Raft server: one event in, effects out. Read the package's docstring first: it is the contract."""

from random import Random

from ithaca.model.errors import InvalidInput
from ithaca.raft import follower
from ithaca.raft.election import Election
from ithaca.raft.events import (
    ChangeMembership,
    Effect,
    Event,
    Persisted,
    Propose,
    ReadIndex,
    Receive,
    RefusedRequest,
    Role,
    Settings,
    SnapshotFetched,
    SnapshotTaken,
    Tick,
    TransferLeadership,
    Unreachable,
)
from ithaca.raft.leader import LeaderTerm
from ithaca.raft.limits import RAFT_SNAPSHOT_BYTES_MAX
from ithaca.raft.messages import (
    AnyMessage,
    AppendEntries,
    AppendReply,
    ChunkReply,
    DurableState,
    InstallSnapshot,
    RequestVote,
    ServerId,
    SnapshotChunk,
    TimeoutNow,
    VoteReply,
)
from ithaca.raft.node import Node
from ithaca.raft.objections import objection


class RaftCore:
    """One server, started from what recovery found on its disk.

    >>> from ithaca.raft.messages import first_state
    >>> core = RaftCore(1, Settings(), Random(1), first_state(1))
    >>> [type(effect).__name__ for effect in core.step(Tick(2000))]
    ['RoleChanged', 'Persist']
    """

    def __init__(
        self,
        server: ServerId,
        settings: Settings,
        random: Random,
        durable: DurableState,
        *,
        now_ms: int = 0,
    ) -> None:
        self.node = Node(server, settings, random, durable, now_ms)
        self.leadership: LeaderTerm | None = None
        self._election = Election(self.node)

    @property
    def role(self) -> Role:
        return self.node.role

    @property
    def term(self) -> int:
        return self.node.term

    @property
    def leader(self) -> ServerId | None:
        """The leader as far as this server knows."""
        return self.node.leader

    @property
    def commit_index(self) -> int:
        return self.node.commit_index

    @property
    def deadline_ms(self) -> int:
        """When the next `Tick` has something to do, unless other events come first."""
        if self.leadership is not None:
            return self.leadership.heartbeat_due_ms
        return self.node.election_deadline_ms

    def objection(self, message: AnyMessage) -> str | None:
        """Why `step` would not believe a message from the wire; None for one that may be true."""
        return objection(self.node, self.leadership, message)

    def step(self, event: Event) -> list[Effect]:
        """Take one event; the effects are to be performed as the package's docstring says."""
        match event:
            case Receive():
                self._receive(event.message)
            case Tick():
                self._tick(event.now_ms)
            case Persisted():
                self._persisted(event.sequence)
            case SnapshotTaken():
                self._compact(event)
            case SnapshotFetched():
                if self.leadership is None:
                    follower.on_fetched(self.node, event.index, event.term)
            case Unreachable():
                if self.leadership is not None:
                    self.leadership.on_unreachable(event.server)
                elif event.server == self.node.leader:
                    self.node.lose_leader()
            case Propose() | ReadIndex() | ChangeMembership() | TransferLeadership():
                self._request(event)
        self._follow_role()
        return self.node.flush()

    def _request(self, event: Propose | ReadIndex | ChangeMembership | TransferLeadership) -> None:
        leadership = self.leadership
        if leadership is None:
            self.node.persistence.now.append(RefusedRequest(event.request, "not leader", self.node.leader))
            return
        match event:
            case Propose():
                leadership.propose(event)
            case ReadIndex():
                leadership.read(event)
            case ChangeMembership():
                leadership.change_membership(event)
            case TransferLeadership():
                leadership.transfer(event)

    def _tick(self, now_ms: int) -> None:
        node = self.node
        node.now_ms = max(node.now_ms, now_ms)
        if self.leadership is not None:
            self.leadership.tick()
        elif node.now_ms >= node.election_deadline_ms:
            if node.may_campaign:
                self._election.start_pre_vote()
                self._count_votes()
            else:
                node.become(Role.FOLLOWER, None)

    def _persisted(self, sequence: int) -> None:
        node = self.node
        node.persistence.finished(sequence)
        if node.role is Role.CANDIDATE and node.persistence.term == node.term:
            self._election.own_vote_is_durable()
            self._count_votes()
        elif self.leadership is not None:
            self.leadership.advance_commit()

    def _compact(self, event: SnapshotTaken) -> None:
        if len(event.data) > RAFT_SNAPSHOT_BYTES_MAX:
            raise InvalidInput(
                f"a snapshot of {len(event.data)} bytes is over the limit of {RAFT_SNAPSHOT_BYTES_MAX}; "
                "keep large state outside it and refer to it"
            )
        needed_after = None if self.leadership is None else self.leadership.needed_after
        self.node.compact(event.index, event.data, needed_after)

    def _receive(self, message: AnyMessage) -> None:
        node = self.node
        if self.objection(message) is not None:
            return
        if isinstance(message, RequestVote):
            if node.hears_leader and not message.forced:
                return  # whoever asks lost touch with the leader, or was removed (thesis §4.2.3)
            if not node.membership.current.voters:
                return  # this server waits to be added: nobody can count on its vote, which it may have given before
        if message.term > node.term and not _is_hypothetical(message):
            node.adopt_term(message.term)
            self._follow_role()
        elif message.term < node.term:
            self._answer_stale(message)
            return
        match message:
            case AppendEntries():
                follower.on_append(node, message)
            case AppendReply():
                if self.leadership is not None:
                    self.leadership.on_reply(message)
            case RequestVote():
                self._election.on_request(message)
            case VoteReply():
                self._election.on_reply(message)
                self._count_votes()
            case InstallSnapshot():
                follower.on_snapshot(node, message)
            case SnapshotChunk():
                follower.on_chunk(node, message)
            case ChunkReply():
                if self.leadership is not None:
                    self.leadership.on_chunk_reply(message)
            case TimeoutNow():
                if node.may_campaign and node.role is not Role.LEADER:
                    self._election.start(forced=True)

    def _answer_stale(self, message: AnyMessage) -> None:
        """Tell a sender of an earlier term about this one, so that it follows (§5.1)."""
        node = self.node
        match message:
            case AppendEntries() | InstallSnapshot() | SnapshotChunk():
                node.send_durably(message.sender, AppendReply(node.id, node.term, accepted=False, index=0))
            case RequestVote():
                node.send_durably(message.sender, VoteReply(node.id, node.term, False, pre=message.pre))

    def _count_votes(self) -> None:
        if not self._election.is_won():
            return
        if self.node.role is Role.PRE_CANDIDATE:
            self._election.start(forced=False)
        else:
            self.leadership = LeaderTerm(self.node)

    def _follow_role(self) -> None:
        if self.leadership is not None and self.node.role is not Role.LEADER:
            self.leadership.abandon()
            self.leadership = None


def _is_hypothetical(message: AnyMessage) -> bool:
    """Pre-votes speak of a term that nobody is in yet."""
    if isinstance(message, RequestVote):
        return message.pre
    return isinstance(message, VoteReply) and message.pre and message.granted
