"""The faults that befall a simulated cluster. Each breaks something, tells so, and mends it after a while.

Anything may die, pause, lose power or be cut off at any time, everything at once included. What destroys data (a
wiped disk, a flipped bit, a failed sync) befalls at most as many replicas of a shard as it promises to survive, and
no other before those have caught up again.
"""

from ithaca.proof.history import Fault
from ithaca.sim.engine import Inject
from ithaca.sim.faults.clocks import ClockFaults
from ithaca.sim.faults.disks import DiskFaults
from ithaca.sim.faults.links import LinkFaults
from ithaca.sim.faults.processes import ProcessFaults
from ithaca.sim.faults.running import RunningFaults
from ithaca.sim.faults.scripted import ScriptedFaults
from ithaca.sim.faults.shards import ShardFaults
from ithaca.sim.faults.targets import FaultGroup, Targets
from ithaca.sim.host import Host
from ithaca.sim.world import World

_GROUPS: tuple[type[FaultGroup], ...] = (
    ProcessFaults,
    LinkFaults,
    DiskFaults,
    ClockFaults,
    ShardFaults,
    ScriptedFaults,
    RunningFaults,
)


class Faults:
    """Draws the next fault, again and again, until the world heals."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._random = world.random
        self._targets = Targets(world)
        self._kinds: dict[str, Inject] = {**world.members.faults, **world.simulation.faults()}
        for group in _GROUPS:
            self._kinds |= group(world, self._targets).kinds

    def begin(self) -> None:
        """Have faults come from now on."""
        if self._world.configuration.faults:
            self._plan()

    def _plan(self) -> None:
        every_s = self._world.configuration.fault_every_s
        self._targets.after(self._random.expovariate(1 / every_s), self._next)

    def _next(self) -> None:
        world = self._world
        if world.is_healing:
            return
        kind = self._random.choice(world.configuration.faults)
        what = self._kinds[kind]()
        if what is not None:
            world.count(f"fault {kind}")
            world.tell(f"fault: {kind} {what}")
            world.recorder.events.append(Fault(world.scheduler.now_ns, f"{kind} {what}"))
        self._plan()

    def heal(self) -> None:
        """Mend everything, and start everything."""
        world = self._world
        world.is_healing = True
        world.network.heal_all()
        weather = world.network.weather
        weather.loss = weather.straggler = weather.mischief = 0
        world.simulation.heal()
        for host in [*world.hosts.values(), *world.clients]:
            self._mend(host)
            world.start(host)

    def _mend(self, host: Host) -> None:
        host.must_restart = not host.is_retired
        host.disk.capacity_bytes = None
        host.disk.dies_after = host.disk.dies_unsynced = None
        host.disk.fail_no_sync()
        host.slow_ns = 0
        if host.process is not None:
            host.process.slow_ns = 0
            if host.process.is_paused:
                self._world.scheduler.resume(host.process)
