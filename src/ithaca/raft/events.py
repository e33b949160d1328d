"""What goes into `RaftCore.step`, what comes out, and the settings.

The package's docstring is the contract for performing effects. `request` numbers are the caller's; the
core only echoes them.
"""

from enum import Enum
from typing import Literal

import msgspec

from ithaca.model.view import Address
from ithaca.raft import limits
from ithaca.raft.log import Weigh, entry_bytes
from ithaca.raft.messages import AnyMessage, Entry, HardState, ServerId, Snapshot


class Settings(msgspec.Struct, frozen=True):
    """Times and bounds of one server; all servers of a group use the same times."""

    election_timeout_ms: int = 1000
    """A server that heard no leader for this long, to twice this long, starts an election."""
    heartbeat_ms: int = 100
    succession_ms: int = 100
    """A follower whose connection to the leader broke stands after half of this, and after this once more for each
    voter with a smaller number: the first has been elected, as a rule, when the second would begin."""
    snapshot_entries: int = 8192
    """Entries applied since the last snapshot that make the next one due."""
    trailing_entries: int = 1024
    """Entries kept in memory below a snapshot, so that followers a little behind need no snapshot."""
    snapshot_chunk_bytes: int = limits.RAFT_SNAPSHOT_CHUNK_BYTES
    append_bytes_max: int = limits.RAFT_APPEND_BYTES_MAX
    append_entries_max: int = limits.RAFT_APPEND_ENTRIES_MAX
    inflight_appends_max: int = limits.RAFT_INFLIGHT_APPENDS_MAX
    inflight_bytes_max: int = limits.RAFT_INFLIGHT_BYTES_MAX
    uncommitted_entries_max: int = limits.RAFT_UNCOMMITTED_ENTRIES_MAX
    uncommitted_bytes_max: int = limits.RAFT_UNCOMMITTED_BYTES_MAX
    learner_lag_entries_max: int = limits.RAFT_LEARNER_LAG_ENTRIES_MAX
    commit_told_ms: int | None = None
    """Followers hear of a commit within so much time, though nothing else is sent: for those who are read from. Else
    the next append or heartbeat tells them."""
    weigh: Weigh = entry_bytes
    """What an entry counts against the bounds above."""
    paces: bool = False
    """Whether a follower that is far behind is fed slowly while others commit (`raft.pacing`), for large entries."""
    fetches: bool = False
    """Whether a snapshot refers to data outside of it, which has to be fetched before it is installed."""


class Role(Enum):
    FOLLOWER = "follower"
    PRE_CANDIDATE = "pre-candidate"
    CANDIDATE = "candidate"
    LEADER = "leader"


# Events.


class Tick(msgspec.Struct, frozen=True):
    """Time has passed. Times are of one monotonic clock; `RaftCore.deadline_ms` says when to tick next."""

    now_ms: int


class Receive(msgspec.Struct, frozen=True):
    message: AnyMessage


class Persisted(msgspec.Struct, frozen=True):
    """The `Persist` with this sequence number, and so every earlier one, is synced."""

    sequence: int


class Propose(msgspec.Struct, frozen=True):
    """Append these payloads, at consecutive indexes: answered by `Proposed` or `RefusedRequest`."""

    request: int
    payloads: tuple[bytes, ...]


class ReadIndex(msgspec.Struct, frozen=True):
    """Answered by `ReadReady` or `RefusedRequest`."""

    request: int


Change = Literal["add learner", "promote", "remove"]


class ChangeMembership(msgspec.Struct, frozen=True):
    """One change of one server: a new one joins as learner, a learner that kept up is promoted.

    `address` is where a new one is; the core only keeps it.
    """

    request: int
    change: Change
    server: ServerId
    address: Address | None = None


class TransferLeadership(msgspec.Struct, frozen=True):
    """Hand over to `server`: answered by `Transferring` or `RefusedRequest`; `RoleChanged` tells the outcome."""

    request: int
    server: ServerId


class SnapshotTaken(msgspec.Struct, frozen=True):
    """The state machine after applying `index`, asked for by `TakeSnapshot` or taken unasked."""

    index: int
    data: bytes


class SnapshotFetched(msgspec.Struct, frozen=True):
    """All that the snapshot of a `FetchSnapshot` refers to is durable here."""

    index: int
    term: int


class Unreachable(msgspec.Struct, frozen=True):
    """The connection to a server broke: what was in flight to it may be lost, and it has probably ended."""

    server: ServerId


Event = (
    Tick
    | Receive
    | Persisted
    | Propose
    | ReadIndex
    | ChangeMembership
    | TransferLeadership
    | SnapshotTaken
    | SnapshotFetched
    | Unreachable
)

# Effects.

Reason = Literal[
    "not leader",
    "overloaded",
    "too large",
    "transferring",
    "no entry of this term committed",
    "change pending",
    "no such member",
    "already a member",
    "learner is behind",
    "too many members",
    "last voter",
    "no majority would be alive",
]


class Send(msgspec.Struct, frozen=True):
    to: ServerId
    message: AnyMessage


class Persist(msgspec.Struct, frozen=True):
    """Make this durable. Without anything to write it only waits for the persists before it.

    `entries` replace everything from their first index on. With a `snapshot`, then always beside a hard
    state, snapshot and entries replace the whole log. With `cut_from`, everything from that index on goes first.
    """

    sequence: int
    hard_state: HardState | None = None
    snapshot: Snapshot | None = None
    entries: tuple[Entry, ...] = ()
    cut_from: int | None = None

    @property
    def is_barrier(self) -> bool:
        return self.hard_state is None and self.snapshot is None and not self.entries and self.cut_from is None


class Apply(msgspec.Struct, frozen=True):
    """Committed entries, of every kind, in order."""

    entries: tuple[Entry, ...]


class Restore(msgspec.Struct, frozen=True):
    """Replace the state machine by this snapshot."""

    snapshot: Snapshot


class FetchSnapshot(msgspec.Struct, frozen=True):
    """Fetch what this snapshot of the leader refers to, then step `SnapshotFetched`; said again while it is missing.

    Entries that are not committed are gone from the log, and from the disk once the persists so far are synced: what
    belongs to them may be in the way.
    """

    snapshot: Snapshot
    leader: ServerId


class TakeSnapshot(msgspec.Struct, frozen=True):
    """A snapshot is due: answer with `SnapshotTaken` when convenient."""

    applied_index: int


class Proposed(msgspec.Struct, frozen=True):
    """Payload n is the entry at `index + n`, unless an entry of another term is applied there."""

    request: int
    term: int
    index: int


class ReadReady(msgspec.Struct, frozen=True):
    """A read of the state machine is linearizable once `index` is applied."""

    request: int
    index: int


class Transferring(msgspec.Struct, frozen=True):
    request: int


class RefusedRequest(msgspec.Struct, frozen=True):
    """Nothing happened; `leader` is the leader as far as known."""

    request: int
    reason: Reason
    leader: ServerId | None


class RoleChanged(msgspec.Struct, frozen=True):
    role: Role
    term: int
    leader: ServerId | None


Effect = (
    Send
    | Persist
    | Apply
    | Restore
    | FetchSnapshot
    | TakeSnapshot
    | Proposed
    | ReadReady
    | Transferring
    | RefusedRequest
    | RoleChanged
)
