"""What a process takes from its machine besides disk and network: time, chance, identity, and threads for its disk.

Servers, clients and the modules they are made of ask here, so that a simulator can put machines of its own in
place, one for each process it simulates: then the same seed gives the same run.
"""

import asyncio
import os
import resource
import time
from collections.abc import Callable
from random import Random, SystemRandom
from typing import Protocol
from uuid import UUID, uuid4

from ithaca.model.addresses import is_loopback
from ithaca.model.limits import DESCRIPTORS_PER_LANE, LANES_OPEN_MAX
from ithaca.model.view import Address
from ithaca.runtime.disk_thread import OsDiskThread
from ithaca.storage.disk import Disk, OsDisk

_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_DESCRIPTORS = "/proc/self/fd"
_MANY = 1 << 30


class DiskThread(Protocol):
    """Runs jobs off the event loop, one after the other, in the order they were submitted."""

    def submit(self, job: Callable[[], None]) -> None:
        """Have a job run, from the loop's thread. It must not wait for other jobs, and nothing may come out of it."""

    def tell(self, callback: Callable[..., object], *arguments: object) -> None:
        """From a job: have the loop call this. Nothing happens once the loop is closed."""

    async def close(self) -> None:
        """End after the jobs submitted so far, once the loop has been told what they told. Idempotent."""


class Machine:
    """The machine that this process runs on."""

    def __init__(self) -> None:
        self.random: Random = SystemRandom()
        """For pauses, elections and whom to ask first. It has no state, so that a fork does not share it."""

    def own_random(self) -> Random:
        """Chance for one owner that asks often: the system is asked once, for its seed."""
        return Random(self.random.getrandbits(128))

    def wall_us(self) -> int:
        """The time of day, in microseconds since 1970."""
        return time.time_ns() // 1000

    def monotonic_ns(self) -> int:
        return time.monotonic_ns()

    def new_uuid(self) -> UUID:
        return uuid4()

    def process_id(self) -> int:
        return os.getpid()

    def is_near(self, host: str) -> bool:
        """Whether what is sent to this host passes through no network."""
        return is_loopback(Address(host, 0))

    def descriptors_max(self) -> int:
        """How many files and connections the process may have open."""
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return _MANY if soft == resource.RLIM_INFINITY else soft

    def descriptors_open(self) -> int:
        """How many it has open; 0 when it cannot be told."""
        try:
            return len(os.listdir(_DESCRIPTORS)) - 1  # the one that the directory is read with
        except OSError:
            return 0

    def name(self) -> str:
        """What no other machine is called, and this one until it is started again; empty when it cannot be told."""
        try:
            with open(_BOOT_ID, encoding="ascii") as file:
                return file.read().strip()
        except OSError:
            return ""

    def host(self) -> str:
        """What people call it."""
        return os.uname().nodename

    def place_of(self, directory: str) -> tuple[str, int, int]:
        """The path of a directory of this machine, and device and inode, which are no other directory's here."""
        found = os.stat(directory)
        return os.path.abspath(directory), found.st_dev, found.st_ino

    def local_disk(self) -> Disk:
        """Where the files of other processes of this machine can be read."""
        return OsDisk()

    def disk_thread(self, name: str, loop: asyncio.AbstractEventLoop) -> DiskThread:
        return OsDiskThread(name, loop)


_current = Machine()


def current() -> Machine:
    """The machine that the code running now is on."""
    return _current


def use(machine: Machine) -> Machine:
    """Run on this machine from now on; returns the one before."""
    global _current
    before, _current = _current, machine
    return before


def wall_us() -> int:
    """The time of day, in microseconds since 1970."""
    return _current.wall_us()


def monotonic_ns() -> int:
    return _current.monotonic_ns()


def monotonic_us() -> int:
    return _current.monotonic_ns() // 1000


def monotonic_s() -> float:
    """For how long something took."""
    return _current.monotonic_ns() / 1e9


def rng() -> Random:
    """The machine's source of randomness."""
    return _current.random


def own_random() -> Random:
    """Chance for one owner that asks often."""
    return _current.own_random()


def new_uuid() -> UUID:
    return _current.new_uuid()


def is_near(host: str) -> bool:
    """Whether what is sent to this host passes through no network."""
    return _current.is_near(host)


def process_id() -> int:
    return _current.process_id()


def descriptors_max() -> int:
    """How many files and connections the process may have open."""
    return _current.descriptors_max()


def lanes_open_max() -> int:
    """Lanes whose files may stay open although nobody writes them: a quarter of all descriptors at most."""
    return max(1, min(LANES_OPEN_MAX, descriptors_max() // 4 // DESCRIPTORS_PER_LANE))


def descriptors_open() -> int:
    """How many it has open; 0 when it cannot be told."""
    return _current.descriptors_open()


def place_of(directory: str) -> tuple[str, int, int]:
    """The path of a directory of this machine, and device and inode, which are no other directory's here."""
    return _current.place_of(directory)


def local_disk() -> Disk:
    """Where the files of other processes of this machine can be read."""
    return _current.local_disk()


def machine_name() -> str:
    """What no other machine is called; empty when it cannot be told."""
    return _current.name()


def host_name() -> str:
    """What people call the machine."""
    return _current.host()
