"""The faults that befall a simulated cluster. Each breaks something, tells so, and mends it after a while.

Anything may die, pause, lose power or be cut off at any time, everything at once included. What destroys data (a
wiped disk, a flipped bit, a failed sync) befalls at most as many replicas of a shard as it promises to survive, and
no other before those have caught up again.
"""

from collections.abc import Callable

from ithaca.proof.history import Fault
from ithaca.sim.clients.administrator import Replacement, Task
from ithaca.sim.faults.replacing import REPLACE
from ithaca.sim.faults.running import SuddenFaults, damaged_place
from ithaca.sim.faults.scripted import StagedFaults, leads
from ithaca.sim.host import Host
from ithaca.sim.scalog.lane_churn import LaneFaults
from ithaca.sim.scalog.storage_trouble import StorageTrouble
from ithaca.sim.scheduler import NS_PER_S
from ithaca.sim.world import World

_MS = 1_000_000


class Faults:
    """Draws the next fault, again and again, until the world heals."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._random = world.random
        self._storage = StorageTrouble(world)
        self._kinds: dict[str, Callable[[], str | None]] = {
            "kill": self._kill,
            "die-writing": self._die_writing,
            "power": self._power,
            "blackout": self._blackout,
            "pause": self._pause,
            "isolate": self._isolate,
            "cut": self._cut,
            "one-way": self._one_way,
            "split": self._split,
            "storm": self._storm,
            "slow-disk": self._slow_disk,
            "full-disk": self._full_disk,
            "failed-sync": self._failed_sync,
            "wipe": self._wipe,
            "flip": self._flip,
            "clock": self._clock,
            "stop": self._stop,
            "client": self._client,
            "add-shard": self._add_shard,
            "finalize": self._finalize,
            REPLACE: self._replace_replica,
            **world.members.faults,
            **StagedFaults(world, self._expendable).kinds,
            **LaneFaults(world).kinds,
            **self._storage.kinds,
            **SuddenFaults(world, self._expendable).kinds,
        }

    def begin(self) -> None:
        """Have faults come from now on."""
        if self._world.configuration.faults:
            self._plan()

    def _plan(self) -> None:
        every_s = self._world.configuration.fault_every_s
        self._after(self._random.expovariate(1 / every_s), self._next)

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
        self._storage.heal()
        for host in [*world.hosts.values(), *world.clients]:
            self._mend(host)
            world.start(host)

    def _mend(self, host: Host) -> None:
        host.must_restart = not host.is_retired
        host.disk.capacity_bytes = None
        host.disk.dies_after = None
        host.disk.fail_no_sync()
        host.slow_ns = 0
        if host.process is not None:
            host.process.slow_ns = 0
            if host.process.is_paused:
                self._world.scheduler.resume(host.process)

    # Draws

    def _after(self, delay_s: float, act: Callable[[], object]) -> None:
        self._world.scheduler.plan(int(delay_s * NS_PER_S), None, act)

    def _later(self, low_s: float, high_s: float, act: Callable[[], object]) -> None:
        """Mend something later, unless all was mended before."""
        delay_s = self._random.uniform(low_s, high_s) * self._world.configuration.patience
        self._after(delay_s, lambda: None if self._world.is_healing else act())

    def _focused(self) -> list[Host]:
        """The servers that this seed has an eye on."""
        hosts, focus = list(self._world.hosts.values()), self._world.configuration.focus
        if focus == "everybody":
            return hosts
        if focus == "replicas":
            return [host for host in hosts if host.is_storage]
        return [host for host in hosts if host.place and f"{host.place.role}s" == focus]

    def _server(self) -> Host:
        return self._random.choice(self._focused())

    def _running(self) -> Host | None:
        running = [host for host in self._focused() if host.is_up]
        return self._random.choice(running) if running else None

    def _two(self) -> tuple[Host, Host]:
        """Two ends of a link."""
        focused = self._focused()
        everybody = [*self._world.hosts.values(), *self._world.clients]
        one = self._random.choice(focused)
        others = focused if len(focused) > 1 and self._random.random() < 0.5 else everybody
        return one, self._random.choice([host for host in others if host is not one])

    def _expendable(self) -> Host | None:
        """A replica whose data its shard can do without."""
        world = self._world
        candidates = []
        for shard in world.view.shards:
            hosts = world.hosts_of(shard.shard)
            broken = [host for host in hosts if is_destroyed(world, host)]
            for host in hosts:
                host.is_broken = host in broken
            gone = len(broken) + max(0, shard.size - len(hosts)) + world.administrator.is_replacing(shard.shard)
            if gone < shard.f:
                candidates += [host for host in hosts if host not in broken]
        return self._random.choice(candidates) if candidates else None

    # Processes and hosts

    def _kill(self) -> str | None:
        host = self._running()
        if host is not None:
            self._world.kill(host, "at any time")
        return None if host is None else host.name

    def _die_writing(self) -> str | None:
        host = self._running()
        if host is not None:
            host.disk.dies_after = self._random.randint(0, 30)
        return None if host is None else host.name

    def _power(self) -> str | None:
        host = self._server()
        self._world.lose_power(host, self._random.choice(("sector", "byte")))
        return host.name

    def _blackout(self) -> str:
        for host in self._world.hosts.values():
            self._world.lose_power(host)
        return "everywhere"

    def _stop(self) -> str | None:
        host = self._running()
        if host is not None:
            self._world.stop(host)
        return None if host is None else host.name

    def _pause(self) -> str | None:
        host = self._running()
        if host is None or host.process is None:
            return None
        process = host.process
        process.is_paused = True
        self._later(0.01, 12, lambda: self._world.scheduler.resume(process))
        return host.name

    def _client(self) -> str | None:
        world = self._world
        running = [host for host in world.clients if host.is_up]
        if not running:
            return None
        host = self._random.choice(running)
        world.kill(host, "a client")
        return host.name

    def _clock(self) -> str:
        """The time of day jumps, of one host or of many at once."""
        hosts = [self._random.choice([*self._world.hosts.values(), *self._world.clients])]
        if self._random.random() < 0.5:
            hosts = self._focused()
        jumps = self._world.jumps
        jump_us = jumps.drawn_us(self._random.choice((-1, 1)) * self._random.random())
        self._set_clocks(hosts, jump_us)
        if jumps.is_short():
            self._after(jumps.delay_s(), lambda: self._set_clocks(hosts, -jump_us))
        return f"by {jump_us / 1e6:g} s of {', '.join(host.name for host in hosts)}"

    def _set_clocks(self, hosts: list[Host], jump_us: int) -> None:
        for host in hosts:
            self._world.jumps.set(host, jump_us)

    # Shards

    def _add_shard(self) -> str | None:
        administrator = self._world.administrator
        places = [each.shard for each in self._world.whole_file.shards if each.shard not in administrator.registered]
        if not places:
            return None
        administrator.ask(Task(places[0], is_new=True))
        return f"{places[0]}"

    def _finalize(self) -> str | None:
        """Ask for it; the last shard that takes appends is not finalized."""
        administrator = self._world.administrator
        shards = sorted(administrator.registered - administrator.leaving)
        if len(shards) < 2:
            return None
        task = Task(self._random.choice(shards), is_new=False, waits=self._random.random() < 0.7)
        if self._random.random() < 0.5:
            task.grace_cuts, task.grace_s = self._random.randint(0, 30), self._random.choice((0.0, 0.3, 1.0))
        administrator.ask(task)
        return f"{task.shard}, with a grace of {task.grace_cuts} cuts and {task.grace_s} s"

    def _replace_replica(self) -> str | None:
        """A host is given up, perhaps with all that is on it; one that waits takes its place."""
        world, administrator = self._world, self._world.administrator
        spares = [host for host in world.hosts.values() if host.place and host.place.role == "spare"]
        free = [host for host in spares if not administrator.has_used(host.name) and not self._is_member(host)]
        shards = [
            shard
            for shard in world.view.shards
            if len(shard.replicas) == shard.size > 1
            and not administrator.is_replacing(shard.shard)
            and not any(is_destroyed(world, host) for host in world.hosts_of(shard.shard))
        ]
        if not free or not shards:
            return None
        shard, spare = self._random.choice(shards), self._random.choice(free)
        old = self._random.choice(shard.replicas)
        administrator.replace(Replacement(shard.shard, old.replica, spare))
        if self._random.random() < 0.5:
            host = next(each for each in world.hosts_of(shard.shard) if each.address == old.address.host)
            world.kill(host, "it is given up")
        return f"{shard.shard}/{old.replica} by {spare.name}"

    def _is_member(self, host: Host) -> bool:
        addresses = {each.address.host for shard in self._world.view.shards for each in shard.replicas}
        return host.address in addresses

    # Links

    def _isolate(self) -> str:
        host = self._server()
        others = [other for other in [*self._world.hosts.values(), *self._world.clients] if other is not host]
        self._cut_links([(host, other) for other in others] + [(other, host) for other in others])
        return host.name

    def _cut(self) -> str:
        one, other = self._two()
        self._cut_links([(one, other), (other, one)])
        return f"between {one.name} and {other.name}"

    def _one_way(self) -> str:
        one, other = self._two()
        self._cut_links([(one, other)])
        return f"from {one.name} to {other.name}"

    def _split(self) -> str:
        """An orderer, most often the leader, is cut off from the others; clients and replicas reach all of them.

        For as long as it takes the others to elect another leader, however impatient this seed is.
        """
        orderers = self._orderers()
        leaders = [host for host in orderers if leads(host)]
        one = self._random.choice(leaders if leaders and self._random.random() < 0.7 else orderers)
        others = [host for host in orderers if host is not one]
        links = [(one, other) for other in others] + [(other, one) for other in others]
        patience = self._world.configuration.patience
        self._cut_links(links, 1.2 / patience, 4 / patience)
        return one.name

    def _cut_links(self, links: list[tuple[Host, Host]], low_s: float = 0.2, high_s: float = 25) -> None:
        network = self._world.network
        pairs = [(one.address, other.address) for one, other in links]
        for pair in pairs:
            network.cut(*pair)

        def heal() -> None:
            for pair in pairs:
                network.heal(*pair)

        self._later(low_s, high_s, heal)

    def _storm(self) -> str:
        weather = self._world.network.weather
        weather.loss = self._random.choice((0.05, 0.3))
        weather.straggler = 0.1

        def calm() -> None:
            weather.loss, weather.straggler = 0, self._world.configuration.straggler

        self._later(0.5, 5, calm)
        return f"that loses {weather.loss:.0%}"

    # Disks

    def _slow_disk(self) -> str:
        host = self._server()
        self._set_slow(host, self._random.choice((2 * _MS, 30 * _MS, 300 * _MS)))
        self._later(0.5, 8, lambda: self._set_slow(host, 0))
        return host.name

    def _set_slow(self, host: Host, slow_ns: int) -> None:
        host.slow_ns = slow_ns
        if host.process is not None:
            host.process.slow_ns = slow_ns

    def _full_disk(self) -> str:
        host = self._server()
        disk = host.disk
        disk.capacity_bytes = disk.used_bytes + self._random.randint(0, 5000)

        def free() -> None:
            disk.capacity_bytes = None

        self._later(0.5, 10, free)
        return host.name

    def _failed_sync(self) -> str | None:
        host = self._expendable() if self._random.random() < 0.7 else self._random.choice(self._orderers())
        if host is not None:
            host.disk.fail_next_sync()
        return None if host is None else host.name

    def _orderers(self) -> list[Host]:
        return [host for host in self._world.hosts.values() if host.place and host.place.role == "orderer"]

    def _wipe(self) -> str | None:
        host = self._expendable()
        if host is not None:
            self._world.kill(host, "its disk is lost")
            host.replace_disk()
        return None if host is None else host.name

    def _flip(self) -> str | None:
        """Damage a file of a replica's lanes while the replica is down, so that recovery meets it."""
        host = self._expendable()
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


def is_complete(world: World, host: Host) -> bool:
    """Whether a replica has everything of its shard that was acknowledged to anybody."""
    server = host.replica
    if not host.is_up or server is None:
        return False
    last = max(server.core.tail, world.recorder.last_position + 1)
    if server.core.state == "reclaimed":
        return True
    return server.core.state in ("serving", "finalized") and server.core.readable >= last


def is_destroyed(world: World, host: Host) -> bool:
    """Whether a replica's data is gone or damaged, or may be so by the time that this is known."""
    return (
        host.was_flipped  # it may not have met the damage yet
        or host.disk.will_fail_sync
        or host.sync_failed_ns is not None  # it ends soon
        or (host.is_broken and not is_complete(world, host))
    )
