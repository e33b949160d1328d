"""Elections: a vote about the vote first, then the vote (§5.2, §5.4.1, thesis §9.6).

The vote about the vote (pre-vote) changes no state, so a server that cannot win, or that was cut off,
never raises anyone's term. A server that hears a leader takes part in neither; only an election that the
leader itself asked for is exempt.
"""

from ithaca.raft.events import Role
from ithaca.raft.messages import RequestVote, ServerId, VoteReply
from ithaca.raft.node import Node


class Election:
    """This server's own candidacy, and its answers to those of others."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._granted: dict[ServerId, bool] = {}

    def start_pre_vote(self) -> None:
        node = self._node
        node.become(Role.PRE_CANDIDATE, None)
        self._granted = {node.id: True}  # counts only if the server is a voter
        self._ask(pre=True, forced=False)

    def start(self, *, forced: bool) -> None:
        """Stand for the next term. The own vote counts once it is durable, like any other."""
        node = self._node
        node.adopt_term(node.term + 1)
        node.vote = node.id
        node.become(Role.CANDIDATE, None)
        self._granted = {}
        self._ask(pre=False, forced=forced)

    def own_vote_is_durable(self) -> None:
        self._granted[self._node.id] = True

    def on_reply(self, reply: VoteReply) -> None:
        node = self._node
        asked = node.term + 1 if node.role is Role.PRE_CANDIDATE else node.term
        awaited = Role.PRE_CANDIDATE if reply.pre else Role.CANDIDATE
        if node.role is awaited and reply.granted and reply.term == asked:
            self._granted[reply.sender] = True

    def is_won(self) -> bool:
        """Whether the vote, or the vote about the vote, that is under way has a majority."""
        node = self._node
        if node.role not in (Role.PRE_CANDIDATE, Role.CANDIDATE):
            return False
        return node.membership.is_quorum(lambda voter: self._granted.get(voter, False))

    def on_request(self, request: RequestVote) -> None:
        node = self._node
        up_to_date = self._is_up_to_date(request)
        if request.pre:
            granted = up_to_date and request.term > node.term
            term = request.term if granted else node.term
            node.send_durably(request.sender, VoteReply(node.id, term, granted, pre=True))
            return
        assert request.term == node.term
        granted = up_to_date and node.vote in (None, request.sender)
        if granted:
            node.vote = request.sender
            node.reset_election_timer()
        node.send_durably(request.sender, VoteReply(node.id, node.term, granted))

    def _is_up_to_date(self, request: RequestVote) -> bool:
        """The candidate's log must hold everything that might be committed (§5.4.1)."""
        log = self._node.log
        return (request.last_term, request.last_index) >= (log.last_term, log.last_index)

    def _ask(self, *, pre: bool, forced: bool) -> None:
        node = self._node
        term = node.term + 1 if pre else node.term
        request = RequestVote(node.id, term, node.log.last_index, node.log.last_term, pre=pre, forced=forced)
        for voter in node.membership.current.voters:
            if voter != node.id:
                node.send_durably(voter, request)
