"""Linearizable reads without a clock: the read index (thesis §6.4).

A read notes the leader's commit index, then waits until a majority answered a heartbeat sent after that:
so no other leader had committed anything newer when the read began. Reads that arrive while a round is
under way share the next one.
"""

from ithaca.raft.events import ReadIndex, ReadReady, RefusedRequest
from ithaca.raft.limits import RAFT_READS_MAX
from ithaca.raft.node import Node


class Reads:
    """The reads that wait for one leader's confirmation."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._waiting: list[int] = []
        self._confirming: list[int] = []
        self._confirming_index = 0
        self.round = 0
        """Numbers the heartbeats: an answer to this round confirms all reads that are being confirmed."""

    def add(self, event: ReadIndex) -> None:
        if self.count >= RAFT_READS_MAX:
            self._refuse(event.request, overloaded=True)
        else:
            self._waiting.append(event.request)

    @property
    def count(self) -> int:
        """Reads that are not confirmed yet."""
        return len(self._waiting) + len(self._confirming)

    def start_round(self) -> bool:
        """Begin confirming what waits, unless a round is under way; then heartbeats must go out.

        Call it only once an entry of this term is committed: before, the commit index may be old (§8).
        """
        if self._confirming or not self._waiting:
            return False
        self.round += 1
        self._confirming, self._waiting = self._waiting, []
        self._confirming_index = self._node.commit_index
        return True

    def confirmed(self) -> None:
        """A majority answered this round."""
        for request in self._confirming:
            self._node.persistence.now.append(ReadReady(request, self._confirming_index))
        self._confirming = []

    @property
    def is_confirming(self) -> bool:
        return bool(self._confirming)

    def abandon(self) -> None:
        for request in self._confirming + self._waiting:
            self._refuse(request, overloaded=False)
        self._confirming, self._waiting = [], []

    def _refuse(self, request: int, *, overloaded: bool) -> None:
        reason = RefusedRequest(request, "overloaded" if overloaded else "not leader", self._node.leader)
        self._node.persistence.now.append(reason)
