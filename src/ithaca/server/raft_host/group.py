"""Who the members are and where, as one of them knows it: the Raft configuration, in words for others."""

from ithaca.model.view import Address
from ithaca.protocol.members import Member, MembersAre
from ithaca.raft.messages import ServerId
from ithaca.runtime.raft.driver import RaftDriver
from ithaca.server.raft_host.identity import RaftMember


class Group:
    """The group of one server. What is agreed counts for others; for its own links, what is in its log."""

    def __init__(self, member: RaftMember, driver: RaftDriver) -> None:
        self._server = member.server
        self._driver = driver
        self._of_file = member.addresses
        self.is_removed = False
        """Whether another member has said that this one was removed."""

    @property
    def addresses(self) -> dict[ServerId, Address]:
        """Of all members. Groups that were founded before addresses were agreed on have them in the file alone."""
        configuration = self._driver.configuration
        agreed = dict(configuration.addresses)
        found = {server: agreed.get(server) or self._of_file.get(server) for server in configuration.members}
        return {server: address for server, address in found.items() if address is not None}

    @property
    def others(self) -> dict[ServerId, Address]:
        return {server: address for server, address in self.addresses.items() if server != self._server}

    @property
    def leader(self) -> Address | None:
        leader = self._driver.leader
        return None if leader is None else self.addresses.get(leader)

    @property
    def voters(self) -> tuple[Address, ...]:
        """Where those are that may lead, as far as it is agreed."""
        addresses = self.addresses
        return tuple(addresses[voter] for voter in self._driver.agreed_configuration.voters if voter in addresses)

    @property
    def commit_index(self) -> int:
        """Up to where it is agreed: of two groups, the one of the higher index is newer."""
        return self._driver.commit_index

    @property
    def members(self) -> MembersAre:
        configuration, addresses = self._driver.agreed_configuration, self.addresses
        members = sorted(server for server in configuration.members if server in addresses)
        return MembersAre(
            tuple(
                Member(server, addresses[server], server in configuration.voters, server == self._driver.leader)
                for server in members
            ),
            configuration.last,
        )

    @property
    def state(self) -> str | None:
        """What this server is instead of a voter; None for a voter."""
        configuration = self._driver.configuration
        if self._server in configuration.voters and not self.is_removed:
            return None
        if self.is_removed or configuration.was_removed(self._server):
            return "removed"
        return "learning" if self._server in configuration.learners else "waiting"

    def was_removed(self, server: ServerId) -> bool:
        """Whether another one is no member any more, for sure."""
        return self._driver.agreed_configuration.was_removed(server)
