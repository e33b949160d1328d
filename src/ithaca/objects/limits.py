"""The bounds of replicated objects, their snapshots and stores."""

from ithaca.model.limits import KIB, MIB

OBJECT_NAME_BYTES_MAX = 200
"""The name of an object on the log."""
OBJECT_TIMEOUT_S = 30.0
"""How long a command, or a read that must be fresh, waits unless told otherwise."""
OBJECT_PROPOSALS_MAX = 65_536
"""Commands of one replica that wait for their results; more are refused."""
OBJECT_PATIENCE_S = 0.005
"""So long a fresh read waits for what the subscription brings, before it reads up to the tail by itself."""
OBJECT_APPLIED_S = 0.05
"""How long a command that was submitted is waited for, before its append is asked how it went."""
OBJECT_RETRY_S_MIN = 0.05
OBJECT_RETRY_S_MAX = 2.0
"""Between attempts of a replica to follow a log that is not available."""
OBJECT_CHECK_COMMANDS = 1024
OBJECT_CHECK_BYTES_PER_COMMAND = KIB
"""Replicas exchange hashes of their states after so many commands, or after one for so many bytes of the state if that
is more: hashing costs each command a bounded time."""
OBJECT_CHECKS_KEPT = 8
"""Own hashes that a replica keeps to compare with those of others."""
OBJECT_TRACE_STATE_BYTES_MAX = 16 * MIB
"""A larger state is not kept to find the command after which it differed."""
OBJECT_SNAPSHOT_COMMANDS = 100_000
"""Commands between snapshots unless told otherwise."""
OBJECT_SNAPSHOT_CHUNK_BYTES = MIB
"""One record of a snapshot that is kept in the log."""
OBJECT_SNAPSHOT_CHUNKS_TOGETHER = 8
"""Such records in one batch."""
OBJECT_SNAPSHOTS_KEPT = 2
"""Snapshots that stay in a directory."""
OBJECT_SNAPSHOT_SEARCH = 65_536
"""The newest snapshot in a log is looked for in so many positions before the tail, then in four times as many."""
STORE_KEY_BYTES_MAX = 64 * KIB
"""A key of a store."""
STORE_ATTEMPTS_MAX = 64
"""How often a transaction is tried."""
