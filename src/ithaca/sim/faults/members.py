"""Orderers that come and go in a simulated cluster, and those whose disks are lost or damaged and are replaced.

Spare orderers run from the beginning, and wait to be added. What destroys an orderer befalls a member of a group that
can do without it, while no other change is under way; the administrator then removes it and adds a spare one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from ithaca.model.errors import IthacaError, LastOrderer
from ithaca.model.interface.awaited import ClusterLog
from ithaca.sim.host import Host
from ithaca.storage.raftlog import FILE_NAME

if TYPE_CHECKING:
    from ithaca.sim.world import World


@dataclass(slots=True)
class OrdererTask:
    """One change that the administrator is asked for."""

    orderer: int
    is_new: bool


class Members:
    """Who is to be an orderer, and what befalls those who are."""

    def __init__(self, world: "World", random: Random) -> None:
        self._world = world
        self._random = random
        founders = [place.server for place in world.file.orderers]
        self.wanted = set(founders)
        """Those that are members once the administrator is done."""
        self._last = max(founders)
        self.pending: list[OrdererTask] = []
        self.faults: dict[str, Callable[[], str | None]] = {
            "add-orderer": self._add,
            "remove-orderer": self._remove,
            "lose-orderer": self._lose,
        }

    def host(self, orderer: int) -> Host:
        return self._world.hosts[f"orderer-{orderer}"]

    # Faults

    def _add(self) -> str | None:
        """The next spare one: numbers rise."""
        if f"orderer-{self._last + 1}" not in self._world.hosts:
            return None
        self._last += 1
        return self._ask(OrdererTask(self._last, is_new=True))

    def _remove(self) -> str | None:
        if len(self.wanted) < 2:
            return None
        return self._ask(OrdererTask(self._random.choice(sorted(self.wanted)), is_new=False))

    def _lose(self) -> str | None:
        """A disk is lost, or its bytes are damaged so that the orderer does not start again."""
        if self.pending or len(self.wanted) < 3:
            return None
        orderer = self._random.choice(sorted(self.wanted))
        host = self.host(orderer)
        self._world.kill(host, "its disk is lost")
        path = f"{host.directory}/{FILE_NAME}"
        if self._random.random() < 0.5 and host.disk.exists(path):
            host.flip_bit(path, self._random.randrange(12), self._random.randrange(8))  # in its head
        else:
            self._world.retire(host)
            host.replace_disk()
        self._ask(OrdererTask(orderer, is_new=False))
        replacement = self._add()
        return f"{orderer}, replaced by {replacement}"

    def _ask(self, task: OrdererTask) -> str:
        self.pending.append(task)
        (self.wanted.add if task.is_new else self.wanted.discard)(task.orderer)
        self._world.administrator.ask_for(task)
        return f"{task.orderer}"

    # What the administrator does

    async def carry_out(self, log: ClusterLog, task: OrdererTask) -> bool:
        """Make one change; says whether that is over."""
        try:
            if task.is_new:
                place = self.host(task.orderer).place
                assert place is not None
                assert await log.admin.add_orderer(str(place.address)) == task.orderer
            else:
                await log.admin.remove_orderer(task.orderer)
        except LastOrderer as error:
            self._world.met(error, "change the orderers")
            self.wanted.add(task.orderer)
        except IthacaError as error:
            self._world.met(error, "change the orderers")
            return False
        self.pending.remove(task)
        host = self.host(task.orderer)
        if not task.is_new and task.orderer not in self.wanted and self._world.configuration.retires:
            self._world.retire(host)
        return True

    def are_as_wanted(self) -> bool:
        """Whether those who run agree that the orderers are those that were asked for."""
        if self.pending:
            return False
        for orderer in self.wanted:
            raft = self._world.simulation.raft_of(self.host(orderer))
            if raft is None or set(raft.agreed_configuration.voters) != self.wanted:
                return False
        return True
