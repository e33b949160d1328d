"""A server's state for people: what `GetStatus` and `GET /health` answer."""

from typing import Any

from ithaca.engines.raft.name import LANE
from ithaca.engines.raft.replog.state import LogState
from ithaca.engines.raft.storage.shared_log import SharedLog
from ithaca.model.view import Address
from ithaca.server.raft_host.host import RaftHost
from ithaca.server.raft_host.orderers import member_status


def server_status(
    server: int, address: Address, host: RaftHost, state: LogState, store: SharedLog, first: int, damage: str | None
) -> dict[str, Any]:
    is_full = host.driver.storage_full is not None
    status = member_status(server, address, host)
    if is_full and host.group.state is None:
        status["state"] = "full"
    return status | {
        "tail": state.tail,
        "first": first,
        "damage": damage,
        "full": is_full,
        "configured": state.configuration is not None,
        "lanes": [{"lane": str(LANE), "open": True, "ordered": state.length, "durable": store.lane.length}],
        "sessions": len(state.sessions),
        "log": None if state.configuration is None else str(state.configuration.log),
    }
