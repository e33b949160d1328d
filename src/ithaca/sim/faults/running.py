"""Faults of servers that run and go on: damage under their hands, and links that break between orderers alone.

Drawn apart from the others, so that the seeds without them stay what they were.
"""

from random import Random
from typing import TYPE_CHECKING

from ithaca.sim.faults.disks import damaged_place
from ithaca.sim.faults.targets import FaultGroup, Targets

if TYPE_CHECKING:
    from ithaca.sim.configuration import Configuration
    from ithaca.sim.world import World

FLIP_RUNNING = "flip-running"
RESET_ORDERERS = "reset-orderers"
RUNNING_FAULTS = (FLIP_RUNNING, RESET_ORDERERS)
_CHANCE = 0.15


def with_running_faults(configuration: "Configuration") -> "Configuration":
    """The same, or with one of these, or both."""
    random = Random(f"sudden faults of {configuration.seed}")
    if not configuration.faults or random.random() >= _CHANCE:
        return configuration
    kinds: list[str] = []
    if configuration.replicas > 1 and configuration.failures.action != "replace":  # as `sim.faults.replacing` says
        kinds.append(FLIP_RUNNING)
    if configuration.orderers > 1:
        kinds.append(RESET_ORDERERS)
    return configuration.with_some(random, kinds)


class RunningFaults(FaultGroup):
    """What befalls servers without a warning, and leaves them running."""

    def __init__(self, world: "World", targets: Targets) -> None:
        super().__init__(world, targets)
        self._random = Random(f"{world.configuration.seed} sudden")
        self.kinds = {
            FLIP_RUNNING: self._flip,
            RESET_ORDERERS: self._reset,
        }

    def _flip(self) -> str | None:
        """A bit changes on the disk of a replica, which runs and may read that any time, or never."""
        host = self._targets.expendable()
        if host is None or not host.is_up:
            return None
        place = damaged_place(host, self._random)
        if place is None:
            return None
        host.flip_bit(*place, self._random.randrange(8))
        host.is_broken = True
        return f"{host.name} {place[0]} at {place[1]}"

    def _reset(self) -> str | None:
        """Connections between orderers break, all of them or those of one; everybody else's stay."""
        orderers = [host for host in self._targets.orderers() if not host.is_retired]
        chosen = orderers if self._random.random() < 0.5 else [self._random.choice(orderers)]
        count = self._world.network.reset({host.address for host in chosen}, {host.address for host in orderers})
        return f"{count} connections of {', '.join(host.name for host in chosen)}" if count else None
