"""Faults that can be injected: what each is, whether this machine allows it, how it is done and undone."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, Protocol

from ithaca.cluster.temporary import Shape
from ithaca.model.engine import Feature
from ithaca.torture.cluster_under_test import ClusterUnderTest
from ithaca.torture.disks import LoopDisk
from ithaca.torture.plan import Fault, Strike
from ithaca.torture.proxy import Network


class NotFired(Exception):
    """A planned fault had no effect, so the run proves nothing about it."""


class Broken(Exception):
    """A server did what it must not do when this happens to it."""


class Clients(Protocol):
    """The clients that can be killed, and paused."""

    async def kill(self, name: str) -> int:
        """SIGKILL in the middle of what it does, and start it again under its name; its process id before."""

    async def pause(self, name: str, seconds: float) -> int:
        """SIGSTOP, and SIGCONT after so long; its process id."""


class Scene:
    """What strikes act on."""

    def __init__(
        self, cluster: ClusterUnderTest, network: Network, disks: dict[str, LoopDisk], clients: Clients
    ) -> None:
        self.cluster = cluster
        self.network = network
        self.disks = disks
        self.clients = clients

    async def servers(self, strike: Strike) -> list[str]:
        """The names of the servers that the targets stand for now."""
        return [await self.cluster.resolved(target) for target in strike.targets]


Struck = Callable[[str], None]
"""To be told, once a fault is seen to work, what was done to whom."""


class Injector(ABC):
    """One kind of fault."""

    fault: ClassVar[Fault]
    needs_disks: ClassVar[bool] = False
    """Whether servers must be on disks of their own."""
    needs: ClassVar[Feature | None] = None
    """What the engine must be able to do."""
    by_party: ClassVar[bool] = False
    """Whether the proxy must know who has dialled, which TLS keeps from it."""

    @classmethod
    def unavailable(cls) -> str | None:
        """Why this machine does not allow it; None when it does."""
        return None

    @classmethod
    def spares(cls, shape: Shape) -> int:
        """How many spares each strike takes."""
        return 0

    @abstractmethod
    async def strike(self, scene: Scene, strike: Strike, struck: Struck) -> None:
        """Break it, hold it for the strike's duration, mend it; `NotFired` when it had no effect."""
