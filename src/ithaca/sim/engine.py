"""What an engine brings to the simulator, and how that is found by the engine's name.

`SimulatedEngine` is the same for all seeds; `Simulation` is one run of one seed. The world asks them for everything
that it cannot know of an engine; `ithaca.sim.scalog` is one to look at.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from random import Random
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ithaca.engines.registry import engine
from ithaca.model.engine import EngineName
from ithaca.model.errors import ConfigError
from ithaca.model.interface.awaited import ClusterLog
from ithaca.proof.history import Final, Id
from ithaca.runtime.listener import Listener
from ithaca.runtime.raft.driver import RaftDriver
from ithaca.sim.disk import SimDisk
from ithaca.sim.process import Process

if TYPE_CHECKING:
    from ithaca.sim.configuration import Configuration
    from ithaca.sim.host import Host
    from ithaca.sim.world import World

_MODULES: dict[EngineName, str] = {
    "scalog": "ithaca.sim.scalog.engine",
    "belfast": "ithaca.sim.belfast.engine",
    "raft": "ithaca.sim.raft.engine",
    "corfu": "ithaca.sim.corfu.engine",
}
"""Each has `SIMULATED`."""

Inject = Callable[[], str | None]
"""Breaks something, and says what; None when there was nothing to break."""
Condition = tuple[str, Callable[[], bool]]
"""What is waited for, in words, and whether it is so."""


class Group(NamedTuple):
    """Servers that keep the records of one shard; each record that was acknowledged is on so many of their disks."""

    shard: int
    hosts: "Sequence[Host]"
    copies: int | None
    """None while nothing can be said, since a server is missing."""


class Client(Protocol):
    """What runs on a client's machine. It outlives its processes, as a program's own records do."""

    name: str

    async def main(self, who: Process, random: Random) -> None:
        """One life of it."""


class Counting(Protocol):
    """A client that counts what succeeded."""

    succeeded: int


class SimulatedEngine(Protocol):
    """An engine, as the simulator needs it."""

    @property
    def name(self) -> EngineName: ...

    @property
    def faults(self) -> tuple[str, ...]:
        """All kinds that can befall it, the shared ones (`configuration.SHARED_FAULTS`) included."""

    @property
    def paths(self) -> Mapping[str, str]:
        """The named paths through the code that a campaign must take (`sim.paths`), the shared ones included."""

    @property
    def repeatable(self) -> tuple[type, ...]:
        """Messages that may come twice, late or in another order, beside those of Raft."""

    @property
    def administered(self) -> tuple[str, ...]:
        """Faults of its own that ask something of the administrator, who is there where one of these may come."""

    def draw(self, shared: "Configuration") -> "Configuration":
        """What a seed is made of, from what it shares with other engines.

        Each further draw has a `Random` of its own, so that one more does not change what the others mean.
        """

    def simulate(self, world: "World") -> "Simulation":
        """Its part of a world whose hosts, producers and readers are made, and not started."""


class Simulation(Protocol):
    """The engine's part of one world. What most engines have none of, none has unless it says otherwise."""

    # What happens

    def clients(self) -> Sequence[Client]:
        """Clients beside the producers, the readers and the administrator."""
        return []

    def faults(self) -> Mapping[str, Inject]:
        """Faults of its own, by kind."""
        return {}

    def heal(self) -> None:
        """Everything is mended: end what its own faults began."""
        return

    async def scan(self, random: Random, log: ClusterLog) -> None:
        """Read a range as tasks do that read a lot, and record it."""

    async def meddle(self, random: Random, log: ClusterLog, name: str) -> None:
        """Ask for what no client asks for, and must not get."""
        return

    # What it is like

    def raft_of(self, host: "Host") -> RaftDriver | None:
        """The Raft of an orderer that runs; None of everybody else."""

    def listener_of(self, host: "Host") -> Listener | None:
        """Where the server of this host takes connections."""

    def groups(self) -> "Sequence[Group]":
        """Who keeps the same records, as it is agreed now."""

    def is_complete(self, host: "Host") -> bool:
        """Whether a storage server has everything of its shard that was acknowledged to anybody."""

    def knows_trim(self, host: "Host", before: int) -> bool:
        """Whether a storage server knows that everything before this position was trimmed; none does that starts."""

    def trim_point(self, before: int) -> int:
        """Where to trim instead of at a position that was drawn among all: now and then where records begin."""
        return before

    def former(self) -> Sequence["Host"]:
        """Servers that are no storage servers any more, have not heard of it, and may still be read."""
        return ()

    # What must hold

    def check(self, host: "Host") -> None:
        """Something has happened to this server, which runs; raises `Violation`."""

    def watched(self) -> AbstractContextManager[None]:
        """Have witnesses look at single calls while this lasts."""
        return nullcontext()

    def counting(self) -> Sequence[Counting]:
        """Its clients that must get on once everything is mended."""
        return []

    def clients_end(self) -> Iterator[Condition]:
        """What must come about once nobody begins anything new, one after the other."""
        return iter(())

    def converge(self) -> Iterator[Condition]:
        """What must come about once all clients are done, one after the other."""

    def check_end(self) -> None:
        """All servers have stopped; raises `Violation`."""
        return

    # What is left

    def copies_end(self) -> int:
        """On how many disks each record is once everything has come about; unless its engine says otherwise, on all of
        its group."""
        return min(len(group.hosts) for group in self.groups())

    def dump(self, host: "Host") -> Final:
        """What the disk of a storage server holds; raises `Corrupt`."""

    def held_ids(self, disk: SimDisk, directory: str) -> set[Id]:
        """All records on a disk, those included that have no position there yet; raises `Corrupt`."""

    def let_go(self, handle: ClusterLog) -> None:
        """The run is over: have a handle forget whoever reads through it."""
        return


def simulated(name: EngineName) -> SimulatedEngine:
    """The simulator's part of an engine, which is loaded with it.

    >>> simulated("scalog").name
    'scalog'
    """
    engine(name)
    module = _MODULES.get(name)
    if module is None:
        raise ConfigError(f"the engine {name!r} cannot be simulated: use one of {', '.join(_MODULES)}")
    found: SimulatedEngine = import_module(module).SIMULATED
    return found
