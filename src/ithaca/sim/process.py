"""One simulated process: its loop, its machine, its life. A restart is another process on the same host."""

import asyncio
import errno
from collections.abc import Callable
from random import Random
from typing import Any
from uuid import UUID

from ithaca.runtime import machine
from ithaca.sim.disk import SimDisk
from ithaca.sim.loop import SimLoop
from ithaca.sim.neighbours import Neighbours
from ithaca.sim.network import SimNetwork
from ithaca.sim.scheduler import Actor, Scheduler

EPOCH_US = 1_700_000_000_000_000
_JOB_NS = (20_000, 2_000_000)
_TOLD_NS = (10_000, 200_000)


class Killed(BaseException):
    """The process ends in the middle of what it does: nothing it does on the way out counts."""


class Clocks:
    """The clocks of a host. They drift, and the time of day also jumps."""

    def __init__(self, random: Random) -> None:
        self.rate = 1 + random.uniform(-0.01, 0.01) * random.choice((0, 1))
        self._offset_us = random.choice((0, random.randint(-3_600_000_000, 3_600_000_000)))
        self.boot_ns = random.randrange(1 << 40)
        self.jumps = 0
        """How often the time of day has jumped."""

    @property
    def offset_us(self) -> int:
        """What the time of day is ahead of the right one, apart from drift."""
        return self._offset_us

    @offset_us.setter
    def offset_us(self, offset_us: int) -> None:
        self._offset_us = offset_us
        self.jumps += 1


class SimMachine(machine.Machine):
    """What a simulated process takes from its host."""

    def __init__(self, process: "Process", clocks: Clocks, random: Random) -> None:
        self.random = random
        self.process_name = process.name
        self._process = process
        self._clocks = clocks

    def own_random(self) -> Random:
        return self.random

    def monotonic_ns(self) -> int:
        now_ns = max(self._process.scheduler.now_ns, self._process.busy_until_ns)
        return self._clocks.boot_ns + int(now_ns * self._clocks.rate)

    def wall_us(self) -> int:
        return EPOCH_US + self._clocks.offset_us + int(self._process.scheduler.now_ns * self._clocks.rate) // 1000

    @property
    def jumps(self) -> int:
        """How often its time of day has jumped."""
        return self._clocks.jumps

    def new_uuid(self) -> UUID:
        return UUID(int=self.random.getrandbits(128), version=4)

    def process_id(self) -> int:
        return 1

    def is_near(self, host: str) -> bool:
        return True  # nobody listens to a simulated network

    def descriptors_max(self) -> int:
        return 1 << 20

    def descriptors_open(self) -> int:
        return 0

    def name(self) -> str:
        return "simulated"  # all hosts are one machine to those who look for files

    def host(self) -> str:
        return self.process_name

    def place_of(self, directory: str) -> tuple[str, int, int]:
        return directory, 0, self._process.disk_number(directory.split("/")[1])

    def local_disk(self) -> Neighbours:
        return self._process.neighbours

    def disk_thread(self, name: str, loop: asyncio.AbstractEventLoop) -> "SimDiskThread":
        return SimDiskThread(self._process)

    def true_delay_ns(self, delay_ns: int) -> int:
        """How long a delay by this host's clock is, never a trifle too short: a timer must not fire early."""
        return int(delay_ns / self._clocks.rate) + 3


class SimDiskThread:
    """A disk thread whose jobs are done at once when their time comes."""

    def __init__(self, process: "Process") -> None:
        self._process = process
        self._due_ns = 0
        self._is_closed = False

    def submit(self, job: Callable[[], None]) -> None:
        assert not self._is_closed, "the thread was closed"
        self._due_ns = self._process.plan_job(job, self._due_ns)

    def tell(self, callback: Callable[..., object], *arguments: object) -> None:
        self._process.plan_told(lambda: callback(*arguments))

    async def close(self) -> None:
        self._is_closed = True
        ended: asyncio.Future[None] = self._process.loop.create_future()
        self._process.plan_job(lambda: self.tell(_end, ended), self._due_ns)
        await ended


class Process(Actor):
    """A process on a host."""

    def __init__(
        self,
        name: str,
        host: str,
        scheduler: Scheduler,
        network: SimNetwork,
        clocks: Clocks,
        random: Random,
        on_unhandled: Callable[["Process", dict[str, Any]], None],
    ) -> None:
        super().__init__(name)
        self.host = host
        self.scheduler = scheduler
        self.network = network
        self.is_in_job = False
        """Whether a thread of it runs now, and not its loop."""
        self.slow_ns = 0
        """What every sync of its disk takes now."""
        self._random = random
        self._told_ns = 0
        self._job_debt_ns = 0
        self._on_unhandled = on_unhandled
        self.machine = SimMachine(self, clocks, random)
        self.neighbours = Neighbours(_no_disk)
        """The disks of all hosts."""
        self.disk_number: Callable[[str], int] = _no_number
        """How many disks a host has had."""
        self.loop = SimLoop(self)  # type: ignore[abstract]

    def enter(self) -> None:
        machine.use(self.machine)

    def die(self, *, silently: bool = False) -> None:
        """End at once. `silently`: its host has lost its power, so nobody hears of it."""
        if self.is_alive:
            self.is_alive = False
            self.network.process_died(self, silently=silently)

    def unhandled(self, context: dict[str, Any]) -> None:
        if self.is_alive:
            self._on_unhandled(self, context)

    def synced(self) -> None:
        """Its disk has synced something: that takes its time, of the thread or of the loop."""
        if self.is_in_job:
            self._job_debt_ns += self.slow_ns
        elif self.slow_ns:
            self.busy_until_ns = max(self.busy_until_ns, self.scheduler.now_ns) + self.slow_ns

    def plan_job(self, job: Callable[[], None], after_ns: int = 0) -> int:
        """Have a thread do something, after what it did before; says when."""

        def work() -> None:
            self.is_in_job = True
            self._job_debt_ns = 0
            try:
                job()
            except Killed:
                pass
            finally:
                self.is_in_job = False

        due_ns = max(after_ns, self.scheduler.now_ns + self._random.randint(*_JOB_NS))
        self.scheduler.plan_at(due_ns, self, work)
        return due_ns

    def plan_told(self, told: Callable[[], object]) -> None:
        """Have the loop hear of what a thread has done, after whatever it heard of before."""
        delay_ns = self._job_debt_ns + self._random.randint(*_TOLD_NS)
        self._told_ns = max(self._told_ns, self.scheduler.now_ns + delay_ns)
        self.scheduler.plan_at(self._told_ns, self, lambda: self._hear(told))

    def _hear(self, told: Callable[[], object]) -> None:
        self.loop.call_soon(told)


def _no_disk(host: str) -> SimDisk:
    raise OSError(errno.ENOENT, "no disk of others can be reached", host)


def _no_number(host: str) -> int:
    raise OSError(errno.ENOENT, "no disk of others can be reached", host)


def _end(ended: "asyncio.Future[None]") -> None:
    if not ended.done():
        ended.set_result(None)
