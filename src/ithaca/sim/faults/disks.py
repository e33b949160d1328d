"""Faults of disks: slow, full, failing, lost, damaged."""

from random import Random
from typing import TYPE_CHECKING

from ithaca.sim.faults.targets import FaultGroup, Targets
from ithaca.sim.host import Host

if TYPE_CHECKING:
    from ithaca.sim.world import World

_MS = 1_000_000


class DiskFaults(FaultGroup):
    """What a disk does to its server."""

    def __init__(self, world: "World", targets: Targets) -> None:
        super().__init__(world, targets)
        self.kinds = {
            "slow-disk": self._slow_disk,
            "full-disk": self._full_disk,
            "failed-sync": self._failed_sync,
            "wipe": self._wipe,
            "flip": self._flip,
        }

    def _slow_disk(self) -> str:
        host = self._targets.server()
        set_slow(host, self._random.choice((2 * _MS, 30 * _MS, 300 * _MS)))
        self._targets.later(0.5, 8, lambda: set_slow(host, 0))
        return host.name

    def _full_disk(self) -> str:
        host = self._targets.server()
        disk = host.disk
        disk.capacity_bytes = disk.used_bytes + self._random.randint(0, 5000)

        def free() -> None:
            disk.capacity_bytes = None

        self._targets.later(0.5, 10, free)
        return host.name

    def _failed_sync(self) -> str | None:
        is_storage = self._random.random() < 0.7
        host = self._targets.expendable() if is_storage else self._random.choice(self._targets.orderers())
        if host is not None:
            host.disk.fail_next_sync()
        return None if host is None else host.name

    def _wipe(self) -> str | None:
        host = self._targets.expendable()
        if host is not None:
            self._world.kill(host, "its disk is lost")
            host.replace_disk()
        return None if host is None else host.name

    def _flip(self) -> str | None:
        """Damage a file of a replica's lanes while the replica is down, so that recovery meets it."""
        host = self._targets.expendable()
        if host is None:
            return None
        self._world.kill(host, "its disk goes bad")
        place = damaged_place(host, self._random)
        if place is None:
            return None
        path, offset = place
        host.flip_bit(path, offset, self._random.randrange(8))
        host.is_broken = True
        return f"{host.name} {path} at {offset}"


def set_slow(host: Host, slow_ns: int) -> None:
    """Have every sync of its disk take so long."""
    host.slow_ns = slow_ns
    if host.process is not None:
        host.process.slow_ns = slow_ns


def damaged_place(host: Host, random: Random) -> tuple[str, int] | None:
    """A file of the host's lanes and a byte in it that says something; None when it has none."""
    files = [path for path in host.disk.files() if "/lanes/" in path and host.disk.content(path)]
    if not files:
        return None
    path = random.choice(files)
    data = host.disk.content(path)
    return path, random.randrange(len(data.rstrip(bytes(1))) or len(data))  # not in what is held ahead
