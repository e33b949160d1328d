"""Faults of the network: partitions, links that are slow or lose bytes, connections that break."""

import asyncio
from typing import ClassVar

from ithaca.torture.faults.injectors import Injector, NotFired, Scene, Struck
from ithaca.torture.plan import Fault, Strike
from ithaca.torture.proxy import CLIENTS, Way

EFFECT_S = 15.0
"""A link fault that nobody has noticed for so long has no effect."""


class _LinkFault(Injector):
    """Something is wrong with some ways for a while."""

    by_party: ClassVar[bool] = True

    async def strike(self, scene: Scene, strike: Strike, struck: Struck) -> None:
        names = await scene.servers(strike)
        ways = self.ways(scene, names, strike.variant)
        before = sum(way.affected for way in ways)
        try:
            for way in ways:
                self.spoil(way)
            await scene.cluster.until(
                lambda: sum(way.affected for way in ways) > before, "bytes come over a spoilt link", EFFECT_S
            )
            struck(" ".join([strike.variant, *names]).strip())
            await asyncio.sleep(strike.duration_s)
        finally:
            for way in ways:
                way.mend()

    def ways(self, scene: Scene, names: list[str], variant: str) -> list[Way]:
        """Both directions between the named servers and everybody else."""
        others = parties(scene, without=names)
        return scene.network.ways(names, others) + scene.network.ways(others, names)

    def spoil(self, way: Way) -> None:
        way.cut()


class Partition(_LinkFault):
    """Servers are cut off from everybody, from all other servers, or only from those of their own group.

    Where servers do not speak to each other, as units of the engine corfu do not, they are cut off from more.
    """

    fault: ClassVar[Fault] = Fault("partition", "server", (1.0, 6.0), variants=("full", "servers", "group"))

    def ways(self, scene: Scene, names: list[str], variant: str) -> list[Way]:
        everybody = parties(scene, without=names)
        servers = [name for name in everybody if name != CLIENTS]
        group = _group(names[0])
        peers = [name for name in servers if _group(name) == group] if group else []
        wider = {"group": (peers, servers, everybody), "servers": (servers, everybody), "full": (everybody,)}
        for others in wider[variant]:
            ways = scene.network.ways(names, others) + scene.network.ways(others, names)
            if any(way.in_use() for way in ways):
                break
        return ways


class OneWay(_LinkFault):
    """What servers say is not heard, or they hear nothing."""

    fault: ClassVar[Fault] = Fault("oneway", "server", (1.0, 6.0), variants=("mute", "deaf"))

    def ways(self, scene: Scene, names: list[str], variant: str) -> list[Way]:
        others = parties(scene, without=names)
        return scene.network.ways(names, others) if variant == "mute" else scene.network.ways(others, names)


class Slow(_LinkFault):
    """Links with delays and little throughput."""

    fault: ClassVar[Fault] = Fault("slow", "server", (2.0, 6.0))

    def spoil(self, way: Way) -> None:
        way.slow((0.01, 0.1), bytes_per_s=2e6)


class Loss(_LinkFault):
    """Links that lose 5 to 30 % of what is sent, which comes later then."""

    fault: ClassVar[Fault] = Fault("loss", "server", (2.0, 6.0), variants=("5%", "15%", "30%"))

    def ways(self, scene: Scene, names: list[str], variant: str) -> list[Way]:
        self._loss = int(variant.removesuffix("%")) / 100
        return super().ways(scene, names, variant)

    def spoil(self, way: Way) -> None:
        way.slow((0.0, 0.002), loss=self._loss)


class Reset(Injector):
    """Every connection of a server breaks, several times."""

    fault: ClassVar[Fault] = Fault("reset", "server", (1.0, 3.0), recovery_s=1.0)

    async def strike(self, scene: Scene, strike: Strike, struck: Struck) -> None:
        names = await scene.servers(strike)
        broken = 0
        for _ in range(3):
            broken += sum(map(scene.network.reset, names))
            await asyncio.sleep(strike.duration_s / 3)
        if not broken:
            raise NotFired(f"{', '.join(names)} had no connection")
        struck(f"{' '.join(names)}: {broken} connections")


def parties(scene: Scene, *, without: list[str]) -> list[str]:
    """Everybody who speaks over the network, but for some."""
    return [name for name in (*scene.cluster.places, CLIENTS) if name not in without]


def _group(name: str) -> str:
    """The servers that replace each other have this in common; nothing for spares, whatever they have become."""
    return "orderers" if name.startswith("orderer") else name.rpartition("-replica-")[0]
