"""Bounds of Raft, and of whoever runs it; those of the log are in `model.limits`."""

from ithaca.model.limits import KIB, MIB

RAFT_ENTRY_BYTES_MAX = 4 * MIB
"""Payload of one Raft entry."""
RAFT_PROPOSAL_ENTRIES_MAX = 1024
"""Payloads proposed together."""
RAFT_APPEND_BYTES_MAX = MIB
RAFT_APPEND_ENTRIES_MAX = 1024
"""One AppendEntries; a single larger entry goes alone."""
RAFT_INFLIGHT_APPENDS_MAX = 64
RAFT_INFLIGHT_BYTES_MAX = 8 * MIB
"""Sent to one follower and not yet answered; more waits."""
RAFT_CATCH_UP_LAG_ENTRIES = 16
RAFT_CATCH_UP_EXTRA = 4
RAFT_CATCH_UP_BYTES_PER_MS = 8 * KIB
RAFT_CATCH_UP_IDLE_MS = 100
COPY_PAUSE_S = 0.005
"""A follower that lacks so many committed entries gets what is committed and a fourth of that, or 8 MiB a second, on
top; and everything at once when nothing was committed for so long. How often who copies looks whether it may go on."""
RAFT_UNCOMMITTED_ENTRIES_MAX = 65_536
RAFT_UNCOMMITTED_BYTES_MAX = 64 * MIB
"""Proposed and not yet committed; more is refused."""
RAFT_READS_MAX = 65_536
"""Linearizable reads that wait for a leader's confirmation; more is refused."""
RAFT_PERSISTS_MAX = 2
"""Persists handed out and not yet reported; what comes meanwhile goes into the next one."""
RAFT_APPLY_ENTRIES_MAX = 4096
"""Entries in one Apply."""
RAFT_SNAPSHOT_BYTES_MAX = 320 * MIB
"""A state machine's snapshot."""
SNAPSHOT_TURN_BYTES = 256 * KIB
"""So much of a snapshot is encoded before the loop turns to other work, and what is encoded at once on top."""
RAFT_SNAPSHOT_CHUNK_BYTES = MIB
"""A larger one travels in chunks of this size, one after the other."""
RAFT_HELD_BACK_ENTRIES_MAX = 65_536
"""Entries that a leader keeps behind a snapshot while a follower is being sent an earlier one."""
RAFT_TERM_LEAP_MAX = 1 << 32
"""Terms by which a message may be ahead of the server that gets it: they rise one by one, some a second at worst."""
RAFT_LEARNER_LAG_ENTRIES_MAX = 1024
"""A learner that is further behind cannot become a voter yet."""
RAFT_FULL_RETRY_S = 0.1
"""Between attempts to persist on a disk that is full."""
