"""The orderers of a cluster's file as members of a Raft group, whatever their engine has them agree on."""

from collections.abc import Mapping
from typing import Any

from ithaca.model.config.cluster import ClusterFile, check_founders
from ithaca.model.errors import LastOrderer, NoSuchOrderer
from ithaca.model.view import Address, Orderers
from ithaca.raft.events import Role
from ithaca.raft.messages import ServerId
from ithaca.runtime.machine import process_id
from ithaca.server.raft_host.group import Group
from ithaca.server.raft_host.host import RaftHost
from ithaca.server.raft_host.identity import RaftMember, Words

ORDERERS = Words(
    "orderer", NoSuchOrderer, LastOrderer, way_out="put another one into its place (ithaca orderer replace NUMBER)"
)
"""What members of this Raft group are called."""

_STATES = {
    Role.LEADER: "leader",
    Role.FOLLOWER: "follower",
    Role.PRE_CANDIDATE: "candidate",
    Role.CANDIDATE: "candidate",
}


def orderer_of(file: ClusterFile, server: ServerId) -> RaftMember:
    """This orderer in its group, as the file has it. One that is joining knows of nobody."""

    def founders() -> Mapping[ServerId, Address]:
        return {} if file.orderer(server).joining else check_founders(file)

    return RaftMember(server, ORDERERS, founders, {place.server: place.address for place in file.orderers})


def agreed_orderers(group: Group) -> Orderers:
    """Where those are that may lead, as far as it is agreed."""
    return Orderers(group.commit_index, group.voters)


def member_status(server: ServerId, address: Address, host: RaftHost) -> dict[str, Any]:
    """What every orderer says of itself first."""
    driver, group = host.driver, host.group
    return {
        "role": ORDERERS.role,
        "server": server,
        "pid": process_id(),
        "address": str(address),
        "state": group.state or _STATES[driver.role],
        "members": [
            {"server": each.server, "address": str(each.address), "votes": each.votes} for each in group.members.members
        ],
        "term": driver.term,
        "leader": driver.leader,
        "commit": driver.commit_index,
        "applied": driver.applied_index,
    }
