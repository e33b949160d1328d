"""Faults of processes and their hosts: killed, stopped, paused, without power."""

from typing import TYPE_CHECKING

from ithaca.sim.faults.targets import FaultGroup, Targets

if TYPE_CHECKING:
    from ithaca.sim.world import World


class ProcessFaults(FaultGroup):
    """Servers and clients that end, or stand still."""

    def __init__(self, world: "World", targets: Targets) -> None:
        super().__init__(world, targets)
        self.kinds = {
            "kill": self._kill,
            "die-writing": self._die_writing,
            "power": self._power,
            "blackout": self._blackout,
            "pause": self._pause,
            "stop": self._stop,
            "client": self._client,
        }

    def _kill(self) -> str | None:
        host = self._targets.running()
        if host is not None:
            self._world.kill(host, "at any time")
        return None if host is None else host.name

    def _die_writing(self) -> str | None:
        host = self._targets.running()
        if host is not None:
            host.disk.dies_after = self._random.randint(0, 30)
        return None if host is None else host.name

    def _power(self) -> str | None:
        host = self._targets.server()
        self._world.lose_power(host, self._random.choice(("sector", "byte")))
        return host.name

    def _blackout(self) -> str:
        for host in self._world.hosts.values():
            self._world.lose_power(host)
        return "everywhere"

    def _stop(self) -> str | None:
        host = self._targets.running()
        if host is not None:
            self._world.stop(host)
        return None if host is None else host.name

    def _pause(self) -> str | None:
        host = self._targets.running()
        if host is None or host.process is None:
            return None
        process = host.process
        process.is_paused = True
        self._targets.later(0.01, 12, lambda: self._world.scheduler.resume(process))
        return host.name

    def _client(self) -> str | None:
        world = self._world
        running = [host for host in world.clients if host.is_up]
        if not running:
            return None
        host = self._random.choice(running)
        world.kill(host, "a client")
        return host.name
