"""Faults of servers that run and go on: damage under their hands, and links that break between orderers alone.

Drawn apart from the others, so that the seeds without them stay what they were.
"""

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from ithaca.sim.host import Host

if TYPE_CHECKING:
    from ithaca.sim.configuration import Configuration
    from ithaca.sim.world import World

FLIP_RUNNING = "flip-running"
RESET_ORDERERS = "reset-orderers"
SUDDEN_FAULTS = (FLIP_RUNNING, RESET_ORDERERS)
_CHANCE = 0.15


def with_sudden_faults(configuration: "Configuration") -> "Configuration":
    """The same, or with one of these, or both."""
    random = Random(f"sudden faults of {configuration.seed}")
    if not configuration.faults or random.random() >= _CHANCE:
        return configuration
    kinds: list[str] = []
    if configuration.replicas > 1 and configuration.failures.action != "replace":  # as `sim.faults.replacing` says
        kinds.append(FLIP_RUNNING)
    if configuration.orderers > 1:
        kinds.append(RESET_ORDERERS)
    more = random.sample(kinds, random.randint(min(1, len(kinds)), len(kinds)))
    return replace(configuration, faults=tuple(sorted([*configuration.faults, *more])))


class SuddenFaults:
    """What befalls servers without a warning."""

    def __init__(self, world: "World", expendable: Callable[[], Host | None]) -> None:
        """`expendable` draws a replica whose data its shard can do without."""
        self._world = world
        self._random = Random(f"{world.configuration.seed} sudden")
        self._expendable = expendable
        self.kinds: dict[str, Callable[[], str | None]] = {
            FLIP_RUNNING: self._flip,
            RESET_ORDERERS: self._reset,
        }

    def _flip(self) -> str | None:
        """A bit changes on the disk of a replica, which runs and may read that any time, or never."""
        host = self._expendable()
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
        hosts = self._world.hosts.values()
        orderers = [host for host in hosts if host.place and host.place.role == "orderer" and not host.is_retired]
        chosen = orderers if self._random.random() < 0.5 else [self._random.choice(orderers)]
        count = self._world.network.reset({host.address for host in chosen}, {host.address for host in orderers})
        return f"{count} connections of {', '.join(host.name for host in chosen)}" if count else None


def damaged_place(host: Host, random: Random) -> tuple[str, int] | None:
    """A file of the host's lanes and a byte in it that says something; None when it has none."""
    files = [path for path in host.disk.files() if "/lanes/" in path and host.disk.open(path).size()]
    if not files:
        return None
    path = random.choice(files)
    data = host.disk.open(path).read(0, host.disk.open(path).size())
    return path, random.randrange(len(data.rstrip(bytes(1))) or len(data))  # not in what is held ahead
