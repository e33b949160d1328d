"""Faults of links: cut in both directions or in one, around one server or between orderers, and bad weather."""

from typing import TYPE_CHECKING

from ithaca.sim.faults.targets import FaultGroup, Targets, both_ways
from ithaca.sim.host import Host

if TYPE_CHECKING:
    from ithaca.sim.world import World


class LinkFaults(FaultGroup):
    """What does not get through."""

    def __init__(self, world: "World", targets: Targets) -> None:
        super().__init__(world, targets)
        self.kinds = {
            "isolate": self._isolate,
            "cut": self._cut,
            "one-way": self._one_way,
            "split": self._split,
            "storm": self._storm,
        }

    def _isolate(self) -> str:
        host = self._targets.server()
        others = [other for other in [*self._world.hosts.values(), *self._world.clients] if other is not host]
        self._cut_links(both_ways(host, others))
        return host.name

    def _cut(self) -> str:
        one, other = self._targets.two()
        self._cut_links([(one, other), (other, one)])
        return f"between {one.name} and {other.name}"

    def _one_way(self) -> str:
        one, other = self._targets.two()
        self._cut_links([(one, other)])
        return f"from {one.name} to {other.name}"

    def _split(self) -> str:
        """An orderer, most often the leader, is cut off from the others; clients and replicas reach all of them.

        For as long as it takes the others to elect another leader, however impatient this seed is.
        """
        orderers = self._targets.orderers()
        leaders = [host for host in orderers if self._targets.leads(host)]
        one = self._random.choice(leaders if leaders and self._random.random() < 0.7 else orderers)
        others = [host for host in orderers if host is not one]
        patience = self._world.configuration.patience
        self._cut_links(both_ways(one, others), 1.2 / patience, 4 / patience)
        return one.name

    def _cut_links(self, links: list[tuple[Host, Host]], low_s: float = 0.2, high_s: float = 25) -> None:
        self._targets.later(low_s, high_s, self._targets.cut(links))

    def _storm(self) -> str:
        weather = self._world.network.weather
        weather.loss = self._random.choice((0.05, 0.3))
        weather.straggler = 0.1

        def calm() -> None:
            weather.loss, weather.straggler = 0, self._world.configuration.straggler

        self._targets.later(0.5, 5, calm)
        return f"that loses {weather.loss:.0%}"
