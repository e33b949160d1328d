"""Whom a fault may befall, drawn from the one random source of all faults; and how to mend something later.

What destroys data befalls only those whose shard can do without it.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from ithaca.sim.host import Host
from ithaca.sim.scheduler import NS_PER_S

if TYPE_CHECKING:
    from ithaca.sim.engine import Inject
    from ithaca.sim.world import World


class Targets:
    """Draws servers and links."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._random = world.random

    def after(self, delay_s: float, act: Callable[[], object]) -> None:
        self._world.scheduler.plan(int(delay_s * NS_PER_S), None, act)

    def later(self, low_s: float, high_s: float, act: Callable[[], object]) -> None:
        """Mend something later, unless all was mended before."""
        delay_s = self._random.uniform(low_s, high_s) * self._world.configuration.patience
        self.after(delay_s, lambda: None if self._world.is_healing else act())

    def cut(self, links: Iterable[tuple[Host, Host]]) -> Callable[[], None]:
        """Cut links, each in one direction; returns what heals them."""
        network = self._world.network
        pairs = [(one.address, other.address) for one, other in links]
        for pair in pairs:
            network.cut(*pair)

        def heal() -> None:
            for pair in pairs:
                network.heal(*pair)

        return heal

    def focused(self) -> list[Host]:
        """The servers that this seed has an eye on."""
        hosts, focus = list(self._world.hosts.values()), self._world.configuration.focus
        if focus == "everybody":
            return hosts
        if focus == "replicas":
            return [host for host in hosts if host.is_storage]
        return [host for host in hosts if host.place and f"{host.place.role}s" == focus]

    def server(self) -> Host:
        return self._random.choice(self.focused())

    def running(self) -> Host | None:
        running = [host for host in self.focused() if host.is_up]
        return self._random.choice(running) if running else None

    def two(self) -> tuple[Host, Host]:
        """Two ends of a link."""
        focused = self.focused()
        everybody = [*self._world.hosts.values(), *self._world.clients]
        one = self._random.choice(focused)
        others = focused if len(focused) > 1 and self._random.random() < 0.5 else everybody
        return one, self._random.choice([host for host in others if host is not one])

    def expendable(self) -> Host | None:
        """A replica whose data its shard can do without."""
        world = self._world
        candidates = []
        for shard in world.view.shards:
            hosts = world.hosts_of(shard.shard)
            broken = [host for host in hosts if is_destroyed(host)]
            for host in hosts:
                host.is_broken = host in broken
            gone = len(broken) + max(0, shard.size - len(hosts)) + world.administrator.is_replacing(shard.shard)
            if gone < shard.f:
                candidates += [host for host in hosts if host not in broken]
        return self._random.choice(candidates) if candidates else None

    def orderers(self) -> list[Host]:
        """Those included that were removed."""
        return [host for host in self._world.hosts.values() if host.place and host.place.role == "orderer"]

    def leads(self, host: Host) -> bool:
        """Whether this is an orderer that leads, or takes itself for the leader."""
        raft = self._world.simulation.raft_of(host)
        return raft is not None and raft.is_leader


class FaultGroup:
    """Faults that have something in common."""

    kinds: "dict[str, Inject]"
    """By the names that a configuration has for them."""

    def __init__(self, world: "World", targets: Targets) -> None:
        self._world = world
        self._random = world.random
        self._targets = targets


def is_destroyed(host: Host) -> bool:
    """Whether a replica's data is gone or damaged, or may be so by the time that this is known."""
    return (
        host.was_flipped  # it may not have met the damage yet
        or host.disk.will_fail_sync
        or host.sync_failed_ns is not None  # it ends soon
        or (host.is_broken and not host.world.simulation.is_complete(host))
    )


def both_ways(one: Host, others: list[Host]) -> list[tuple[Host, Host]]:
    """The links between one host and each of the others."""
    return [(one, other) for other in others] + [(other, one) for other in others]
