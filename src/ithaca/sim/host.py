"""A machine of a simulated cluster: its disk and clocks, and the process that runs on it now."""

from random import Random
from typing import TYPE_CHECKING

from ithaca.model.server_place import ServerPlace
from ithaca.server.process import Server
from ithaca.sim.disk import SimDisk
from ithaca.sim.inode import Inode
from ithaca.sim.process import Clocks, Killed, Process

if TYPE_CHECKING:
    from ithaca.sim.world import World


class HostDisk(SimDisk):
    """The disk of a host: slow at times, and the place where a process dies in the middle of a write."""

    def __init__(self, host: "Host") -> None:
        super().__init__()
        self.dies_after: int | None = None
        """So many operations from now the process is killed."""
        self.dies_unsynced: int | None = None
        """After so many syncs of lanes the process is killed before the next one."""
        self._host = host

    def tick(self) -> None:
        super().tick()
        if self.dies_after is not None:
            self.dies_after -= 1
            if self.dies_after < 0:
                self.dies_after = None
                self._host.world.kill(self._host, "in the middle of a write")
                raise Killed

    def take_sync_failure(self, inode: Inode | None) -> bool:
        if self.dies_unsynced is not None and inode is not None and self._is_segment(inode):
            self.dies_unsynced -= 1
            if self.dies_unsynced < 0:
                self.dies_unsynced = None
                self._host.world.kill(self._host, "between a write and its sync")
                raise Killed
        if self._host.process is not None:
            self._host.process.synced()
        failed = super().take_sync_failure(inode)
        if failed:
            self._host.sync_failed_ns = self._host.world.scheduler.now_ns
        return failed

    def _is_segment(self, inode: Inode) -> bool:
        return any(found is inode and name.endswith(".seg") for name, found in self._names.items())


class Host:
    """A machine with one server or one client."""

    def __init__(self, world: "World", name: str, address: str, place: ServerPlace | None) -> None:
        self.world = world
        self.name = name
        self.address = address
        self.called = address
        """The name, or the address, that its server is started with."""
        self.place = place
        self.disk = HostDisk(self)
        self.process: Process | None = None
        self.server: Server | None = None
        self.is_broken = False
        """Its data was lost or damaged, and has not been made good yet."""
        self.was_flipped = False
        """A bit of its present disk was flipped."""
        self.flip_is_hidden = False
        """It has lost its power since, or just before: what was said of syncs, which tells damage from what was torn,
        may be gone."""
        self.must_restart = True
        self.is_retired = False
        """Whether nobody will start it again."""
        self.is_stopping = False
        self.sync_failed_ns: int | None = None
        """When a sync of its present process failed."""
        self.slow_ns = 0
        self.lives = 0
        self.disks = 1
        """How many it has had."""
        self.clocks = Clocks(Random(f"{world.configuration.seed} clocks of {name}"))

    def flip_bit(self, path: str, offset: int, bit: int, *, has_mark_behind: bool = False) -> None:
        """Damage a byte of its disk. A mark behind it tells it from what was torn, even right after a power loss."""
        self.disk.flip_bit(path, offset, bit)
        self.was_flipped = True
        is_dark = self.address in self.world.network.dark_hosts
        self.flip_is_hidden = self.flip_is_hidden or (is_dark and not has_mark_behind)
        self.world.count("bit flipped")

    def replace_disk(self) -> None:
        """Everything it held is gone."""
        self.is_broken, self.was_flipped, self.flip_is_hidden = True, False, False
        self.called = self.address  # what a new disk enlists as is what the view knows
        self.disks += 1
        self.disk = HostDisk(self)

    @property
    def is_storage(self) -> bool:
        """Whether this is the machine of a replica, or of a spare."""
        return self.place is not None and self.place.role in ("replica", "spare")

    @property
    def directory(self) -> str:
        return f"/{self.name}"

    @property
    def is_up(self) -> bool:
        return self.process is not None and self.process.is_alive
