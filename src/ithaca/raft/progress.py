"""What a leader knows about one follower's log, and how much it may send it.

```
PROBE ──accepted──▶ REPLICATE ──rejected, unreachable──▶ PROBE     next_index falls back towards the match
  │                     │
  └─ next entry was compacted away: SNAPSHOT ──accepted──▶ REPLICATE ; silent ──▶ PROBE
```

PROBE sends one append and waits for its answer, or for the next heartbeat. REPLICATE is the pipeline: it
sends on without waiting, as far as the bounds on what is in flight allow. There is no timer for losses:
the append or heartbeat that follows a lost one does not fit the follower's log, and is rejected.
"""

from collections import deque
from enum import Enum

from ithaca.raft.events import Settings
from ithaca.raft.messages import ChunkReply, Entry, Snapshot
from ithaca.raft.pacing import Pace


class Stage(Enum):
    PROBE = "probe"
    REPLICATE = "replicate"
    SNAPSHOT = "snapshot"


class Progress:
    """One follower, as the leader of one term sees it."""

    __slots__ = (
        "_inflight",
        "_inflight_bytes",
        "_settings",
        "heard_ms",
        "match_index",
        "next_index",
        "pace",
        "probe_sent",
        "round",
        "snapshot",
        "snapshot_offset",
        "snapshot_sent_ms",
        "stage",
    )

    def __init__(self, settings: Settings, next_index: int, now_ms: int) -> None:
        self._settings = settings
        self.stage = Stage.PROBE
        self.match_index = 0
        self.next_index = next_index
        self.probe_sent = False
        self.heard_ms = now_ms
        self.pace = Pace(now_ms)
        self.round = 0
        """The newest round of heartbeats that it answered."""
        self.snapshot: Snapshot | None = None
        """The one that it is being sent."""
        self.snapshot_offset = 0
        """Where the part of it begins that was sent last."""
        self.snapshot_sent_ms = 0
        self._inflight: deque[tuple[int, int]] = deque()  # (last index, bytes) of each unanswered append
        self._inflight_bytes = 0

    @property
    def may_send(self) -> bool:
        if self.stage is Stage.PROBE:
            return not self.probe_sent
        if self.stage is Stage.SNAPSHOT:
            return False
        return (
            len(self._inflight) < self._settings.inflight_appends_max
            and self._inflight_bytes < self._settings.inflight_bytes_max
        )

    def sent(self, entries: tuple[Entry, ...]) -> None:
        if self.stage is Stage.PROBE:
            self.probe_sent = True
        elif entries:
            size = sum(map(self._settings.weigh, entries))
            self._inflight.append((entries[-1].index, size))
            self._inflight_bytes += size
            self.pace.sent(size)
            self.next_index = entries[-1].index + 1

    def sent_snapshot(self, snapshot: Snapshot, offset: int, now_ms: int) -> None:
        self.stage = Stage.SNAPSHOT
        self.snapshot = snapshot
        self.snapshot_offset = offset
        self.snapshot_sent_ms = now_ms

    def chunk_held(self, reply: ChunkReply) -> int | None:
        """Where the next chunk begins, if this answers the last one, as no late answer or second copy does."""
        snapshot = self.snapshot
        if snapshot is None or (snapshot.index, snapshot.term) != (reply.index, reply.snapshot_term):
            return None
        return reply.held if reply.offset == self.snapshot_offset and reply.held < len(snapshot.data) else None

    def accepted(self, index: int) -> bool:
        """The log agrees up to `index`; tells whether that is news."""
        while self._inflight and self._inflight[0][0] <= index:
            self._inflight_bytes -= self._inflight.popleft()[1]
        news = index > self.match_index
        self.match_index = max(self.match_index, index)
        self.next_index = max(self.next_index, self.match_index + 1)
        has_snapshot = self.snapshot is not None and self.match_index >= self.snapshot.index
        if self.stage is Stage.PROBE or (self.stage is Stage.SNAPSHOT and has_snapshot):
            self.stage = Stage.REPLICATE
            self.snapshot = None
            self.next_index = self.match_index + 1
        return news

    def rejected(self, previous_index: int, next_index: int) -> None:
        """An append behind `previous_index` did not fit; try `next_index`, unless the answer is stale."""
        if self.stage is Stage.SNAPSHOT or previous_index <= self.match_index:
            return
        if self.stage is Stage.PROBE and previous_index != self.next_index - 1:
            return
        self.back_to_probe()
        self.next_index = max(self.match_index + 1, min(previous_index, next_index))

    def back_to_probe(self) -> None:
        """What is in flight may be lost: start again from what is known."""
        self.stage = Stage.PROBE
        self.probe_sent = False
        self.snapshot = None
        self.next_index = self.match_index + 1
        self._inflight.clear()
        self._inflight_bytes = 0
