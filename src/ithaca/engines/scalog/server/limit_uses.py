"""What a server has used of its limits: for its status, its metrics, and whoever warns of them (`model.limit_use`)."""

from ithaca.engines.scalog.ordering.state import OrderingState
from ithaca.engines.scalog.replica.core import ReplicaCore
from ithaca.model.limit_use import Uses
from ithaca.model.limits import (
    CONSUMERS_MAX,
    COPIES_QUARANTINED_MAX,
    FRAMES_BYTES_MAX,
    INCARNATION_MAX,
    LANE_PENDING_BYTES_MAX,
    ORDERING_CUTS_UNSYNCED_MAX,
    ORDERING_LOST_RANGES_MAX,
    ORDERING_NAMED_SESSIONS_MAX,
    ORDERING_REPLICAS_MAX,
    ORDERING_RUNS_UNSYNCED_MAX,
    ORDERING_SESSIONS_MAX,
    ORDERING_STATE_BYTES_MAX,
    ORDERING_VIEW_BYTES_MAX,
    PART_INCARNATION_MIN,
    PARTS_MAX,
    PARTS_PUBLISHED_MAX,
    PARTS_UNFINISHED_MAX,
    RAFT_MEMBERS_MAX,
    RAFT_NUMBER_MAX,
    REPLICA_NUMBER_MAX,
    RUNS_UNSYNCED_MAX,
    SHARD_NUMBER_MAX,
    SPARES_MAX,
    WRITERS_MAX,
)
from ithaca.model.security.users import USERS_MAX
from ithaca.raft.leader import LeaderTerm
from ithaca.raft.limits import RAFT_READS_MAX, RAFT_UNCOMMITTED_BYTES_MAX, RAFT_UNCOMMITTED_ENTRIES_MAX
from ithaca.raft.messages import Configuration
from ithaca.runtime.listener import Listener
from ithaca.runtime.machine import descriptors_max, descriptors_open
from ithaca.storage.disk import Disk


def process_uses(listener: Listener | None) -> Uses:
    """What every server has."""
    uses: Uses = {"descriptors": (descriptors_open(), descriptors_max())}
    if listener is not None:
        admission, capacity = listener.admission, listener.admission.capacity
        uses["clients"] = admission.clients, capacity.clients
        uses["connections"] = admission.clients + admission.servers, capacity.connections
        uses["frames_bytes"] = listener.frames.bytes, FRAMES_BYTES_MAX
    return uses


def disk_uses(disk: Disk, directory: str) -> Uses:
    """What the file system has that the server writes to."""
    return {"disk_bytes": disk.space(directory)}


def order_uses(state: OrderingState) -> Uses:
    """What every orderer has alike."""
    sessions = state.sessions
    return {
        "named_sessions": (sessions.named, ORDERING_NAMED_SESSIONS_MAX),
        "anonymous_sessions": (sessions.anonymous, ORDERING_SESSIONS_MAX - sessions.named),
        "writers": (len(state.parts.writers.by_name), WRITERS_MAX),
        "consumers": (len(state.consumers), CONSUMERS_MAX),
        **({"users": (len(state.users), USERS_MAX)} if state.users.version else {}),
        "parts": (len(state.parts.by_lane), PARTS_MAX),
        "parts_unfinished": (state.parts.unfinished_most, PARTS_UNFINISHED_MAX),
        "parts_published": (state.lanes.parts_most, PARTS_PUBLISHED_MAX),
        "replicas": (state.shards.replica_count, ORDERING_REPLICAS_MAX),
        "state_bytes": (state.size_bytes, ORDERING_STATE_BYTES_MAX),
        "view_bytes": (state.shards.view_bytes, ORDERING_VIEW_BYTES_MAX),
        "cuts_unsynced": (len(state.kept), ORDERING_CUTS_UNSYNCED_MAX),
        "cut_runs_unsynced": (sum(len(cut.keys) for cut in state.kept.values()), ORDERING_RUNS_UNSYNCED_MAX),
        "lost_ranges": (sum(map(len, state.lost.values())), ORDERING_LOST_RANGES_MAX),
        "shard_numbers": (state.shards.number_last, SHARD_NUMBER_MAX),
        "replica_numbers": (state.shards.replica_last_most, REPLICA_NUMBER_MAX),
        "part_numbers": (state.parts.numbers_most, INCARNATION_MAX - PART_INCARNATION_MIN + 1),
    }


def member_uses(configuration: Configuration) -> Uses:
    """What the group of orderers has: places, and numbers that were never used."""
    return {
        "orderers": (len(configuration.members), RAFT_MEMBERS_MAX),
        "orderer_numbers": (configuration.last, RAFT_NUMBER_MAX),
    }


def leader_uses(spares: int, leadership: LeaderTerm) -> Uses:
    """What the leader alone has: spares that wait, and what is not agreed on yet."""
    return {
        "spares": (spares, SPARES_MAX),
        "uncommitted_entries": (leadership.uncommitted_entries, RAFT_UNCOMMITTED_ENTRIES_MAX),
        "uncommitted_bytes": (leadership.uncommitted_bytes, RAFT_UNCOMMITTED_BYTES_MAX),
        "reads_waiting": (leadership.reads.count, RAFT_READS_MAX),
    }


def replica_uses(core: ReplicaCore) -> Uses:
    return {
        "pending_bytes": (core.pending_bytes, LANE_PENDING_BYTES_MAX),
        "runs_unsynced": (core.runs_unsynced, RUNS_UNSYNCED_MAX),
    }


def aside_uses(copies: int) -> Uses:
    """Copies of shards that are kept for people."""
    return {"copies_quarantined": (copies, COPIES_QUARANTINED_MAX)}
