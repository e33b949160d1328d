"""An emulator: a process that is the replicas of many shards, each with its own connection or several with one, to the
leader or to the aggregators that it would assign.

It opens the lanes and joins when it is told to, then lets them grow in turns. In a turn a replica reports when its
last report was covered by a cut or, with a report interval, that often; and it repeats what no cut has covered for a
while, as real ones do every `limits.REPORT_INTERVAL_S`.
"""

import asyncio
import resource
import time
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, TypeVar

import uvloop

from ithaca.bench.emulation.links import Link, dial_link
from ithaca.bench.emulation.plan import Counted, Mark, Turn, Upwards
from ithaca.bench.emulation.shards import BOOT, Durations, EmulatedReplica, EmulatedShard
from ithaca.engines.emulation import EmulatedJoin
from ithaca.model.errors import IthacaError, ProtocolError, Unavailable
from ithaca.model.view import Address
from ithaca.protocol.codec import Message

JOINED_TOGETHER = 64
"""Joins under way at once."""
OPENED_IN = 3
"""How often a replica asks for its lane at the most: the second time its peer has joined."""
REPEAT_CHECK_S = 0.005
"""How often reports are looked for that no cut has covered."""
DRAIN_TIMEOUT_S = 60.0
"""How long the order may take for the last report of a turn."""
GROWTH_WAIT_S_MIN = 0.001

S = TypeVar("S")
T = TypeVar("T")


def emulate(parent: Connection, upwards: Upwards, shards: Sequence[int], replicas_per_connection: int) -> None:
    """The process of one emulator, until the parent is gone."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    uvloop.run(_Emulator(parent, upwards, shards, replicas_per_connection).run())


class _Emulator:
    def __init__(
        self, parent: Connection, upwards: Upwards, shards: Sequence[int], replicas_per_connection: int
    ) -> None:
        self._parent = parent
        self._emulation = upwards.emulation
        self._replicas_per_connection = replicas_per_connection
        self._shards = [EmulatedShard(shard) for shard in shards]
        self._replicas = [replica for shard in self._shards for replica in shard.replicas]
        self._below: dict[Address, list[EmulatedReplica]] = {}
        """Who reports to whom."""
        for replica in self._replicas:
            self._below.setdefault(upwards.of(replica.shard.shard), []).append(replica)
        self._links: list[Link] = []
        self._link_of: dict[EmulatedReplica, Link] = {}
        self._sent: deque[tuple[float, EmulatedReplica]] = deque()
        """Who has reported when, of late."""
        self._turn = Turn(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
        self._unfinished: set[EmulatedReplica] = set()
        self._finished = asyncio.Event()
        self._failure: asyncio.Future[None] | None = None
        self._durations = Durations()
        self._reports = 0
        self._is_counting = False
        self._cut = self._tail = 0

    async def run(self) -> None:
        self._failure = asyncio.get_running_loop().create_future()
        try:
            await self._or_failure(self._open_lanes())
            self._parent.send("opened")
            assert await self._heard() == "join"
            await self._or_failure(self._join_all())
            self._parent.send("joined")
            while True:
                turn = await self._heard()
                assert isinstance(turn, Turn)
                self._parent.send(await self._or_failure(self._run_turn(turn)))
        finally:
            for link in self._links:
                link.close()

    async def _heard(self) -> object:
        """What the parent says next; `EOFError` when it is gone."""
        loop = asyncio.get_running_loop()
        readable = asyncio.Event()
        loop.add_reader(self._parent.fileno(), readable.set)
        try:
            await self._or_failure(readable.wait())
        finally:
            loop.remove_reader(self._parent.fileno())
        return self._parent.recv()

    async def _or_failure(self, work: Coroutine[object, object, T]) -> T:
        """The result of the work, unless a link fails meanwhile."""
        assert self._failure is not None
        task = asyncio.ensure_future(work)
        waited: set[asyncio.Future[Any]] = {task, self._failure}
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        task.cancel()
        self._failure.result()
        raise AssertionError("a failure says what failed")

    def _failed(self, error: IthacaError) -> None:
        assert self._failure is not None
        if not self._failure.done():
            self._failure.set_exception(error)

    # Joining

    async def _open_lanes(self) -> None:
        """Open every lane, over as few links as can be: that is news for everybody who has joined."""
        for address, replicas in self._below.items():
            link = await dial_link(address, lambda message: None, self._failed)
            try:
                await self._open_through(link, replicas)
            finally:
                link.close()

    async def _open_through(self, link: Link, replicas: Sequence[EmulatedReplica]) -> None:
        """While other shards can order already, whoever joins before its peer gets no lane yet, and asks once more."""
        for _ in range(OPENED_IN):
            answers = await _in_parts(partial(self._ask_join, link), replicas)
            replicas = [each for each, joined in zip(replicas, answers, strict=True) if each.lane not in joined.lanes]
            if not replicas:
                return
        raise ProtocolError(f"the leader opens no lane for {len(replicas)} replicas whose peers have joined")

    async def _join_all(self) -> None:
        step = self._replicas_per_connection
        groups = [
            (address, replicas[start : start + step])
            for address, replicas in self._below.items()
            for start in range(0, len(replicas), step)
        ]
        await _in_parts(self._join, groups)

    async def _join(self, group: tuple[Address, Sequence[EmulatedReplica]]) -> None:
        """Join over one link."""
        address, replicas = group
        by_shard: dict[int, list[EmulatedReplica]] = {}
        for replica in replicas:
            by_shard.setdefault(replica.shard.shard, []).append(replica)
        link = await dial_link(address, lambda message: self._take(by_shard, message), self._failed)
        self._links.append(link)
        for replica in replicas:
            self._link_of[replica] = link
        answers = await _in_parts(partial(self._ask_join, link), replicas)
        for joined, replica in zip(answers, replicas, strict=True):
            if joined.lanes != list(replica.shard.lanes):
                raise ProtocolError(f"shard {replica.shard.shard} has lanes that the emulator has not opened")
            replica.shard.epoch = joined.epoch

    async def _ask_join(self, link: Link, replica: EmulatedReplica) -> EmulatedJoin:
        emulation = self._emulation
        return emulation.joined(await link.ask(emulation.join(replica.shard.shard, replica.number, BOOT)))

    # One turn

    async def _run_turn(self, turn: Turn) -> Counted:
        self._turn = turn
        self._durations, self._reports = Durations(), 0
        self._unfinished = set(self._replicas)
        self._finished.clear()
        for shard in self._shards:
            shard.grow(turn.growth)
        for replica in self._replicas:
            self._check_finished(replica)
        repeating = asyncio.create_task(self._repeat())
        try:
            await _sleep_until(turn.start_s)
            self._begin()
            await _sleep_until(turn.count_s)
            first, self._is_counting = self._mark(), True
            await _sleep_until(turn.stop_s)
            last, self._is_counting = self._mark(), False
            async with asyncio.timeout(DRAIN_TIMEOUT_S):
                await self._finished.wait()
        except TimeoutError:
            raise Unavailable(
                f"{len(self._unfinished)} of {len(self._replicas)} replicas wait for their last cut after "
                f"{DRAIN_TIMEOUT_S:g} s"
            ) from None
        finally:
            repeating.cancel()
        records = sum(sum(shard.final) for shard in self._shards)
        return Counted(self._durations.counts, self._reports, first, last, records)

    def _begin(self) -> None:
        interval_s = self._turn.report_interval_s
        loop = asyncio.get_running_loop()
        for place, shard in enumerate(self._shards):
            if interval_s:
                loop.call_later(interval_s * place / len(self._shards), self._sync, shard, self._turn)
            else:
                for replica in shard.replicas:
                    self._report_next(replica)

    def _mark(self) -> Mark:
        links = self._links
        return Mark(
            time.monotonic(),
            self._cut,
            self._tail,
            sum(link.sent_bytes for link in links),
            sum(link.received_bytes for link in links),
        )

    def _take(self, replicas: Mapping[int, Sequence[EmulatedReplica]], message: Message) -> None:
        """News for these replicas, by shard."""
        now_s = time.monotonic()
        moved: dict[EmulatedReplica, None] = {}
        for cut in self._emulation.cuts(message):
            if cut.number > self._cut:
                self._cut, self._tail = cut.number, cut.tail
            for replica in replicas.get(cut.shard, ()):
                for duration_s in replica.hear(cut, now_s):
                    if self._is_counting:
                        self._durations.add(duration_s)
                if cut.runs:
                    moved[replica] = None
        for replica in moved:
            if not self._check_finished(replica) and not self._turn.report_interval_s and not replica.waiting:
                self._report_next(replica)

    def _check_finished(self, replica: EmulatedReplica) -> bool:
        if not replica.is_done:
            return False
        self._unfinished.discard(replica)
        if not self._unfinished:
            self._finished.set()
        return True

    # Reporting

    def _report_next(self, replica: EmulatedReplica) -> None:
        """Report the shard's next sample, or as soon as there is one."""
        shard = replica.shard
        now_s = time.monotonic()
        if replica.sample < shard.sample or shard.take_sample(now_s):
            self._send(replica, now_s)
            return
        grows_s = shard.grows_s()
        if grows_s is not None:
            delay_s = max(grows_s - now_s, GROWTH_WAIT_S_MIN)
            asyncio.get_running_loop().call_later(delay_s, self._report_next, replica)

    def _sync(self, shard: EmulatedShard, turn: Turn) -> None:
        """A sync of a shard that syncs at intervals: sample, report, and again until everything is reported."""
        if turn is not self._turn:
            return
        now_s = time.monotonic()
        shard.take_sample(now_s)
        for replica in shard.replicas:
            if replica.sample < shard.sample and replica.may_report:
                self._send(replica, now_s)
        if any(replica in self._unfinished for replica in shard.replicas):
            asyncio.get_running_loop().call_later(turn.report_interval_s, self._sync, shard, turn)

    def _send(self, replica: EmulatedReplica, now_s: float) -> None:
        self._link_of[replica].send(self._emulation.report(replica.report(now_s)))
        self._sent.append((now_s, replica))
        self._reports += self._is_counting

    async def _repeat(self) -> None:
        """Report again where no cut has covered the last report."""
        while True:
            await asyncio.sleep(REPEAT_CHECK_S)
            now_s = time.monotonic()
            while self._sent and self._sent[0][0] <= now_s - self._turn.repeat_interval_s:
                sent_s, replica = self._sent.popleft()
                if replica.waiting and replica.waiting[-1][1] == sent_s:
                    replica.shard.take_sample(now_s)
                    self._send(replica, now_s)


async def _in_parts(ask: Callable[[S], Coroutine[object, object, T]], about: Sequence[S]) -> list[T]:
    """Ask about all of them, a bounded part at a time."""
    bound = asyncio.Semaphore(JOINED_TOGETHER)

    async def one(each: S) -> T:
        async with bound:
            return await ask(each)

    return await asyncio.gather(*map(one, about))


async def _sleep_until(at_s: float) -> None:
    await asyncio.sleep(max(0.0, at_s - time.monotonic()))
