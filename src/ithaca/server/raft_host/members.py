"""Orderers that come and go: what the leader does when it is asked for a change, and what it does unasked.

A new orderer listens first (learner): it gets the snapshot and the log, and counts for nothing. The leader promotes
every learner that has kept up, whoever was leading when it was added. A leader that is to be removed hands over
first, and its successor removes it. Raft itself allows one change at a time, and none after which most of those who
vote would be silent.
"""

import asyncio
import logging

from ithaca.model.errors import AddressInUse, InvalidInput, IthacaError, LastOrderer, NoSuchOrderer, Unavailable
from ithaca.model.limits import ORDERER_NUMBER_LEAP_MAX, ORDERER_PROMOTE_S
from ithaca.protocol.members import AddOrderer, GetMembers, RemoveOrderer
from ithaca.raft.messages import ServerId
from ithaca.runtime.raft.driver import RaftDriver
from ithaca.runtime.raft.ports import Waiter
from ithaca.server.raft_host.group import Group

_log = logging.getLogger("ithaca.orderer")


class MemberChanges:
    """Changes of the group, for as long as this server leads."""

    def __init__(self, server: ServerId, driver: RaftDriver, group: Group) -> None:
        self._server = server
        self._driver = driver
        self._group = group
        self._timer: asyncio.TimerHandle | None = None
        self._turn = 0

    # Promotion

    def look(self) -> None:
        """The leader or the members are others: have learners promoted, if it is this server that can."""
        if self._timer is None and self._driver.is_leader and self._driver.configuration.learners:
            self._timer = asyncio.get_running_loop().call_later(ORDERER_PROMOTE_S, self._promote)

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
        _log.info("orderer %d has kept up, and votes from now on", learner)

    # Requests

    def take(self, message: AddOrderer | RemoveOrderer | GetMembers, waiter: Waiter) -> None:
        """Do what is asked; `waiter` is told the members after it."""
        if isinstance(message, GetMembers):
            self._driver.submit_read(self._answering(waiter))
        elif self._driver.configuration != self._driver.agreed_configuration:
            waiter.failed(Unavailable("another change of the orderers is under way: try again"))
        elif isinstance(message, AddOrderer):
            self._add(message, waiter)
        else:
            self._remove(message.server, waiter)

    def _add(self, message: AddOrderer, waiter: Waiter) -> None:
        server, address = message.server, message.address
        configuration, addresses = self._driver.configuration, self._group.addresses
        if addresses.get(server) == address:
            self._driver.submit_read(self._answering(waiter))
        elif server in configuration.members:
            waiter.failed(InvalidInput(f"there is an orderer {server} already, at {addresses.get(server)}"))
        elif server <= configuration.last:
            waiter.failed(
                InvalidInput(
                    f"orderer {server} cannot be added: numbers up to {configuration.last} were used, and no number is "
                    f"used again; start it again as orderer {configuration.last + 1} with an empty directory"
                )
            )
        elif server > configuration.last + ORDERER_NUMBER_LEAP_MAX:
            waiter.failed(
                InvalidInput(
                    f"orderer {server} cannot be added: the last one was {configuration.last}, and numbers that are "
                    f"skipped cannot be used later; use one up to {configuration.last + ORDERER_NUMBER_LEAP_MAX}"
                )
            )
        elif address in addresses.values():
            waiter.failed(AddressInUse(f"{address} is the address of another orderer: give each its own"))
        else:
            _log.info("orderer %d at %s is being added", server, address)
            self._driver.submit_change("add learner", server, address, self._answering(waiter))

    def _remove(self, server: ServerId, waiter: Waiter) -> None:
        configuration = self._driver.configuration
        if server > configuration.last:
            members = ", ".join(map(str, sorted(configuration.members)))
            waiter.failed(NoSuchOrderer(f"there is no orderer {server}: there are {members}"))
        elif server not in configuration.members:
            self._driver.submit_read(self._answering(waiter))
        elif configuration.voters == (server,):
            waiter.failed(LastOrderer(f"orderer {server} is the last one that votes: add another first"))
        elif server == self._server:
            _log.info("orderer %d is to be removed, and hands over first", server)
            failed = waiter.failed
            handing_over = Unavailable(f"orderer {server} leads, and hands over before it is removed: ask again")
            self._driver.submit_transfer(Waiter(lambda _: failed(handing_over), failed))
        else:
            _log.info("orderer %d is being removed", server)
            self._driver.submit_change("remove", server, None, self._answering(waiter))

    def _answering(self, waiter: Waiter) -> Waiter:
        return Waiter(lambda _: waiter.done(self._group.members), waiter.failed)


def _not_yet(error: IthacaError) -> None:
    _log.debug("a learner is not promoted yet: %s", error)
