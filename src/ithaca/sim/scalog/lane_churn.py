"""Many lanes: limits so small that lanes are opened, closed and packed all the time, and a replica in a crash loop.

Drawn apart from the rest of a configuration, so that the other seeds stay what they were.
"""

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from ithaca.model.limits import KIB, MIB
from ithaca.sim.host import Host
from ithaca.sim.scalog.hosts import replica_of
from ithaca.sim.scheduler import NS_PER_S

if TYPE_CHECKING:
    from ithaca.sim.configuration import Configuration
    from ithaca.sim.engine import Inject
    from ithaca.sim.world import World

CRASH_LOOP = "crash-loop"
LANE_FAULTS = (CRASH_LOOP,)
_LOOK_S = 0.05
_LOOKS_MAX = 200


def with_lane_churn(configuration: "Configuration") -> "Configuration":
    """Other limits for lanes and packs, and in some seeds the fault."""
    random = Random(f"lanes of {configuration.seed}")
    limits = {
        "LANES_OPEN_MAX": random.choice((1, 3, 128)),
        "PACK_LANES_MIN": random.choice((1, 1, 2, 16)),
        "PACK_LANE_BYTES_MAX": random.choice((2 * KIB, 4 * MIB)),
        "PACKS_MERGED": random.choice((2, 3, 8)),
        "RUNS_FILE_PAGES": random.choice((1, 4096)),
    }
    faults = list(configuration.faults)
    if faults and random.random() < 0.15:
        faults.append(CRASH_LOOP)
    return replace(configuration, limits=configuration.limits | limits, faults=tuple(sorted(faults)))


class LaneFaults:
    """The faults, by name."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._random = Random(f"{world.configuration.seed} lanes")
        self._looping: set[str] = set()
        self.kinds: dict[str, Inject] = {CRASH_LOOP: self._crash_loop}

    def _crash_loop(self) -> str | None:
        """One replica is killed again and again, each time as soon as it has joined."""
        world = self._world
        running = [host for host in world.replicas() if host.is_up and host.name not in self._looping]
        if not running:
            return None
        host = self._random.choice(running)
        self._looping.add(host.name)
        self._kill_joined(host, self._random.randint(3, 12), _LOOKS_MAX)
        return host.name

    def _kill_joined(self, host: Host, kills: int, looks: int) -> None:
        world, server = self._world, replica_of(host)
        if world.is_healing or not kills or not looks:
            self._looping.discard(host.name)
            return
        if host.is_up and server is not None and server.core.own_lane is not None:
            world.kill(host, "it crashes in a loop")
            world.count("killed in a loop")
            kills, looks = kills - 1, _LOOKS_MAX
        world.scheduler.plan(int(_LOOK_S * NS_PER_S), None, lambda: self._kill_joined(host, kills, looks - 1))
