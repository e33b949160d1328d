"""So many replicas of a shard stand still that its lane fails, while others append, and speculators listen.

Nothing is lost with it: the replicas come back with their disks. It is long enough for the leader to give the lane up,
which short disturbances are not. Drawn apart from the rest, so that the other seeds stay what they were.
"""

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from ithaca.model.config.failures import FailurePolicy
from ithaca.sim.scheduler import NS_PER_S

if TYPE_CHECKING:
    from ithaca.sim.configuration import Configuration
    from ithaca.sim.engine import Inject
    from ithaca.sim.process import Process
    from ithaca.sim.world import World

LOSE_LANE = "lose-lane"
LOST_LANE_FAULTS = (LOSE_LANE,)
_CHANCE = 0.25
_DETECTION_MS = (300, 1000)
_LONGER_S = (0.2, 3.0)
"""Silence is noticed after the time of detection, and answered after as much again; it lasts so much longer."""


def with_lost_lanes(drawn: "Configuration") -> "Configuration":
    """The same or, where nobody answers silence otherwise, with the fault, and with lanes that soon fail."""
    random = Random(f"lost lanes of {drawn.seed}")
    if not drawn.faults or drawn.failures.action != "none" or random.random() >= _CHANCE:
        return drawn
    return replace(
        drawn,
        faults=tuple(sorted([*drawn.faults, LOSE_LANE])),
        failures=FailurePolicy("none", random.choice(_DETECTION_MS)),
        slots=replace(drawn.slots, mode="fixed"),
    )


class LostLanes:
    """The fault, by its name."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._random = Random(f"{world.configuration.seed} lost lanes")
        self.kinds: dict[str, Inject] = {LOSE_LANE: self._lose}

    def _lose(self) -> str | None:
        """Of a shard whose replicas all run as many that too few are left."""
        world = self._world
        shards = [(shard, world.hosts_of(shard.shard)) for shard in world.view.shards if shard.open_lanes()]
        whole = [
            (shard, hosts)
            for shard, hosts in shards
            if len(hosts) == shard.size and all(host.process and not host.process.is_paused for host in hosts)
        ]
        if not whole:
            return None
        shard, hosts = self._random.choice(whole)
        detection_s = world.configuration.failures.detection_ms / 1000
        for_s = 2 * detection_s + self._random.uniform(*_LONGER_S)
        chosen = self._random.sample(hosts, len(hosts) - shard.copies + 1)
        for host in chosen:
            assert host.process is not None
            self._pause(host.process, for_s)
        return f"{', '.join(host.name for host in chosen)} for {for_s:.1f} s"

    def _pause(self, process: "Process", for_s: float) -> None:
        process.is_paused = True

        def resume() -> None:
            if process.is_paused:
                self._world.scheduler.resume(process)

        self._world.scheduler.plan(int(for_s * NS_PER_S), None, resume)
