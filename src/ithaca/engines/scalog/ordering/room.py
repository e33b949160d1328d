"""How large the state is as a snapshot, and which entries it has room for.

The size is a bound from above, worked out of the lengths of the tables and the bounds of their fields, so that it costs
next to nothing and every orderer comes to the same. An entry that would add to a state that is full is refused; what is
there goes on: cuts, closed lanes and publications are never refused; replicas that start again, or are replaced, have a
reserve, and so have sessions of plain appends, which make room for each other.
"""

from typing import TYPE_CHECKING

from ithaca.engines.scalog.ordering.entries import AddReplica, OpenLane, OpenSession, OrderingEntry, RegisterShard
from ithaca.engines.scalog.ordering.prepared.entries import OpenPart
from ithaca.engines.scalog.ordering.shards import REPLICA_BYTES, SHARD_BYTES
from ithaca.model.limits import ORDERING_STATE_BYTES_MAX, ORDERING_STATE_RESERVE_BYTES, ORDERING_VIEW_BYTES_MAX
from ithaca.users.names import ANONYMOUS

if TYPE_CHECKING:
    from ithaca.engines.scalog.ordering.state import OrderingState

HEAD_BYTES = 256
OPEN_LANE_BYTES = 32
CLOSED_LANE_BYTES = 40
GRACE_BYTES = 32
RECLAIMED_BYTES = 5
SESSION_BYTES = 1024
PART_BYTES = 96
LAST_PART_BYTES = 16
WRITER_BYTES = 640
LOST_LANE_BYTES = 24
LOST_RANGE_BYTES = 20
UNPLACED_LANE_BYTES = 32
KEPT_CUT_BYTES = 64
KEPT_RUN_BYTES = 32
"""What one of each takes in a snapshot at most; a test fills every table with the largest that there can be."""


def size_bytes(state: "OrderingState") -> int:
    """A bound on the bytes of the state's snapshot."""
    lanes, shards, parts = state.lanes, state.shards, state.parts
    return (
        HEAD_BYTES
        + OPEN_LANE_BYTES * len(lanes.keys)
        + CLOSED_LANE_BYTES * len(lanes.closed)
        + shards.view_bytes
        + GRACE_BYTES * len(shards.graces)
        + RECLAIMED_BYTES * shards.reclaimed_count
        + SESSION_BYTES * len(state.sessions.by_id)
        + PART_BYTES * len(parts.by_lane)
        + LAST_PART_BYTES * parts.numbered_count
        + WRITER_BYTES * len(parts.writers.by_name)
        + state.consumers.size_bytes
        + state.users.size_bytes
        + sum(LOST_LANE_BYTES + LOST_RANGE_BYTES * len(ranges) for ranges in state.lost.values())
        + UNPLACED_LANE_BYTES * len(state.unplaced)
        + sum(KEPT_CUT_BYTES + KEPT_RUN_BYTES * len(cut.keys) for cut in state.kept.values())
    )


def is_full_for(state: "OrderingState", entry: OrderingEntry) -> bool:
    """Whether the entry would add something to the state for which there is no room."""
    match entry:
        case RegisterShard(shard=shard, replicas=replicas):
            added = SHARD_BYTES + sum(REPLICA_BYTES + len(address.host.encode()) for _, address in replicas)
            return shard not in state.shards.by_number and (_lacks_view(state, added) or _lacks(state, added))
        case AddReplica(address=address):
            added = REPLICA_BYTES + len(address.host.encode())
            return _lacks_view(state, added) or _lacks(state, added, ORDERING_STATE_RESERVE_BYTES)
        case OpenLane():
            return _lacks(state, OPEN_LANE_BYTES + CLOSED_LANE_BYTES, ORDERING_STATE_RESERVE_BYTES)
        case OpenPart(token=token):
            added = PART_BYTES + LAST_PART_BYTES + CLOSED_LANE_BYTES + KEPT_RUN_BYTES
            return not state.parts.is_known(token) and _lacks(state, added)
        case OpenSession(name=name):
            reserve = ORDERING_STATE_RESERVE_BYTES if name.startswith(ANONYMOUS) else 0
            return not state.sessions.is_known(name) and _lacks(state, SESSION_BYTES, reserve)
        case _:
            return False


def has_room_for_session(state: "OrderingState") -> bool:
    """Whether no other session need go for a new one."""
    return not _lacks(state, SESSION_BYTES)


def _lacks(state: "OrderingState", added: int, reserve: int = 0) -> bool:
    return state.size_bytes + added > ORDERING_STATE_BYTES_MAX + reserve


def _lacks_view(state: "OrderingState", added: int) -> bool:
    """Views travel in one message."""
    return state.shards.view_bytes + added > ORDERING_VIEW_BYTES_MAX
