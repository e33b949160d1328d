"""A server may open no file and take no connection for a while, as when others of its machine use up what there is of
descriptors (`EMFILE`).

Drawn apart from the rest of a configuration, so that the other seeds stay what they were.
"""

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from ithaca.sim.host import Host
from ithaca.sim.scheduler import NS_PER_S

if TYPE_CHECKING:
    from ithaca.sim.configuration import Configuration
    from ithaca.sim.engine import Inject
    from ithaca.sim.world import World

USE_UP = "use-up-descriptors"
DESCRIPTOR_FAULTS = (USE_UP,)
_CHANCE = 0.15
_FOR_S = (0.2, 4.0)


def with_used_up_descriptors(configuration: "Configuration") -> "Configuration":
    """The same, or with the fault."""
    random = Random(f"descriptors of {configuration.seed}")
    if not configuration.faults or random.random() >= _CHANCE:
        return configuration
    return replace(configuration, faults=tuple(sorted([*configuration.faults, USE_UP])))


class DescriptorFaults:
    """The fault, by its name."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._random = Random(f"{world.configuration.seed} used up descriptors")
        self.kinds: dict[str, Inject] = {USE_UP: self._use_up}

    def _use_up(self) -> str | None:
        world = self._world
        running = [host for host in world.hosts.values() if host.is_up and not host.disk.lacks_descriptors]
        if not running:
            return None
        host = self._random.choice(running)
        seconds = self._random.uniform(*_FOR_S)
        host.disk.lacks_descriptors = True
        world.network.exhausted.add(host.address)
        world.scheduler.plan(int(seconds * NS_PER_S), None, lambda: self._give_back(host))
        return f"{host.name} for {seconds:.1f} s"

    def _give_back(self, host: Host) -> None:
        host.disk.lacks_descriptors = False
        self._world.network.exhausted.discard(host.address)

    def heal(self) -> None:
        """Everybody may open files again."""
        for host in self._world.hosts.values():
            self._give_back(host)
