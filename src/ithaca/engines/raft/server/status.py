"""A server's state for people: what `GetStatus` and `GET /health` answer."""

from typing import Any

from ithaca.engines.raft.name import LANE
from ithaca.engines.raft.replog.state import LogState
from ithaca.engines.raft.storage.shared_log import SharedLog
from ithaca.model.view import Address
from ithaca.raft.events import Role
from ithaca.runtime.machine import process_id
from ithaca.server.raft_host.host import RaftHost

_STATES = {
    Role.LEADER: "leader",
    Role.FOLLOWER: "follower",
    Role.PRE_CANDIDATE: "candidate",
    Role.CANDIDATE: "candidate",
}


def server_status(
    server: int, address: Address, host: RaftHost, state: LogState, store: SharedLog, first: int, damage: str | None
) -> dict[str, Any]:
    driver, group = host.driver, host.group
    return {
        "role": "orderer",
        "server": server,
        "pid": process_id(),
        "address": str(address),
        "state": group.state or ("full" if driver.storage_full is not None else _STATES[driver.role]),
        "members": [
            {"server": each.server, "address": str(each.address), "votes": each.votes} for each in group.members.members
        ],
        "term": driver.term,
        "leader": driver.leader,
        "commit": driver.commit_index,
        "applied": driver.applied_index,
        "tail": state.tail,
        "first": first,
        "damage": damage,
        "full": driver.storage_full is not None,
        "configured": state.configuration is not None,
        "lanes": [{"lane": str(LANE), "open": True, "ordered": state.length, "durable": store.lane.length}],
        "sessions": len(state.sessions),
        "log": None if state.configuration is None else str(state.configuration.log),
    }
