"""Members of a Raft group that are called orderers, as tests need them."""

from collections.abc import Mapping

from ithaca.model.view import Address
from ithaca.server.raft_host.identity import RaftMember
from ithaca.server.raft_host.orderers import ORDERERS

NOWHERE = Address("127.0.0.1", 1)


def raft_member(server: int, founders: Mapping[int, Address]) -> RaftMember:
    """One of these founders."""
    return RaftMember(server, ORDERERS, lambda: founders, founders)


def nowhere(*servers: int) -> dict[int, Address]:
    """Founders whose addresses do not matter."""
    return dict.fromkeys(servers, NOWHERE)
