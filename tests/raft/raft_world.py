"""A group of Raft servers on simulated disks, the network between them, and time.

Each server is the production core on the production `RaftLog`; the loop around them is the shell that the
docstring of `ithaca.raft` describes. `raft_network` decides what happens to this world.
"""

import hashlib
import struct
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from math import ceil
from random import Random

import msgspec
from tests.raft.raft_checker import Checker, Violation

from ithaca.model.errors import Fenced, StorageFull
from ithaca.raft.core import RaftCore
from ithaca.raft.events import (
    Apply,
    Effect,
    Event,
    FetchSnapshot,
    Persist,
    Persisted,
    Proposed,
    ReadReady,
    Receive,
    RefusedRequest,
    Restore,
    Role,
    RoleChanged,
    Send,
    Settings,
    SnapshotFetched,
    SnapshotTaken,
    TakeSnapshot,
    Tick,
    Transferring,
    Unreachable,
)
from ithaca.raft.messages import AnyMessage, DurableState, InstallSnapshot, ServerId, SnapshotChunk
from ithaca.sim.disk import PowerLoss, SimDisk
from ithaca.storage.raftlog import RaftLog

DIRECTORY = "/raft"
COUNTERS = (
    "terms led",
    "entries committed",
    "proposals accepted",
    "requests refused",
    "reads",
    "changes committed",
    "transfers",
    "logs rewritten",
    "snapshots sent",
    "snapshots restored",
    "snapshots fetched",
    "messages lost",
    "messages duplicated",
    "full partitions",
    "partial partitions",
    "asymmetric partitions",
    "kills",
    "power losses",
    "persists cut short",
    "restarts",
    "failed syncs",
    "full disks",
    "pauses",
    "clock jumps",
    "clocks skewed",
)
_STATE = struct.Struct("<QI")


class Conditions(msgspec.Struct, frozen=True):
    """How the servers are set, and how bad network and disks are."""

    settings: Settings
    delay_ms: int
    slow_share: float
    loss: float
    duplicates: float
    disk_ms: int
    restart_ms: int


class Server:
    """One server: its disk for good, its process while it is up."""

    def __init__(self, server: ServerId) -> None:
        self.id = server
        self.disk = SimDisk()
        self.disk.make_directory(DIRECTORY)
        self.disk.sync_directory("/")
        self.boot = 0
        self.last_words_lost = False
        """Whether what was under way from the process that died last is lost with it."""
        self.core: RaftCore | None = None
        self.log: RaftLog | None = None
        self.persists: deque[tuple[Persist, list[Effect]]] = deque()
        self.digest = 0
        self.applied_index = 0
        self.tick_ms = 0
        self.paused_until_ms = 0
        self.clock_offset_ms = 0.0
        self.clock_rate = 1.0


class World:
    """Servers, messages under way, and what is planned to happen, in order of time."""

    def __init__(self, random: Random, conditions: Conditions) -> None:
        self.random = random
        self.conditions = conditions
        self.checker = Checker()
        self.now_ms = 0
        self.counts = dict.fromkeys(COUNTERS, 0)
        self.servers: dict[ServerId, Server] = {}
        self.blocked: set[tuple[ServerId, ServerId]] = set()
        self.is_faulty = True
        self.read_floors: dict[int, int] = {}
        self.trace = hashlib.blake2b(digest_size=16)
        self._queue: list[tuple[int, int, Callable[..., None], tuple[object, ...]]] = []
        self._order = 0
        self._story: deque[tuple[object, ...]] = deque(maxlen=80)

    def run_until(self, stop_ms: int, until: Callable[[], bool] | None = None) -> None:
        while self._queue and self._queue[0][0] <= stop_ms and not (until is not None and until()):
            self.now_ms, _, action, arguments = heappop(self._queue)
            action(*arguments)

    def at(self, delay_ms: int, action: Callable[..., None], *arguments: object) -> None:
        self._order += 1
        heappush(self._queue, (self.now_ms + delay_ms, self._order, action, arguments))

    def note(self, what: str, *details: object) -> None:
        """Count something, and make it part of the trace."""
        self.counts[what] += 1
        self.tell(what, *details)

    def tell(self, *details: object) -> None:
        self._story.append((self.now_ms, *details))
        self.trace.update(msgspec.msgpack.encode((self.now_ms, *details)))

    def story(self) -> str:
        return "\n".join(" ".join(map(str, event)) for event in self._story)

    # The shell of one server.

    def create(self, number: ServerId, state: DurableState) -> None:
        server = Server(number)
        self.servers[number] = server
        server.log = RaftLog.create(server.disk, DIRECTORY, state)
        server.core = self._core(server, state)
        self.checker.created(server.core, state)
        self.plan_tick(server)

    def _core(self, server: Server, state: DurableState) -> RaftCore:
        random = Random(self.random.getrandbits(32))
        return RaftCore(server.id, self.conditions.settings, random, state, now_ms=self._clock(server))

    def _clock(self, server: Server) -> int:
        return int(self.now_ms * server.clock_rate + server.clock_offset_ms)

    def set_clock_rate(self, server: Server, rate: float) -> None:
        server.clock_offset_ms += self.now_ms * (server.clock_rate - rate)
        server.clock_rate = rate
        self.plan_tick(server)

    def step(self, server: Server, boot: int, event: Event) -> None:
        """Give an event to a server, unless the process that it was meant for is gone."""
        if boot != server.boot or server.core is None:
            return
        if server.paused_until_ms > self.now_ms:
            self.at(server.paused_until_ms - self.now_ms, self.step, server, boot, event)
            return
        if self._clock(server) > server.core.node.now_ms:
            self._step(server, server.core, Tick(self._clock(server)))
        if not isinstance(event, Tick) and server.core is not None and boot == server.boot:
            self._step(server, server.core, event)

    def _step(self, server: Server, core: RaftCore, event: Event) -> None:
        self.tell(server.id, type(event).__name__, event)
        effects = core.step(event)
        self.checker.stepped(core)
        self._perform(server, effects)
        self.plan_tick(server)

    def plan_tick(self, server: Server) -> None:
        if server.core is None:
            return
        wanted_ms = ceil((server.core.deadline_ms - server.clock_offset_ms) / server.clock_rate)
        due_ms = max(self.now_ms + 1, wanted_ms)
        if server.tick_ms <= self.now_ms or due_ms < server.tick_ms:
            server.tick_ms = due_ms
            self.at(due_ms - self.now_ms, self._tick, server, server.boot, due_ms)

    def _tick(self, server: Server, boot: int, planned_ms: int) -> None:
        if boot != server.boot or planned_ms != server.tick_ms or server.core is None:
            return
        server.tick_ms = 0
        if self._clock(server) >= server.core.deadline_ms:
            self.step(server, boot, Tick(self._clock(server)))
        self.plan_tick(server)

    def _perform(self, server: Server, effects: list[Effect]) -> None:
        for place, effect in enumerate(effects):
            if isinstance(effect, Persist):
                server.persists.append((effect, effects[place + 1 :]))
                if len(server.persists) == 1:
                    self._start_persist(server)
                return
            self._perform_one(server, effect)

    def _perform_one(self, server: Server, effect: Effect) -> None:
        match effect:
            case Send():
                self.checker.promised(server.id, effect.to, effect.message)
                self._transmit(server.id, effect.to, effect.message)
                self.after_send(server, effect.message)
            case Apply():
                server.digest = self.checker.applied(server.id, effect.entries, server.digest)
                server.applied_index = effect.entries[-1].index
            case Restore():
                self._restore(server, effect.snapshot.data)
                self.checker.restored(server.id, effect.snapshot, server.digest)
                self.note("snapshots restored", server.id)
            case FetchSnapshot():
                snapshot = effect.snapshot
                done = SnapshotFetched(snapshot.index, snapshot.term)
                self.at(self.random.randint(1, 300), self._fetched, server, server.boot, done)
            case TakeSnapshot():
                self.at(self.random.randint(1, 100), self._take_snapshot, server, server.boot)
            case ReadReady():
                self.checker.read(effect.index, self.read_floors.pop(effect.request))
                self.note("reads", effect.request, effect.index)
            case Proposed():
                self.note("proposals accepted", effect.request)
            case RefusedRequest():
                self.read_floors.pop(effect.request, None)
                self.note("requests refused", effect.request, effect.reason)
            case Transferring():
                self.note("transfers", effect.request)
            case RoleChanged():
                self.tell(server.id, effect.role.value, effect.term)
                self.after_role_change(server, effect.role)
            case Persist():
                raise AssertionError("a list holds one persist at most")

    def after_send(self, server: Server, message: AnyMessage) -> None:
        """A place for faults that aim."""

    def after_role_change(self, server: Server, role: Role) -> None:
        """Another."""

    def _start_persist(self, server: Server) -> None:
        self.at(self.random.randint(0, self.conditions.disk_ms), self._finish_persist, server, server.boot)

    def _finish_persist(self, server: Server, boot: int) -> None:
        if boot != server.boot or server.log is None:
            return
        if server.paused_until_ms > self.now_ms:
            self.at(server.paused_until_ms - self.now_ms, self._finish_persist, server, boot)
            return
        effect, behind = server.persists[0]
        try:
            server.log.persist(effect)
        except StorageFull:
            self.note("full disks", server.id)
            self.at(20, self._finish_persist, server, boot)
            return
        except Fenced:
            self.note("failed syncs", server.id)
            self.stop(server, half_done=True)
            return
        if effect.snapshot is not None:
            self.note("logs rewritten", server.id)
        self.checker.persisted(server.id, effect)
        server.persists.popleft()
        if server.persists:
            self._start_persist(server)
        self._perform(server, behind)
        self.step(server, boot, Persisted(effect.sequence))

    def _take_snapshot(self, server: Server, boot: int) -> None:
        data = _STATE.pack(server.applied_index, server.digest)
        self.step(server, boot, SnapshotTaken(server.applied_index, data))

    def _fetched(self, server: Server, boot: int, done: SnapshotFetched) -> None:
        if boot == server.boot:
            self.note("snapshots fetched", server.id)
        self.step(server, boot, done)

    def _restore(self, server: Server, data: bytes) -> None:
        server.applied_index, server.digest = _STATE.unpack(data) if data else (0, 0)

    def stop(self, server: Server, *, half_done: bool, power: bool = False) -> None:
        """End the process, perhaps in the middle of its persist, and plan its restart."""
        attempted: Persist | None = None
        if server.persists and server.log is not None and half_done:
            attempted = server.persists[0][0]
            server.disk.power_fails_after(self.random.randint(0, 6))
            try:
                server.log.persist(attempted)
            except (PowerLoss, StorageFull, Fenced):
                self.note("persists cut short", server.id)
            else:  # synced just before the end, and nobody was told
                self.checker.persisted(server.id, attempted)
                attempted = None
        server.core = server.log = None
        server.persists.clear()
        server.boot += 1
        server.last_words_lost = self.random.random() < 0.5
        server.paused_until_ms = 0
        if power:
            server.disk.crash(self.random, tear=self.random.choice(("sector", "byte")))
        else:
            server.disk.kill()
        self.at(self.random.randint(1, self.conditions.restart_ms), self._restart, server, attempted)

    def _restart(self, server: Server, attempted: Persist | None) -> None:
        server.disk.capacity_bytes = None
        try:
            server.log, state = RaftLog.open(server.disk, DIRECTORY)
        except Fenced:
            self.note("failed syncs", server.id)
            server.disk.kill()
            self.at(100, self._restart, server, attempted)
            return
        self._restore(server, state.snapshot.data)
        server.core = self._core(server, state)
        self.checker.recovered(server.core, state, attempted)
        self.note("restarts", server.id)
        server.tick_ms = 0
        self.plan_tick(server)

    # The network.

    def _transmit(self, sender: ServerId, to: ServerId, message: AnyMessage) -> None:
        random, conditions = self.random, self.conditions
        source, target = self.servers[sender], self.servers.get(to)
        if target is None or (sender, to) in self.blocked or (self.is_faulty and random.random() < conditions.loss):
            self.note("messages lost", sender, to)
            if random.random() < 0.05:
                self.at(1, self.step, source, source.boot, Unreachable(to))
            return
        if isinstance(message, InstallSnapshot) or (isinstance(message, SnapshotChunk) and not message.offset):
            self.note("snapshots sent", sender, to)
        copies = 1
        if random.random() < conditions.duplicates:
            self.note("messages duplicated", sender, to)
            copies = 2
        for _ in range(copies):
            slow = self.is_faulty and random.random() < conditions.slow_share
            delay_ms = random.randint(1, conditions.delay_ms * (40 if slow else 1))
            self.at(delay_ms, self._deliver, source, source.boot, target, message)

    def _deliver(self, source: Server, boot: int, target: Server, message: AnyMessage) -> None:
        if source.boot != boot and source.last_words_lost:
            self.note("messages lost", source.id, target.id)
            return
        if target.core is not None and (wrong := target.core.objection(message)) is not None:
            raise Violation(f"server {target.id} does not believe server {source.id}: {wrong}")
        self.step(target, target.boot, Receive(message))
