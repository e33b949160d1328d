"""An orderer's state for people: what `GetStatus` and `GET /health` answer."""

from collections.abc import Mapping, Sequence
from typing import Any

from ithaca.engines.scalog.ordering.state import OrderingState
from ithaca.engines.scalog.server.orderer.streams import NewsStreams
from ithaca.model.limits import ORDERING_STATE_BYTES_MAX
from ithaca.model.positions import LaneId
from ithaca.model.view import Address, Shard
from ithaca.server.raft_host.host import RaftHost
from ithaca.server.raft_host.orderers import member_status


def orderer_status(
    server: int,
    address: Address,
    host: RaftHost,
    state: OrderingState,
    streams: NewsStreams,
    silent: Mapping[int, Sequence[int]],
) -> dict[str, Any]:
    """`silent`: of each shard, the replicas of which the leader has not heard for too long."""
    driver = host.driver
    return member_status(server, address, host) | {
        "cut": state.cut_number,
        "tail": state.tail,
        "first": state.first,
        "view": state.shards.version,
        "full": driver.storage_full is not None,
        "configured": state.configuration is not None,
        "shards": [
            _shard(shard, state, streams if driver.is_leader else None, silent.get(shard.shard, ()))
            for shard in state.view.shards
        ],
        "sessions": len(state.sessions.by_id),
        "state_bytes": state.size_bytes,
        "state_bytes_max": ORDERING_STATE_BYTES_MAX,
        "log": None if state.configuration is None else str(state.configuration.log),
    }


def _shard(shard: Shard, state: OrderingState, streams: NewsStreams | None, silent: Sequence[int]) -> dict[str, Any]:
    """`joined` and `silent` are known to the leader alone; `joined` is None elsewhere."""
    number = shard.shard
    return {
        "shard": number,
        "phase": shard.phase,
        "copies": shard.copies,
        "missing": shard.size - len(shard.replicas),
        "silent": list(silent),
        "replicas": [
            {
                "replica": each.replica,
                "address": str(each.address),
                "lane": str(LaneId(number, each.replica, each.incarnation)) if each.incarnation else None,
                "open": each.is_open,
                "joined": None if streams is None else streams.has(number, each.replica),
            }
            for each in shard.replicas
        ],
        "lanes": [
            {"lane": str(lane), "ordered": length} for lane, length in state.lanes.ordered_lengths(number).items()
        ],
    }
