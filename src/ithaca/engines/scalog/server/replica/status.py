"""A replica's state for people: what `GetStatus` and `GET /health` answer."""

from typing import Any, NamedTuple
from uuid import UUID

from ithaca.engines.scalog.replica.core import ReplicaCore
from ithaca.engines.scalog.server.route import orderers_status
from ithaca.model.view import Address, Orderers
from ithaca.runtime.machine import process_id


class ReplicaPlaced(NamedTuple):
    """Which replica it is, and where."""

    shard: int
    replica: int
    boot: int
    address: Address
    log: UUID | None


def replica_status(
    placed: ReplicaPlaced, core: ReplicaCore, damaged: object, orderers: Orderers, connections: int
) -> dict[str, Any]:
    return {
        "role": "replica",
        "shard": placed.shard,
        "replica": placed.replica,
        "pid": process_id(),
        "address": str(placed.address),
        "state": core.state,
        "boot": placed.boot,
        "lane": None if core.own_lane is None else str(core.own_lane),
        "cut": core.cut_number,
        "tail": core.tail,
        "readable": core.readable,
        "first": core.first,
        "view": core.view_version,
        "lanes": [
            {
                "lane": str(lane),
                "open": is_open,
                "durable": durable,
                "ordered": ordered,
                "placed": core.held_length(lane)[1],
                "behind": core.is_behind(lane),
            }
            for lane, is_open, durable, ordered in core.lanes()
        ],
        "settled": core.settled_count,
        "damaged": damaged,
        "orderers": orderers_status(orderers),
        "pending_bytes": core.pending_bytes,
        "runs_unsynced": core.runs_unsynced,
        "connections": connections,
        "log": None if placed.log is None else str(placed.log),
    }
