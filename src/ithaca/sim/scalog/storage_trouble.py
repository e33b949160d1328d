"""What befalls storage servers for long, or with a restart: a disk that takes nothing, or takes it slowly, while the
others order on, a server that is started under another name of its address, and a spare that is to learn for nobody.

Drawn apart from the rest of a configuration, so that the other seeds stay what they were.
"""

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from ithaca.sim.clients.administrator import Replacement
from ithaca.sim.faults.disks import set_slow
from ithaca.sim.host import Host
from ithaca.sim.scalog.hosts import newest_state, replica_of
from ithaca.sim.scheduler import NS_PER_S

if TYPE_CHECKING:
    from ithaca.sim.configuration import Configuration
    from ithaca.sim.engine import Inject
    from ithaca.sim.world import World

FILL = "fill-disk"
RENAME = "rename"
SLOW_POSITIONS = "slow-positions"
ASK_IN_VAIN = "ask-in-vain"
STORAGE_FAULTS = (FILL, RENAME, SLOW_POSITIONS, ASK_IN_VAIN)
_LOOK_S = 0.1
_FULL_S_MAX = 20.0
_MANY = 1000
_SLOW_CHANCE = 0.2
_SLOW_NS = 200_000_000
_SLOW_S = (1, 4)
_VAIN_CHANCE = 0.3
_PATIENCE_S = 0.001


def with_storage_trouble(configuration: "Configuration") -> "Configuration":
    """The same, or with these faults, and with little room for what waits to be synced."""
    random = Random(f"storage trouble of {configuration.seed}")
    limits, faults = dict(configuration.limits), list(configuration.faults)
    if random.random() < 0.3:
        limits["RUNS_UNSYNCED_MAX"] = random.choice((2, 5, 20))
    if faults and random.random() < (0.7 if configuration.masking else 0.05):
        faults.append(FILL)
    if configuration.pool:
        limits["LEARNER_UNASKED_S"] = random.choice((4, 20))
        limits["COPIES_QUARANTINED_MAX"] = _MANY  # nobody is there to delete any
        if random.random() < 0.6:
            faults.append(RENAME)
    return replace(configuration, limits=limits, faults=tuple(sorted(faults)))


def with_slow_positions(configuration: "Configuration") -> "Configuration":
    """The same, or with nothing but disks that are slow while others mask it, and positions that are written with every
    cut: other faults would have the slow ones come seldom, and the order stand still.
    """
    random = Random(f"slow positions of {configuration.seed}")
    if not configuration.masking or not configuration.faults or random.random() >= _SLOW_CHANCE:
        return configuration
    limits = configuration.limits | {"RUNS_UNSYNCED_MAX": random.choice((2, 5)), "RUNS_SYNC_CUTS": 1}
    return replace(configuration, limits=limits, faults=(SLOW_POSITIONS,))


def with_vain_questions(configuration: "Configuration") -> "Configuration":
    """The same, or with spares that are asked for and not needed."""
    random = Random(f"vain questions of {configuration.seed}")
    if not configuration.pool or not configuration.faults or random.random() >= _VAIN_CHANCE:
        return configuration
    return replace(configuration, faults=tuple(sorted({*configuration.faults, ASK_IN_VAIN})))


class StorageTrouble:
    """The faults, by name."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._random = Random(f"{world.configuration.seed} storage trouble")
        self.kinds: dict[str, Inject] = {
            FILL: self._fill,
            RENAME: self._rename,
            SLOW_POSITIONS: self._slow,
            ASK_IN_VAIN: self._ask,
        }

    def _fill(self) -> str | None:
        """A disk takes nothing more until many cuts have come: where the others mask it, they go on ordering."""
        running = [host for host in self._world.replicas() if host.is_up and host.disk.capacity_bytes is None]
        if not running:
            return None
        host = self._random.choice(running)
        disk, until = host.disk, self._cut() + self._random.randint(20, 200)
        disk.capacity_bytes = disk.used_bytes
        left = int(_FULL_S_MAX / _LOOK_S)

        def look() -> None:
            nonlocal left
            left -= 1
            if self._cut() >= until or not left:
                disk.capacity_bytes = None
            elif not self._world.is_healing:
                self._after(_LOOK_S, look)

        self._after(_LOOK_S, look)
        return f"{host.name} until cut {until}"

    def _rename(self) -> str | None:
        """A replica that was a spare is started under another name of the address that it enlisted as."""
        hosts = self._nameable()
        if not hosts:
            return None
        host = self._random.choice(hosts)
        self._call(host)
        return f"{host.name} to {host.called}"

    def _slow(self) -> str | None:
        """A disk is slow while the other replicas order on: positions come faster than it takes them."""
        running = [host for host in self._world.replicas() if host.is_up and not host.slow_ns]
        if not running:
            return None
        host = self._random.choice(running)
        set_slow(host, _SLOW_NS)
        self._after(self._random.uniform(*_SLOW_S), lambda: set_slow(host, 0))
        return host.name

    def _ask(self) -> str | None:
        """Somebody has a spare learn a shard that is complete, and does not ask again."""
        administrator = self._world.administrator
        spares = [host for host in self._world.hosts.values() if host.place and host.place.role == "spare"]
        members = {each.address.host for shard in self._world.view.shards for each in shard.replicas}
        free = [host for host in spares if host.address not in members and not administrator.has_used(host.name)]
        shards = [shard for shard in self._world.view.shards if len(shard.replicas) == shard.size]
        if not free or not shards:
            return None
        shard, spare = self._random.choice(shards), self._random.choice(free)
        administrator.replace(Replacement(shard.shard, shard.replicas[0].replica, spare, patience_s=_PATIENCE_S))
        return f"{spare.name} for shard {shard.shard}"

    def heal(self) -> None:
        """Where names change, every replica that was a spare has another one in the end."""
        if RENAME in self._world.configuration.faults:
            for host in self._nameable():
                self._call(host)

    def _nameable(self) -> list[Host]:
        """Others could be spares again, and would enlist under a name that nobody here asks for."""
        spares = [host for host in self._world.replicas() if host.is_up and host.place and host.place.role == "spare"]
        return [host for host in spares if (server := replica_of(host)) is not None and server._identity.was_added]

    def _call(self, host: Host) -> None:
        host.called = self._world.network.name_of(host.address) if host.called == host.address else host.address
        self._world.kill(host, f"it is to be called {host.called}")

    def _cut(self) -> int:
        """The newest that an orderer has applied."""
        state = newest_state(self._world)
        return 0 if state is None else state.cut_number

    def _after(self, delay_s: float, act: Callable[[], object]) -> None:
        self._world.scheduler.plan(int(delay_s * NS_PER_S), None, act)


def are_waiting(world: "World") -> bool:
    """Whether every spare that no shard has waits to be somebody, but for those that were somebody before."""
    members = world.replicas()
    for host in world.hosts.values():
        if host.place is None or host.place.role != "spare" or host in members:
            continue
        server = replica_of(host)
        if not host.is_up or (server is not None and server.core.state not in ("removed", "reclaimed")):
            return False
    return True
