"""A whole cluster in one process: hosts with disks and clocks, servers on them, clients, and a supervisor.

The servers and the handles are those of production; only loops, network, disks and clocks are simulated. What
each process says in its log, and what befalls it, is the story of a run.
"""

import hashlib
import logging
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from signal import SIGTERM
from typing import Any

from ithaca.cluster.layout import bootstrap_of, servers_of, spares_of
from ithaca.engines.registry import engine
from ithaca.model.errors import IthacaError
from ithaca.model.interface.awaited import ClusterLog
from ithaca.model.view import Address, View
from ithaca.protocol.codec import known_types
from ithaca.protocol.members import RaftMessage
from ithaca.raft.events import Settings
from ithaca.runtime import machine
from ithaca.server.options import ServerOptions
from ithaca.server.process import CLEAN, FENCED, Server, serve, status_of
from ithaca.sim.clients.administrator import Administrator
from ithaca.sim.clients.consumers import Consuming, Ledger
from ithaca.sim.clients.groups import Grouped, GroupLedger
from ithaca.sim.clients.outsiders import Outsider
from ithaca.sim.clients.producers import Producer
from ithaca.sim.clients.readers import Reader
from ithaca.sim.clients.taking import OutSessions
from ithaca.sim.configuration import MEMBER_FAULTS, Configuration
from ithaca.sim.disk import Tear
from ithaca.sim.engine import Client, Simulation, simulated
from ithaca.sim.excuses import is_allowed, is_explained
from ithaca.sim.faults.clocks import ClockJumps
from ithaca.sim.faults.members import Members
from ithaca.sim.faults.replacing import REPLACE
from ithaca.sim.faults.shards import FINALIZE_UNHEARD
from ithaca.sim.host import Host
from ithaca.sim.neighbours import Neighbours
from ithaca.sim.network import SimNetwork
from ithaca.sim.process import Killed, Process, SimMachine
from ithaca.sim.recorder import Recorder
from ithaca.sim.rules.order_times import OrderTimes
from ithaca.sim.scheduler import NS_PER_S, Scheduler
from ithaca.sim.violation import Violation

_STORY_LINES = 400
_RESTART_S = (0.1, 3.0)


class _Story(logging.Handler):
    """Keeps the last log lines of all processes, with the time and the process."""

    def __init__(self, world: "World") -> None:
        super().__init__(logging.INFO)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        running = machine.current()
        name = running.process_name if isinstance(running, SimMachine) else "the world"
        text = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            text += f" ({record.exc_info[1]!r})"
        self._world.tell(f"{name}: {text}")


class World:
    """One run of one seed, from the first start of the servers to the end."""

    def __init__(self, configuration: Configuration) -> None:
        self.configuration: Configuration = configuration
        self.random = Random(f"{configuration.seed} faults")
        self.scheduler = Scheduler()
        self.counts: Counter[str] = Counter()
        """How often each fault and each odd thing came up."""
        self.story: deque[str] = deque(maxlen=_STORY_LINES)
        added = simulated(configuration.engine)
        self.network = self._network((RaftMessage, *added.repeatable))
        self.file = configuration.cluster()
        everything = configuration.cluster(configuration.spares, configuration.spare_orderers)
        self.whole_file = replace(everything, orderers=(everything if configuration.retires else self.file).orderers)
        """With the shards that are to be added, as their replicas and aggregators know them."""
        self._order_file = replace(everything, shards=self.file.shards)
        """As spare orderers know it."""
        self.bootstrap = bootstrap_of(self.whole_file)
        places = servers_of(everything) + spares_of(everything)
        self.hosts: dict[str, Host] = {
            place.name: Host(self, place.name, place.address.host, place) for place in places
        }
        self.view = View()
        """The newest that an orderer has applied."""
        self.recorder = Recorder(lambda: self.scheduler.now_ns)
        self.producers = [Producer(self, number) for number in range(configuration.producers)]
        self.readers = [Reader(self, number) for number in range(configuration.readers)]
        self.administrator = Administrator(self)
        self.members = Members(self, self.random)
        self.jumps = ClockJumps(self)
        self.ordered: OrderTimes = OrderTimes()
        """Of the engine's own kind, where it has one."""
        self.simulation: Simulation = added.simulate(self)
        """What its engine adds."""
        self._roles: list[Client] = [*self.producers, *self.readers]
        administered = {"add-shard", "finalize", FINALIZE_UNHEARD, REPLACE, *MEMBER_FAULTS, *added.administered}
        if administered & set(configuration.faults):
            self._roles.append(self.administrator)
        self._roles += self.simulation.clients()
        out = OutSessions(self.recorder) if configuration.takers_write else None
        ledger = Ledger(out)
        self.consumers = [Consuming(self, number, ledger) for number in range(configuration.consumers)]
        group = GroupLedger(out)
        self.grouped = [Grouped(self, number, group) for number in range(configuration.group_members)]
        self._roles += [*self.consumers, *self.grouped]
        self._roles += [Outsider(self)] if configuration.users else []
        self.clients: list[Host] = []
        self.have_clients(self._roles)
        self.is_loaded = True
        """Whether producers go on."""
        self.is_healing = False
        self.awaits_idle_names = False
        """Whether names are to expire that nobody uses any more; others are used."""
        self.violation: Violation | None = None
        self.tokens: dict[str, str] = {}
        """Of programs that are users, by their names: they keep them from one life to the next."""
        self.handles: list[ClusterLog] = []
        """Of all clients, those included that are dead."""
        self._graveyard: list[Process] = []
        self._trace = hashlib.blake2b(digest_size=16)
        self._handler = _Story(self)

    def _network(self, robust: tuple[type, ...]) -> SimNetwork:
        """With the weather of the seed; messages of these kinds may be lost, doubled and swapped one by one."""
        configuration = self.configuration
        network = SimNetwork(self.scheduler, Random(f"{configuration.seed} network"), self.count, self._note)
        weather = network.weather
        weather.delay_ns, weather.straggler = configuration.delay_ns, configuration.straggler
        weather.split, weather.mischief = configuration.split, configuration.mischief
        weather.robust_types = frozenset(number for number, kind in known_types().items() if kind in robust)
        return network

    def have_clients(self, roles: Sequence[Client]) -> None:
        """Have these, and no others; before anybody is started."""
        self._roles = list(roles)
        self.clients = [Host(self, each.name, f"10.0.1.{number}", None) for number, each in enumerate(roles, 1)]

    def replicas(self) -> list[Host]:
        """The hosts of all servers that keep records, as it is agreed now."""
        return [host for group in self.simulation.groups() for host in group.hosts]

    def hosts_of(self, number: int) -> list[Host]:
        """The hosts of a shard's replicas: as the view says, else as its servers were started."""
        shard = next((each for each in self.view.shards if each.shard == number), None)
        if shard is None:
            return [host for host in self.hosts.values() if host.place and host.place.shard == number]
        addresses = [each.address.host for each in shard.replicas]
        return [host for host in self.hosts.values() if host.is_storage and host.address in addresses]

    # What happened

    def count(self, what: str) -> None:
        self.counts[what] += 1

    def tell(self, text: str) -> None:
        self.story.append(f"{self.scheduler.now_ns / NS_PER_S:12.6f}  {text}")

    def met(self, error: IthacaError, call: str) -> None:
        """A client was told an error by a call (see `excuses.DOCUMENTED`)."""
        self.count(f"client met {type(error).__name__}")
        if not is_allowed(self, error, call):
            self.accuse("explained", f"a client that was to {call} was told what nothing explains: {error!r}")

    def accuse(self, rule: str, text: str) -> None:
        """The run ends with this step."""
        self.violation = self.violation or Violation(rule, text)

    @property
    def was_damaged(self) -> bool:
        """Whether a bit was flipped on any disk."""
        return self.counts["bit flipped"] > 0

    def trace(self) -> str:
        """A hash over everything that happened, in its order."""
        return self._trace.hexdigest()

    def _note(self, source: str, target: str, chunk: bytes) -> None:
        self._trace.update(b"%s>%s " % (source.encode(), target.encode()))
        self._trace.update(chunk)

    # Servers

    def start(self, host: Host) -> None:
        """Start the host's server, or client, unless it runs."""
        if host.is_up or host.is_retired:
            return
        host.lives += 1
        host.disk.lacked_space = False
        host.is_stopping = False
        random = Random(f"{self.configuration.seed} {host.name} {host.lives}")
        process = Process(host.name, host.address, self.scheduler, self.network, host.clocks, random, self._unhandled)
        process.slow_ns = host.slow_ns
        process.neighbours = Neighbours(lambda name: self.hosts[name].disk)
        process.disk_number = lambda name: self.hosts[name].disks
        host.process = process
        self.network.dark_hosts.discard(host.address)
        main = self._serve(host, process) if host.place is not None else self._be_client(host, process, random)
        process.loop.spawn(main)

    async def _serve(self, host: Host, process: Process) -> None:
        """What the process of a server does, and then its supervisor."""
        error: Exception | None = None
        try:
            await serve(lambda: self._made(host))
        except Exception as failure:
            error = failure
        status = CLEAN if error is None else status_of(error)
        self.count(f"server ended with {status}")
        if error is not None and not isinstance(error, IthacaError | OSError):
            self._unhandled(process, {"message": "the server failed", "exception": error})
        elif error is not None and host.process is process and not is_explained(host, error):
            self.accuse("explained", f"{host.name} has ended for what nobody did to it: {error!r}")
        self._end(host, process, silently=False)
        if status == FENCED:
            self.fenced(host)
        elif host.must_restart:
            self.restart_later(host)

    def _made(self, host: Host) -> Server:
        place = host.place
        assert place is not None
        file, settings = self.whole_file, Settings()
        if place.role == "spare":
            place = replace(place, address=Address(host.called, place.address.port))
        elif place.role == "orderer":
            founded = any(each.server == place.number for each in self.file.orderers)
            file, settings = self.file if founded else self._order_file, self.configuration.raft()
        options = ServerOptions(host.disk, settings)
        host.server = engine(file.engine).make_server(file, place, host.directory, options)
        return host.server

    def fenced(self, host: Host) -> None:
        """It must not be started again in place: a replica begins with an empty disk, an orderer's host is
        power-cycled, after which nothing is left that was not synced."""
        if host.is_storage:
            host.replace_disk()
        else:
            host.disk.crash(self.random)
        self.restart_later(host)

    def restart_later(self, host: Host) -> None:
        low, high = _RESTART_S
        delay_s = low if self.is_healing else self.random.uniform(low, high) * self.configuration.patience
        self.scheduler.plan(int(delay_s * NS_PER_S), None, lambda: self._restart(host))

    def _restart(self, host: Host) -> None:
        if host.must_restart:
            self.start(host)

    def retire(self, host: Host) -> None:
        """Nobody starts it again; if it runs, it is asked to stop."""
        host.is_retired, host.must_restart = True, False
        self.stop(host)

    def stop(self, host: Host) -> None:
        """Ask a server to stop, as SIGTERM does."""
        if host.process is not None and not host.is_stopping:
            host.is_stopping = True
            host.process.loop.signal(SIGTERM)

    def kill(self, host: Host, why: str) -> None:
        """The process ends at once; what it wrote is there."""
        if host.is_up and host.process is not None:
            self.tell(f"{host.name} is killed: {why}")
            self._end(host, host.process, silently=False)
            self.restart_later(host)

    def lose_power(self, host: Host, tear: Tear = "sector") -> None:
        """The host goes dark; what was not synced may be gone, in whole or in part."""
        self.tell(f"{host.name} loses its power")
        if host.process is not None:
            self._end(host, host.process, silently=True)
        host.disk.crash(self.random, tear=tear)
        host.flip_is_hidden = host.was_flipped
        self.network.dark_hosts.add(host.address)
        self.restart_later(host)

    def _end(self, host: Host, process: Process, *, silently: bool) -> None:
        process.die(silently=silently)
        self._graveyard.append(process)  # what is left of it is not collected before the run is over
        host.disk.kill()
        host.disk.dies_after = host.disk.dies_unsynced = None
        self.recorder.died(process)
        host.sync_failed_ns = None
        if host.process is process:
            host.process = host.server = None

    def _unhandled(self, process: Process, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, Killed):
            return
        if isinstance(error, Violation):
            self.violation = self.violation or error
            return
        self.violation = Violation("unexpected", f"{process.name}: {context.get('message')}: {error!r}")
        self.violation.__cause__ = error

    # Clients

    async def _be_client(self, host: Host, process: Process, random: Random) -> None:
        client = next(each for each in self._roles if each.name == host.name)
        try:
            await client.main(process, random)
        except Exception as error:
            self._unhandled(process, {"message": "the client failed", "exception": error})

    def leave(self, client: Host) -> None:
        """A client is done for good."""
        client.must_restart = False
        if client.process is not None:
            self._end(client, client.process, silently=False)

    # Time

    def run_until(
        self, done: Callable[[], bool], *, within_s: float, events_max: int, check: Callable[[str], None]
    ) -> bool:
        """Let things happen until it is done, or the time or the events are used up; says whether it is done.

        `check` is told to whom each thing has happened, and raises `Violation`.
        """
        scheduler = self.scheduler
        end_ns = scheduler.now_ns + int(within_s * NS_PER_S)
        end_count = scheduler.count + events_max
        while not done():
            next_ns = scheduler.next_ns()
            if next_ns is None or next_ns > end_ns or scheduler.count >= end_count:
                return False
            who = scheduler.step()
            if self.violation is not None:
                raise self.violation
            if who is not None:
                self._trace.update(b"%d %s\n" % (scheduler.now_ns, who.name.encode()))
                check(who.name)
        return True

    def __enter__(self) -> "World":
        self._machine = machine.current()
        logger = logging.getLogger("ithaca")
        self._logger = (logger.level, logger.propagate)
        logger.addHandler(self._handler)
        logger.setLevel(logging.INFO)
        logger.propagate = False
        return self

    def __exit__(self, *_: object) -> None:
        logger = logging.getLogger("ithaca")
        logger.removeHandler(self._handler)
        logger.setLevel(self._logger[0])
        logger.propagate = self._logger[1]
        machine.use(self._machine)
        self._let_go()

    def _let_go(self) -> None:
        """Finalizers know the loops and streams of what they end: let them lead nowhere, so that all can go."""
        for host in [*self.hosts.values(), *self.clients]:
            if host.process is not None:
                host.process.is_alive = False
                self._graveyard.append(host.process)
            host.process = host.server = None
        for process in self._graveyard:
            process.loop.end()
            process.stalled.clear()
        for handle in self.handles:
            self.simulation.let_go(handle)
        self.handles.clear()
        self.network.clear()
        self.scheduler.clear()
        for process in self._graveyard:
            process.loop.close_suspended()
        self._graveyard.clear()
