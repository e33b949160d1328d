"""A primary that orderers do not reach, or so many replicas of a shard that stand still that its lane fails.

What speculators are given by a primary that only the orderers do not reach is not ordered: it is ordered in its places
by a takeover, or fails, as its shard is. Nothing is lost with it: all replicas come back with their disks. It is long
enough for the leader to give a lane up, which other disturbances are not. Drawn apart from the rest, so that the other
seeds stay what they were.
"""

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from ithaca.model.config.failures import FailurePolicy
from ithaca.sim.scheduler import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from ithaca.model.view import Shard
    from ithaca.sim.configuration import Configuration
    from ithaca.sim.engine import Inject
    from ithaca.sim.host import Host
    from ithaca.sim.world import World

LOSE_LANE = "lose-lane"
LOST_LANE_FAULTS = (LOSE_LANE,)
_CHANCE = 0.25
_DETECTION_MS = (300, 300, 500)
_LONGER_S = (0.2, 1.5)
"""Silence is noticed after the time of detection, and answered after as much again; it lasts so much longer."""


def with_lost_lanes(drawn: "Configuration") -> "Configuration":
    """The same or, where nobody answers silence otherwise, with the fault, few others, and lanes that soon fail."""
    random = Random(f"lost lanes of {drawn.seed}")
    if not drawn.faults or drawn.failures.action != "none" or random.random() >= _CHANCE:
        return drawn
    others = random.sample(drawn.faults, random.randint(0, 1))
    return replace(
        drawn,
        faults=tuple(sorted([*others, LOSE_LANE])),
        failures=FailurePolicy("none", random.choice(_DETECTION_MS)),
        slots=replace(drawn.slots, mode="fixed"),
        # It takes seconds, of which a busy world has few.
        fault_every_s=0.3,
        shards=min(2, drawn.shards),
        producers=2,
        readers=1,
        pause_between_appends_s=0.05,
        publishers=min(1, drawn.publishers),
        claimants=0,
        session_churners=0,
        drivers=0,
        edge_readers=0,
        flood=0,
    )


class LostLanes:
    """The fault, by its name."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._random = Random(f"{world.configuration.seed} lost lanes")
        self._detection_s = world.configuration.failures.detection_ms / 1000
        self._is_over = True
        self.kinds: dict[str, Inject] = {LOSE_LANE: self._lose}

    def _lose(self) -> str | None:
        """Befall a shard whose replicas all run, one at a time."""
        world = self._world
        whole = [
            (shard, hosts)
            for shard in world.view.shards
            if shard.open_lanes() and len(hosts := world.hosts_of(shard.shard)) == shard.size and all(map(_runs, hosts))
        ]
        if not whole or not self._is_over:
            return None
        self._is_over = False
        shard, hosts = self._random.choice(whole)
        return self._cut_off(shard, hosts) if self._random.random() < 3 / 4 else self._pause(shard, hosts)

    def _pause(self, shard: "Shard", hosts: "list[Host]") -> str:
        """As many replicas stand still that too few are left."""
        for_s = 2 * self._detection_s + self._random.uniform(*_LONGER_S)
        chosen = self._random.sample(hosts, len(hosts) - shard.copies + 1)
        processes = [host.process for host in chosen if host.process is not None]
        for process in processes:
            process.is_paused = True

        def resume() -> None:
            for process in processes:
                if process.is_paused:
                    self._world.scheduler.resume(process)

        self._mend_after(for_s, resume)
        return f"{', '.join(host.name for host in chosen)} stand still for {for_s:.1f} s"

    def _cut_off(self, shard: "Shard", hosts: "list[Host]") -> str:
        """Orderers and a primary do not hear of each other, while its followers do. Perhaps one of these lags, and
        perhaps one is killed, which comes back with what its disk says."""
        world, random = self._world, self._random
        replica = shard.find(shard.open_lanes()[0].replica)
        assert replica is not None, "whoever has an open lane is of the shard"
        (primary,) = [host for host in hosts if host.address == replica.address.host]
        others = [host for host in hosts if host is not primary]
        random.shuffle(others)
        apart = [host for host in world.hosts.values() if host.place is not None and host.place.role == "orderer"]
        lagging = others[-1:] if len(others) > 1 and random.random() < 2 / 3 else []
        links = [(primary.address, host.address) for host in [*apart, *lagging]]
        for link in links:
            world.network.cut(*link)
            world.network.cut(*reversed(link))
        if others and random.random() < 0.5:
            killed = random.choice(others)
            self._after(random.uniform(0, 0.5), lambda: world.kill(killed, "its primary is cut off from the orderers"))

        def heal() -> None:
            for link in links:
                world.network.heal(*link)
                world.network.heal(*reversed(link))

        detection_s = self._detection_s
        middle_s, long_s = random.uniform(detection_s, 2 * detection_s), 2 * detection_s + random.uniform(*_LONGER_S)
        for_s = random.choice((random.uniform(0.1, detection_s), middle_s, long_s, long_s))
        self._mend_after(for_s, heal)
        return f"{primary.name}, which orderers do not reach for {for_s:.1f} s"

    def _mend_after(self, delay_s: float, mend: "Callable[[], None]") -> None:
        def over() -> None:
            self._is_over = True
            mend()

        self._after(delay_s, over)

    def _after(self, delay_s: float, act: "Callable[[], None]") -> None:
        world = self._world
        world.scheduler.plan(int(delay_s * NS_PER_S), None, lambda: None if world.is_healing else act())


def _runs(host: "Host") -> bool:
    return host.process is not None and not host.process.is_paused
