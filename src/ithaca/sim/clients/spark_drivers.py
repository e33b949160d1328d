"""Spark's exactly-once sink as a model over real handles: drivers, tasks that are repeated or run twice, commits.

It does what `ithaca.spark.exactly_once` does, with the scheduler of Spark as its own: each partition of a batch is
written by a task as one part; one that fails is repeated, one that is slow may get a second attempt, and only the
message of the first that is done counts. What others prepared is left behind. The driver publishes the parts of the
messages and aborts them: those of a batch that was published before. A driver that dies, or does not hear what came of
a commit, repeats the whole batch with new tasks, under the same number; a job without a name publishes once, and is not
repeated once it has tried.

Drawn apart from the rest, so that the seeds without drivers stay what they were.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING

from ithaca.model.errors import IthacaError
from ithaca.model.interface.awaited import ClusterLog
from ithaca.model.limits import KIB
from ithaca.model.parts import Part, Published
from ithaca.proof import payload
from ithaca.sim.clients.connecting import connected
from ithaca.sim.process import Process

if TYPE_CHECKING:
    from ithaca.sim.configuration import Configuration
    from ithaca.sim.world import World

_CHANCE = 0.2
_ATTEMPTS_MAX = 4
_MORE_ROOM_BYTES = 64 * KIB
_DAWDLE_S = 0.1
_TTL_S = 2.0
_WAIT_TTL_S = 3600.0
"""What a part has while it is written, and once it is done."""

Rows = tuple[int, int, int]
"""A partition: its session in the history, first number and count."""


def with_drivers(configuration: "Configuration") -> "Configuration":
    """The same, or with a driver or two."""
    random = Random(f"drivers of {configuration.seed}")
    if random.random() >= _CHANCE:
        return configuration
    limits = dict(configuration.limits)
    for name in ("ORDERING_STATE_BYTES_MAX", "RAFT_SNAPSHOT_BYTES_MAX"):  # for those that are beside the others
        if name in limits:
            limits[name] += _MORE_ROOM_BYTES
    return replace(configuration, drivers=random.choice((1, 1, 2)), limits=limits)


class TaskFailed(Exception):
    """A task has failed as often as it may."""


@dataclass
class _Batch:
    """What a driver is about to commit; it outlives the driver, as a checkpoint does."""

    number: int
    rows: tuple[Rows, ...]
    is_once: bool
    """Whether it is a job without a name, which is not repeated."""
    was_tried: bool = False


class Driver:
    """Commits one batch after the other, under the next number of one query, or without a name."""

    def __init__(self, world: "World", number: int) -> None:
        self.name = f"driver-{number}"
        self._world = world
        self._current: _Batch | None = None
        self._number = 0
        self.succeeded = 0

    @property
    def is_settled(self) -> bool:
        return self._current is None

    async def main(self, who: Process, random: Random) -> None:
        """One life of it."""
        log = await connected(self._world)
        if self._current is not None and self._current.is_once and self._current.was_tried:
            self._current = None  # nobody runs a job again that may be done
        while self._world.is_loaded or self._current is not None:
            batch = self._current = self._current or self._new(random)
            try:
                parts = await self._run_tasks(random, batch)
                await self._commit(who, log, batch, parts)
                self._current = None
                self.succeeded += 1
            except TaskFailed:
                self._world.count("job failed")
            except IthacaError as error:
                self._world.met(error, "publish")
                if batch.is_once:
                    self._current = None
            await asyncio.sleep(random.uniform(0, 4 * self._world.configuration.pause_between_appends_s))

    def _new(self, random: Random) -> _Batch:
        self._number += 1
        most, recorder = self._world.configuration.records_max, self._world.recorder
        rows = tuple((recorder.new_session(), 1, random.randint(0, most)) for _ in range(random.randint(1, 3)))
        return _Batch(self._number, tuple(each for each in rows if each[2]), random.random() < 0.3)

    # The driver

    async def _commit(self, who: Process, log: ClusterLog, batch: _Batch, parts: list[Part]) -> Published:
        batch.was_tried = True
        key = f"{self.name}/{batch.number}"

        def publish() -> "asyncio.Future[Published]":
            if batch.is_once:
                return asyncio.ensure_future(log.publish_once(parts))
            return asyncio.ensure_future(log.publish(batch.number, parts, writer=self.name, owner="query"))

        shards = [part.shard for part in parts] if batch.is_once else None
        published = await self._world.recorder.publish(who, key, batch.rows, shards, publish)
        with suppress(IthacaError):
            await log.abort(parts)
        return published

    # The scheduler

    async def _run_tasks(self, random: Random, batch: _Batch) -> list[Part]:
        """The parts of all partitions, in their order; raises when one cannot be had."""
        tasks = [asyncio.ensure_future(self._partition(random, rows)) for rows in batch.rows]
        try:
            return list(await asyncio.gather(*tasks))
        finally:
            for task in tasks:
                task.cancel()

    async def _partition(self, random: Random, rows: Rows) -> Part:
        """The part of the first attempt that is done; those that come too late are killed, or go on for nothing."""
        running: set[asyncio.Task[Part]] = set()
        try:
            for _ in range(_ATTEMPTS_MAX):
                attempt = asyncio.ensure_future(self._attempt(random, rows))
                attempt.add_done_callback(_look_at)
                running.add(attempt)
                wait_s = random.uniform(0, 1) if len(running) < 2 and random.random() < 0.5 else None
                while running:
                    done, running = await asyncio.wait(running, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
                    for task in done:
                        if task.exception() is None:
                            return task.result()
                        self._world.count("task repeated")
                    if not done:
                        self._world.count("task speculated")
                        break
                    if not running:
                        break
            raise TaskFailed
        finally:
            for task in running:
                if random.random() < 0.5:
                    task.cancel()

    async def _attempt(self, random: Random, rows: Rows) -> Part:
        """One attempt, with a handle of its own; it may be slow, and slower than a part lives."""
        session, seq, count = rows
        handle = await connected(self._world)
        try:
            writer = await handle.open_part(ttl=_TTL_S)
            is_slow = random.random() < 0.2
            for row in range(count):
                await writer.append_many([payload.encode(session, seq + row, payload.HEAD_BYTES)])
                if is_slow:
                    await self._dawdle(random.uniform(0, 2 * _TTL_S))
            part = await writer.finish()
            await handle.renew([part], ttl=_WAIT_TTL_S)
            return part
        finally:
            with suppress(IthacaError):
                await handle.close()

    async def _dawdle(self, seconds: float) -> None:
        """Do nothing for so long; not while everything waits for this driver to get on."""
        for _ in range(int(seconds / _DAWDLE_S)):
            if not self._world.is_healing:
                await asyncio.sleep(_DAWDLE_S)


def _look_at(attempt: "asyncio.Task[Part]") -> None:
    """An attempt may fail in any way that the client knows, also when nobody waits for it any more."""
    error = None if attempt.cancelled() else attempt.exception()
    if error is not None and not isinstance(error, IthacaError):
        raise error
