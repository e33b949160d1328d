"""One run: a cluster and its clients, the strikes of a plan, then rest, a last look, and the judgement."""

import asyncio
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

import ithaca.aio
from ithaca.cluster.temporary import Shape
from ithaca.engines import registry
from ithaca.model.engine import Feature
from ithaca.model.interface.awaited import Admin, ClusterLog
from ithaca.model.quorum import majority
from ithaca.proof.history import Fault, HistoryWriter, Plan, Trim
from ithaca.torture.clients.client import TIMEOUT_S, Proof, patient
from ithaca.torture.clients.consumers import EVERYTHING
from ithaca.torture.cluster_under_test import POLL_S, ClusterUnderTest, server_names
from ithaca.torture.crowd import PRODUCING, READING, Cast, Crowd
from ithaca.torture.disks import LoopDisk
from ithaca.torture.faults.catalogue import INJECTORS
from ithaca.torture.faults.injectors import NotFired, Scene
from ithaca.torture.people import CONSUMING, KNOWN_S, enlisted
from ithaca.torture.plan import Strike, make_plan, rounds_of, targets_of
from ithaca.torture.proxy import Network
from ithaca.torture.sightings import range_of, seen

TRIM_AFTER = 0.7
"""When the log is trimmed, as a part of the plan's time."""
TRIM_SHARE = 0.3
"""The part of the log that is trimmed then."""
OK_PER_S = 2.0
"""Appends that must succeed per second of the plan, for the run to prove something."""

Tell = Callable[[str], object]
"""To be told, in a few words, what happens."""
Progress = Callable[[float, int], object]
"""To be told the seconds of the plan that have passed, and the records that were acknowledged."""


@dataclass(frozen=True, slots=True)
class Options:
    """What a run shall be like."""

    seconds: float
    seed: int
    faults: tuple[str, ...]
    shape: Shape = field(default_factory=lambda: Shape(shards=2))
    cast: Cast = field(default_factory=Cast)

    def plan(self) -> list[Strike]:
        shape = self.shape
        targets = targets_of(
            orderers=shape.orderers,
            shards=shape.shards,
            replicas=shape.replicas,
            f=shape.f,
            producers=[name for name in self.cast.names() if name.startswith("producer-")],
            consumers=self.cast.consuming(),
        )
        return make_plan(self.seed, self.seconds, [INJECTORS[name].fault for name in self.faults], targets)

    @property
    def needs_disks(self) -> bool:
        return any(INJECTORS[name].needs_disks for name in self.faults)


class Run:
    """Everything between an empty directory and a cluster that has stopped, with its history beside it."""

    def __init__(self, home: Path, options: Options, tell: Tell, progress: Progress) -> None:
        self._options = options
        self._tell = tell
        self._progress = progress
        self.plan = options.plan()
        self.engine = options.shape.engine
        self.fired: Counter[str] = Counter()
        spares = sum(INJECTORS[strike.fault].spares(options.shape) for strike in self.plan)
        shape = replace(options.shape, spares=spares)
        names = server_names(shape)
        self.disks = {name: LoopDisk(home / "data" / name) for name in names} if options.needs_disks else {}
        data = {name: self.disks[name].server if self.disks else home / "data" / name for name in names}
        self.cluster = ClusterUnderTest(home / "cluster", shape, data)
        self._members: list[str] = []
        self.crowd = Crowd(home / "clients", self.cluster.bootstrap, options.seed, options.cast)
        self._network = Network(options.seed)
        self._history = home / "run.jsonl"
        self._begun_s = 0.0

    def histories(self, *, ended_early: bool) -> list[Path]:
        """What the run and its clients have written."""
        return [self._history, *self.crowd.histories(with_calls=ended_early)]

    @property
    def replicas(self) -> dict[str, Path]:
        """Where each replica that the cluster has at the end keeps its data."""
        return {name: self.cluster.data[name] for name in self._members}

    async def go(self) -> None:
        """Start, strike, rest, look, stop. No process is left, whatever happens."""
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        async with AsyncExitStack() as stack:
            writer = stack.enter_context(HistoryWriter(self._history))
            writer.write(self._promised())
            stack.push_async_callback(self.cluster.kill)
            stack.push_async_callback(self._network.close)
            await self._start()
            stack.callback(self.crowd.close)
            self.crowd.start(await self._people())
            await self.crowd.begun()
            trimming = asyncio.create_task(self._trim(writer))
            stack.push_async_callback(_cancelled, trimming)
            await self._strike_all(writer)
            await self._rest(writer, trimming)
            await self.cluster.stop()

    def _promised(self) -> Plan:
        faults = dict(Counter(strike.fault for strike in self.plan))
        shape = self._options.shape
        copies = shape.f + 1 if shape.shards else majority(shape.orderers)
        is_dense = Feature.DENSE in registry.engine(self.engine).features
        return Plan(copies, int(OK_PER_S * self._options.seconds), faults, dense=is_dense)

    async def _start(self) -> None:
        self._tell(f"starting {len(self.cluster.places)} servers")
        self.cluster.make()
        await self._network.start(self.cluster.routes)
        self.cluster.start()
        await self.cluster.healed()

    async def _people(self) -> Mapping[str, Proof]:
        """How each client proves who it is; in a cluster without users nobody does."""
        if not self._options.shape.users:
            return {}
        async with self._connected() as log:
            names = self._options.cast.names()
            proofs = await enlisted(log.admin, self.cluster.directory, self.cluster.file, names)
        await asyncio.sleep(KNOWN_S)
        return proofs

    # Strikes

    async def _strike_all(self, writer: HistoryWriter) -> None:
        scene = Scene(self.cluster, self._network, self.disks, self.crowd)
        self._begun_s = time.monotonic()
        for together in rounds_of(self.plan):
            first_s = together[0].at_s
            await self._wait_until(first_s)
            await self.cluster.healed()
            strikes = [self._strike(scene, strike, strike.at_s - first_s, writer) for strike in together]
            for outcome in await asyncio.gather(*strikes, return_exceptions=True):
                if isinstance(outcome, BaseException):
                    raise outcome
        await self._wait_until(self._options.seconds)

    async def _strike(self, scene: Scene, strike: Strike, after_s: float, writer: HistoryWriter) -> None:
        await asyncio.sleep(after_s)
        before = self.fired[strike.fault]

        def struck(what: str) -> None:
            writer.write(Fault(time.monotonic_ns(), f"{strike.fault} {what}"))
            writer.flush()
            self.fired[strike.fault] += 1
            self._tell(f"{time.monotonic() - self._begun_s:6.1f} s  {strike.fault} {what}")

        try:
            await INJECTORS[strike.fault]().strike(scene, strike, struck)
        except TimeoutError as error:
            raise NotFired(f"{strike}: {error}") from None
        if self.fired[strike.fault] == before:
            raise NotFired(f"{strike}: nothing was struck")

    async def _wait_until(self, at_s: float) -> None:
        while (left_s := self._begun_s + at_s - time.monotonic()) > 0:
            self.crowd.check()
            self._progress(self._options.seconds - max(0.0, left_s), self.crowd.acknowledged)
            await asyncio.sleep(min(left_s, POLL_S))

    # The log as a whole

    async def _trim(self, writer: HistoryWriter) -> None:
        """Late in the run, give up what is oldest."""
        await asyncio.sleep(TRIM_AFTER * self._options.seconds)
        async with self._connected() as log:
            before = min(await patient(lambda: self._oldest(log)), await patient(lambda: self._consumed(log)))
            invoked = time.monotonic_ns()
            writer.write(Trim(invoked, None, before))
            await patient(lambda: log.trim(before))
            # A replica that is cut off just now hears of it later, and answers reads of single positions until then.
            writer.write(Trim(invoked, time.monotonic_ns(), before, seen=False))
            self._tell(f"{time.monotonic() - self._begun_s:6.1f} s  trimmed before {before}")

    async def _oldest(self, log: ClusterLog) -> int:
        """Where what is to be given up ends: a share of the records, which need not be at every position."""
        if Feature.DENSE in registry.engine(self.engine).features:
            return max(1, int(TRIM_SHARE * await log.tail()))
        left = int(TRIM_SHARE * self.crowd.acknowledged)
        async with log.read_range("earliest") as records:
            async for batch in records.batches():
                left -= len(batch)
                if left <= 0:
                    break
            return records.position

    async def _consumed(self, log: ClusterLog) -> int:
        """Everything below was committed by all consumers: who is behind what is trimmed would have to be reset."""
        return min((position for each in await log.consumers() for position in each.positions), default=EVERYTHING)

    async def _rest(self, writer: HistoryWriter, trimming: "asyncio.Task[None]") -> None:
        """Let everybody finish, and read everything once more."""
        self._tell("the plan is done; waiting until everything is well and everybody has finished")
        await self.cluster.healed()
        await self.crowd.finish(PRODUCING)
        await trimming
        async with self._connected() as log:
            await self.crowd.finish(CONSUMING, await log.tail())
            tail = await log.tail()  # they may have written
            self._members = [self.cluster.name_of(each) for each in await self._storing(log.admin)]
            await self.crowd.finish(READING, tail)
            await self._look(log, tail, writer)
        await self.cluster.healed()

    async def _storing(self, admin: Admin) -> list[str]:
        """Where the servers are that keep records: replicas or, where there are no shards, the orderers."""
        if not self._options.shape.shards:
            return [each.address for each in await admin.orderers()]
        engine = registry.engine(self.engine)
        if Feature.SHARDS not in engine.features:
            places = await engine.places(
                [place.address for place in self.cluster.file.orderers], self.cluster.file.client_tls
            )
            return [str(place.address) for place in places if place.role == "replica"]
        return [each.address for shard in await admin.shards() for each in shard.replicas]

    async def _look(self, log: ClusterLog, tail: int, writer: HistoryWriter) -> None:
        first = await log.first()
        self._tell(f"reading positions {first} to {tail - 1}")
        invoked, found = time.monotonic_ns(), []
        async with log.read_range(first, tail) as records:
            async for batch in records.batches():
                found += [seen(record) for record in batch.records()]
        writer.write(range_of(invoked, first, tail, None, found))

    def _connected(self) -> AbstractAsyncContextManager[ClusterLog]:
        return ithaca.aio.connect(self.cluster.bootstrap, timeout=TIMEOUT_S)


async def _cancelled(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.wait([task])
