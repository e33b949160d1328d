"""What is durable, what is on its way there, and what waits for it: the order of a step's effects.

A step leaves its effects in two lists: `now`, and `later` for what only a durable state may say. `flush`
puts a `Persist` between the two if anything is unsynced. While `RAFT_PERSISTS_MAX` persists are on their
way, everything later is kept back and joins the next one: that is the group commit, for leaders and
followers alike.
"""

from collections import deque

import msgspec

from ithaca.raft.events import Effect, Persist
from ithaca.raft.limits import RAFT_PERSISTS_MAX
from ithaca.raft.log import Log
from ithaca.raft.messages import HardState, Snapshot


class _Outstanding(msgspec.Struct):
    sequence: int
    last_index: int  # falls when the log is truncated below it meanwhile
    term: int


class Persistence:
    """Tracks the durable part of one server's state, through numbered persists."""

    def __init__(self, log: Log, hard_state: HardState) -> None:
        self.now: list[Effect] = []
        self.later: list[Effect] = []
        self.index = log.last_index
        """Up to here the log in memory is durable."""
        self.term = hard_state.term
        """The newest durable term, with its vote."""
        self._log = log
        self._hard_state = hard_state
        self._snapshot: Snapshot | None = None
        self._cut_from: int | None = None
        self._unwritten_index = log.last_index + 1  # the first that no persist has carried yet
        self._outstanding: deque[_Outstanding] = deque()
        self._sequence = 0

    def truncate(self, index: int) -> None:
        """The log was cut at `index`, or lost everything from there on to a snapshot."""
        self._unwritten_index = min(self._unwritten_index, index)
        self.index = min(self.index, index - 1)
        for outstanding in self._outstanding:
            outstanding.last_index = min(outstanding.last_index, index - 1)

    def cut(self, index: int) -> None:
        """The log was cut at `index`, and the next persist makes that durable, whatever else it writes."""
        self.truncate(index)
        self._cut_from = index

    def replace(self, snapshot: Snapshot) -> None:
        """The next persist writes this snapshot and the log after it, in place of everything."""
        self._snapshot = snapshot

    def finished(self, sequence: int) -> None:
        assert self._outstanding, f"persist {sequence} was never handed out"
        assert self._outstanding[0].sequence <= sequence <= self._outstanding[-1].sequence, sequence
        while self._outstanding and self._outstanding[0].sequence <= sequence:
            done = self._outstanding.popleft()
            self.index = max(self.index, done.last_index)
            self.term = done.term

    def flush(self, hard_state: HardState) -> list[Effect]:
        """Everything that may leave now, in order."""
        effects, self.now = self.now, []
        if self._is_clean(hard_state) and not self._outstanding:
            effects += self.later
            self.later = []
        elif (self.later or not self._is_clean(hard_state)) and len(self._outstanding) < RAFT_PERSISTS_MAX:
            effects.append(self._next(hard_state))
            effects += self.later
            self.later = []
        return effects

    def _is_clean(self, hard_state: HardState) -> bool:
        return (
            self._snapshot is None
            and self._cut_from is None
            and hard_state == self._hard_state
            and self._unwritten_index > self._log.last_index
        )

    def _next(self, hard_state: HardState) -> Persist:
        snapshot, self._snapshot = self._snapshot, None
        cut_from, self._cut_from = None if snapshot else self._cut_from, None
        log = self._log
        start = snapshot.index + 1 if snapshot else self._unwritten_index
        changed = hard_state if snapshot or hard_state != self._hard_state else None
        self._hard_state = hard_state
        self._unwritten_index = log.last_index + 1
        self._sequence += 1
        self._outstanding.append(_Outstanding(self._sequence, log.last_index, hard_state.term))
        return Persist(self._sequence, changed, snapshot, log.slice(start, log.last_index + 1), cut_from)
