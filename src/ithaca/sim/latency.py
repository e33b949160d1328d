"""Latencies on simulated machines: real servers and clients, whose network and clocks are the simulator's.

For figures that need more machines than there are, and for what the order alone costs: neither computing nor a disk
takes time here, so what is left is how often somebody waits for somebody else. The same seed gives the same figures, on
whatever machine.
"""

import asyncio
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from ithaca.model.config.slots import USUAL_SLOTS
from ithaca.model.engine import FEATURES, EngineName, Feature
from ithaca.model.errors import IthacaError, Unavailable
from ithaca.model.interface.awaited import ClusterLog
from ithaca.model.speculation import Confirmed, Delivered, Failed
from ithaca.sim.clients.connecting import connected
from ithaca.sim.configuration import Configuration, configuration_of
from ithaca.sim.engine import simulated
from ithaca.sim.process import Process
from ithaca.sim.scheduler import NS_PER_S
from ithaca.sim.world import World

START_S = 3.0
"""When the load begins: everybody is connected by then."""
WITHIN_S = 60.0
EVENTS_MAX = 50_000_000
_STAMP = struct.Struct("<d")


@dataclass(frozen=True, slots=True)
class LatencySettings:
    """`records_per_s` is of each shard, `delay_us` of a message from one machine to another."""

    shards: int = 2
    replicas: int = 2
    orderers: int = 3
    records_per_s: float = 100.0
    seconds: float = 1.0
    delay_us: int = 100
    order_interval_us: int = 0
    seed: int = 1


@dataclass(frozen=True, slots=True)
class Latencies:
    """In seconds, of each record: until it was acknowledged; in the order of the log, until it was delivered to a
    follower, and final there."""

    append_s: list[float]
    delivery_s: list[float]
    final_s: list[float]
    failed: int

    def end_to_end_s(self, compute_s: float) -> list[float]:
        """Until a result may be shown that takes so long to compute: it is there, and the record's place is final. A
        record does not wait for the task to be done with others."""
        together = zip(self.delivery_s, self.final_s, strict=True)
        return [max(final_s, delivery_s + compute_s) for delivery_s, final_s in together]


def simulate_latencies(engine: EngineName, settings: LatencySettings) -> Latencies:
    """A producer for each shard and one follower; nothing goes wrong."""
    simulated(engine)
    with World(_configuration(engine, settings)) as world:
        producers = [_Producer(world, shard, settings) for shard in range(settings.shards)]
        follower = _Follower(world, engine)
        world.have_clients([*producers, follower])
        for host in [*world.hosts.values(), *world.clients]:
            world.start(host)

        def is_done() -> bool:
            sent = sum(len(each.append_s) for each in producers)
            return all(each.is_done for each in producers) and len(follower.final_s) >= sent

        if not world.run_until(is_done, within_s=WITHIN_S, events_max=EVENTS_MAX, check=lambda name: None):
            raise Unavailable(f"{engine} had not ordered everything after {WITHIN_S:.0f} s: lower the load")
    append_s = [each for producer in producers for each in producer.append_s]
    return Latencies(append_s, follower.delivery_s, follower.final_s, follower.failed)


def _configuration(engine: EngineName, settings: LatencySettings) -> Configuration:
    """A seed's, without anything that is odd."""
    usual = configuration_of(settings.seed, engine)
    return replace(
        usual,
        orderers=settings.orderers,
        shards=settings.shards,
        replicas=settings.replicas,
        masking=False,
        faults=(),
        delay_ns=(settings.delay_us * 1000, settings.delay_us * 1000),
        straggler=0.0,
        split=0.0,
        mischief=0.0,
        compression="none",
        segment_bytes=1 << 26,
        snapshot_entries=1 << 12,
        append_entries=64,
        order_interval_us=settings.order_interval_us,
        heartbeat_ms=100,
        spares=0,
        spare_orderers=0,
        aggregators=(),
        pool=0,
        limits={},
        slots=USUAL_SLOTS,
    )


class _Client:
    """One that notes times."""

    def __init__(self, world: World, name: str) -> None:
        self.name = name
        self._world = world

    @property
    def _now_s(self) -> float:
        return self._world.scheduler.now_ns / NS_PER_S


class _Producer(_Client):
    """Appends single records to one shard, at random times."""

    def __init__(self, world: World, shard: int, settings: LatencySettings) -> None:
        super().__init__(world, f"load-{shard}")
        self._shard = shard
        self._settings = settings
        self.append_s: list[float] = []
        self.is_done = False

    async def main(self, who: Process, random: Random) -> None:
        log = await connected(self._world)
        log.set_shard_policy(lambda key, shards: self._shard)
        await _try(log)  # its session is open from here on
        due_s, end_s = START_S, START_S + self._settings.seconds
        sent: list[asyncio.Task[None]] = []
        while due_s < end_s:
            await asyncio.sleep(max(0.0, due_s - self._now_s))
            sent.append(asyncio.get_running_loop().create_task(self._append(log)))
            due_s += random.expovariate(self._settings.records_per_s)
        await asyncio.gather(*sent)
        self.is_done = True
        await asyncio.Event().wait()

    async def _append(self, log: ClusterLog) -> None:
        began_s = self._now_s
        await log.append(_STAMP.pack(began_s))
        self.append_s.append(self._now_s - began_s)


async def _try(log: ClusterLog) -> None:
    """Until lanes are open."""
    while True:
        try:
            await log.append(_STAMP.pack(-1.0))
            return
        except IthacaError:
            await asyncio.sleep(0.1)


class _Follower(_Client):
    """Speculates where that is possible, else subscribes."""

    def __init__(self, world: World, engine: EngineName) -> None:
        super().__init__(world, "follower")
        self._speculates = Feature.SPECULATION in FEATURES[engine]
        self.delivery_s: list[float] = []
        self.final_s: list[float] = []
        self.failed = 0

    async def main(self, who: Process, random: Random) -> None:
        log = await connected(self._world)
        await (self._speculate(log) if self._speculates else self._subscribe(log))

    async def _subscribe(self, log: ClusterLog) -> None:
        async with log.subscribe("earliest") as records:
            async for record in records:
                self._deliver(record.value)
                self._confirm(record.value)

    async def _speculate(self, log: ClusterLog) -> None:
        waiting: list[tuple[int, bytes]] = []
        async with log.speculate("earliest") as told:
            async for event in told:
                match event:
                    case Delivered(record, _):
                        self._deliver(record.value)
                        waiting.append((record.position, record.value))
                    case Confirmed(up_to):
                        while waiting and waiting[0][0] <= up_to:
                            self._confirm(waiting.pop(0)[1])
                    case Failed(after):
                        self.failed += 1
                        waiting = [each for each in waiting if each[0] <= after]

    def _deliver(self, value: bytes) -> None:
        _note(self.delivery_s, value, self._now_s)

    def _confirm(self, value: bytes) -> None:
        _note(self.final_s, value, self._now_s)


def _note(latencies: list[float], value: bytes, now_s: float) -> None:
    (began_s,) = _STAMP.unpack(value)
    if began_s >= 0:
        latencies.append(now_s - began_s)


def compare_latencies(
    engines: Sequence[EngineName],
    settings: LatencySettings,
    shards: Sequence[int],
    compute_ms: Sequence[float] = (),
) -> list[dict[str, Any]]:
    """Means in milliseconds of each engine, by the number of shards; end to end by how long is computed."""
    points = []
    for count in shards:
        told = {engine: simulate_latencies(engine, replace(settings, shards=count)) for engine in engines}
        points.append(
            {
                "shards": count,
                "engines": {
                    engine: {
                        "append_ms": _mean_ms(found.append_s),
                        "delivery_ms": _mean_ms(found.delivery_s),
                        "final_ms": _mean_ms(found.final_s),
                        "end_to_end_ms": {f"{each:g}": _mean_ms(found.end_to_end_s(each / 1e3)) for each in compute_ms},
                        "failed": found.failed,
                    }
                    for engine, found in told.items()
                },
            }
        )
    return points


def _mean_ms(seconds: Sequence[float]) -> float:
    return round(sum(seconds) / len(seconds) * 1e3, 3)
