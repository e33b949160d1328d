"""A replica loses its power before it has synced positions, and stays down until the orderers have let go of them.

So when it is back it has all records of its lanes, and learns from its peers where they are. The others order on
meanwhile only where a majority of a shard is enough. Drawn apart from the rest, so that the other seeds stay what they
were.
"""

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from ithaca.sim.host import Host
from ithaca.sim.scalog.hosts import newest_state, replica_of
from ithaca.sim.scheduler import NS_PER_S

if TYPE_CHECKING:
    from ithaca.sim.configuration import Configuration
    from ithaca.sim.engine import Inject
    from ithaca.sim.world import World

LOSE_RUNS = "lose-runs"
RUNS_FAULTS = (LOSE_RUNS,)
_CHANCE = 0.4
_LOOK_S = 0.05
_LOOKS_MAX = 200
_SELDOM = 256


def with_lost_runs(configuration: "Configuration") -> "Configuration":
    """The same, or with the fault, and with positions that are synced seldom."""
    random = Random(f"forgotten runs of {configuration.seed}")
    if not configuration.masking or not configuration.faults or random.random() >= _CHANCE:
        return configuration
    return replace(
        configuration,
        faults=tuple(sorted([*configuration.faults, LOSE_RUNS])),
        limits=configuration.limits | {"RUNS_SYNC_CUTS": _SELDOM},
    )


class RunsFaults:
    """The fault, by its name."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._random = Random(f"{world.configuration.seed} lost runs")
        self.kinds: dict[str, Inject] = {LOSE_RUNS: self._lose}

    def _lose(self) -> str | None:
        """Of a shard whose replicas all run, one that has positions in memory alone."""
        world, state = self._world, newest_state(self._world)
        candidates = []
        for shard in world.view.shards:
            hosts = world.hosts_of(shard.shard)
            if all(host.is_up for host in hosts) and len(hosts) == shard.size:
                candidates += [host for host in hosts if self._has_unsynced(host)]
        if not candidates or state is None:
            return None
        host = self._random.choice(candidates)
        host.must_restart = False
        world.lose_power(host)
        self._start_without(host, state.cut_number, _LOOKS_MAX)
        return f"{host.name} until cut {state.cut_number} is let go"

    def _has_unsynced(self, host: Host) -> bool:
        server = replica_of(host)
        return server is not None and server.core._runs.unsynced > 0

    def _start_without(self, host: Host, cut: int, looks: int) -> None:
        """Start it as soon as no orderer can tell it the positions of this cut, or when that takes too long."""
        world, state = self._world, newest_state(self._world)
        if world.is_healing:
            return
        is_gone = state is not None and state.cut_number > cut and min(state.kept, default=cut + 1) > cut
        if is_gone or not looks:
            host.must_restart = True
            world.start(host)
            return
        world.scheduler.plan(int(_LOOK_S * NS_PER_S), None, lambda: self._start_without(host, cut, looks - 1))
