"""Members that come and go: what the leader does when it is asked for a change, and what it does unasked.

A new member listens first (learner): it gets the snapshot and the log, and counts for nothing. The leader promotes
every learner that has kept up, whoever was leading when it was added. A leader that is to be removed hands over
first, and its successor removes it. Raft itself allows one change at a time, and none after which most of those who
vote would be silent.
"""

import asyncio
import logging

from ithaca.model.errors import AddressInUse, InvalidInput, IthacaError, Unavailable
from ithaca.model.limits import RAFT_NUMBER_LEAP_MAX, RAFT_PROMOTE_S
from ithaca.model.view import Address
from ithaca.raft.messages import ServerId
from ithaca.runtime.raft.driver import RaftDriver
from ithaca.runtime.raft.ports import Waiter
from ithaca.server.raft_host.group import Group
from ithaca.server.raft_host.identity import RaftMember

_log = logging.getLogger("ithaca.raft")


class MemberChanges:
    """Changes of the group, for as long as this server leads."""

    def __init__(self, member: RaftMember, driver: RaftDriver, group: Group) -> None:
        self._member = member
        self._driver = driver
        self._group = group
        self._timer: asyncio.TimerHandle | None = None
        self._turn = 0

    # Promotion

    def look(self) -> None:
        """The leader or the members are others: have learners promoted, if it is this server that can."""
        if self._timer is None and self._driver.is_leader and self._driver.configuration.learners:
            self._timer = asyncio.get_running_loop().call_later(RAFT_PROMOTE_S, self._promote)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _promote(self) -> None:
        self._timer = None
        learners = self._driver.configuration.learners
        if learners and self._driver.is_leader:
            self._turn += 1
            learner = learners[self._turn % len(learners)]
            self._driver.submit_change("promote", learner, None, Waiter(lambda _: self._promoted(learner), _not_yet))
            self.look()

    def _promoted(self, learner: ServerId) -> None:
        _log.info("%s has kept up, and votes from now on", self._member.named(learner))

    # Requests: each waiter is told the members as they are after it

    def tell(self, waiter: Waiter) -> None:
        """Who the members are, linearizably."""
        self._driver.submit_read(self._answering(waiter))

    def add(self, server: ServerId, address: Address, waiter: Waiter) -> None:
        """Let the server that waits there into the group; the same again is the same member."""
        if not self._is_settled(waiter):
            return
        configuration, addresses = self._driver.configuration, self._group.addresses
        name, last = self._member.named(server), configuration.last
        if addresses.get(server) == address:
            self.tell(waiter)
        elif server in configuration.members:
            waiter.failed(InvalidInput(f"{name} is there already, at {addresses.get(server)}"))
        elif server <= last:
            waiter.failed(
                InvalidInput(
                    f"{name} cannot be added: numbers up to {last} were used, and no number is used again; start it "
                    f"again as {self._member.named(last + 1)} with an empty directory"
                )
            )
        elif server > last + RAFT_NUMBER_LEAP_MAX:
            waiter.failed(
                InvalidInput(
                    f"{name} cannot be added: the last one was {last}, and numbers that are skipped cannot be used "
                    f"later; use one up to {last + RAFT_NUMBER_LEAP_MAX}"
                )
            )
        elif address in addresses.values():
            waiter.failed(
                AddressInUse(f"{address} is the address of another {self._member.words.role}: give each its own")
            )
        else:
            _log.info("%s at %s is being added", name, address)
            self._driver.submit_change("add learner", server, address, self._answering(waiter))

    def remove(self, server: ServerId, waiter: Waiter) -> None:
        """Let a member go for good; one that was removed before stays so."""
        if not self._is_settled(waiter):
            return
        configuration, words, name = self._driver.configuration, self._member.words, self._member.named(server)
        if server > configuration.last:
            members = ", ".join(map(str, sorted(configuration.members)))
            waiter.failed(words.no_such(f"there is no {name}: there are {members}"))
        elif server not in configuration.members:
            self.tell(waiter)
        elif configuration.voters == (server,):
            waiter.failed(words.last(f"{name} is the last one that votes: add another first"))
        elif server == self._member.server:
            _log.info("%s is to be removed, and hands over first", name)
            failed = waiter.failed
            handing_over = Unavailable(f"{name} leads, and hands over before it is removed: ask again")
            self._driver.submit_transfer(Waiter(lambda _: failed(handing_over), failed))
        else:
            _log.info("%s is being removed", name)
            self._driver.submit_change("remove", server, None, self._answering(waiter))

    def _is_settled(self, waiter: Waiter) -> bool:
        """Whether no other change is under way; else whoever asks is told."""
        if self._driver.configuration != self._driver.agreed_configuration:
            waiter.failed(Unavailable(f"another change of the {self._member.words.role}s is under way: try again"))
            return False
        return True

    def _answering(self, waiter: Waiter) -> Waiter:
        return Waiter(lambda _: waiter.done(self._group.members), waiter.failed)


def _not_yet(error: IthacaError) -> None:
    _log.debug("a learner is not promoted yet: %s", error)
