"""Seeded runs of a Raft group over a bad network: `run_seed(seed)` checks every property, step by step.

A seed draws a configuration (which faults, how many, how severe: a swarm, so that every seed stresses
something else), runs a group of three to five servers through a few seconds of simulated time with
proposals, reads, membership changes, transfers and snapshots, then heals everything and demands that the
group converges and makes progress. `raft_checker` is asked after every step. The same seed gives the same
run, to the byte: `Result.trace` is a hash of all events. Read `raft_world` for the servers themselves.
"""

from collections.abc import Callable
from random import Random

import msgspec
from tests.raft.raft_checker import Violation
from tests.raft.raft_world import Conditions, Server, World

from ithaca.raft.events import Change, ChangeMembership, Event, Propose, ReadIndex, Role, Settings, TransferLeadership
from ithaca.raft.messages import AnyMessage, DurableState, EntryKind, VoteReply, first_state

RUN_MS = 5_000
HEAL_MS = 120_000
SERVERS_MAX = 7


class Swarm(msgspec.Struct, frozen=True):
    """One seed's configuration. The weights of what happens are relative; 0 switches one off."""

    servers: int
    action_ms: int
    weights: dict[str, float]
    strike_voters: float
    """How often a server stops right after it voted."""
    strike_leaders: float
    """How often something happens to a leader soon after its election."""
    conditions: Conditions


def draw(random: Random, chunk_bytes: int, *, fetches: bool) -> Swarm:
    def maybe(high: float) -> float:
        return random.choice((0, 0, high * random.random()))

    election_ms = random.choice((100, 200, 400))
    settings = Settings(
        election_timeout_ms=election_ms,
        heartbeat_ms=election_ms // 5,
        snapshot_entries=random.choice((5, 20, 60, 1000)),
        trailing_entries=random.choice((0, 3, 20)),
        append_entries_max=random.choice((1, 3, 64)),
        append_bytes_max=random.choice((64, 300, 1 << 20)),
        inflight_appends_max=random.choice((1, 3, 16)),
        inflight_bytes_max=random.choice((200, 1 << 20)),
        uncommitted_entries_max=random.choice((10, 1000)),
        learner_lag_entries_max=random.choice((0, 5, 100)),
        snapshot_chunk_bytes=chunk_bytes,
        paces=fetches,
        fetches=fetches,
    )
    conditions = Conditions(
        settings=settings,
        delay_ms=random.choice((2, 5, 30)),
        slow_share=maybe(0.2),
        loss=maybe(0.3),
        duplicates=maybe(0.2),
        disk_ms=random.choice((0, 2, 20)),
        restart_ms=random.choice((5, 5, 100, 1000)),
    )
    weights = {"propose": 10.0, "read": 5 * random.random()}
    weights |= {"change membership": maybe(4), "transfer": maybe(2)}
    weights |= {name: maybe(0.7) for name in ACTIONS if name not in weights}
    return Swarm(
        servers=random.choice((3, 3, 4, 5, 5)),
        action_ms=random.choice((5, 10, 20, 100)),
        weights=weights,
        strike_voters=random.choice((0, 0, 0.3, 1)),
        strike_leaders=random.choice((0, 0, 0.3, 1)),
        conditions=conditions,
    )


class Result(msgspec.Struct, frozen=True):
    """What a run did: the hash of its events, and how often each thing happened."""

    seed: int
    trace: str
    counts: dict[str, int]


def run_seed(seed: int) -> Result:
    """Run one seed; raises `Violation` with the seed, its configuration and the last events."""
    run = _Run(seed)
    try:
        run.run()
    except Exception as error:
        where = f"seed {seed}\nconfiguration {run.swarm}\n{run.story()}"
        raise Violation(f"{type(error).__name__}: {error}\n{where}") from error
    return Result(seed, run.trace.hexdigest(), run.counts)


class _Run(World):
    """What clients and fate do to the world of one seed."""

    def __init__(self, seed: int) -> None:
        random = Random(seed)
        chunk_bytes = Random(f"{seed} snapshot chunks").choice((1, 5, 1000))
        self.swarm = draw(random, chunk_bytes, fetches=seed % 8 == 7)
        super().__init__(random, self.swarm.conditions)
        self._request = 0
        self._goal_index: int | None = None
        founders = tuple(range(1, self.swarm.servers + 1))
        for server in founders:
            self.create(server, first_state(*founders))

    def run(self) -> None:
        self.at(self.swarm.action_ms, self._act)
        self.run_until(RUN_MS)
        self._heal()
        self.run_until(RUN_MS + HEAL_MS, self._converged)
        if not self._converged():
            raise Violation("no progress after everything was healed")
        committed = self.checker.committed
        self.counts["terms led"] = self.checker.leaders
        self.counts["entries committed"] = len(committed)
        self.counts["changes committed"] = sum(entry.kind is EntryKind.CONFIGURATION for entry in committed)

    def _act(self) -> None:
        if not self.is_faulty:
            return
        weights = self.swarm.weights
        name = self.random.choices(list(weights), list(weights.values()))[0]
        ACTIONS[name](self)
        self.at(self.random.randint(1, 2 * self.swarm.action_ms), self._act)

    def ask(self, event: Callable[[int], Event]) -> None:
        """Send a request to a server: mostly to one that believes it leads."""
        up = [server for server in self.servers.values() if server.core is not None]
        leaders = [server for server in up if server.core is not None and server.core.role is Role.LEADER]
        if leaders and self.random.random() < 0.9:
            up = leaders
        if up:
            server = self.random.choice(up)
            self._request += 1
            self.step(server, server.boot, event(self._request))

    def propose(self) -> None:
        count = self.random.choice((1, 1, 1, 5))

        def event(request: int) -> Event:
            text = b"%d." % request
            return Propose(request, tuple(text * self.random.randint(1, 9) for _ in range(count)))

        self.ask(event)

    def read(self) -> None:
        def event(request: int) -> Event:
            self.read_floors[request] = self.checker.committed_index
            return ReadIndex(request)

        self.ask(event)

    def change_membership(self) -> None:
        changes: list[Change] = ["add learner", "promote", "promote", "remove"]
        change = self.random.choice(changes)
        number = self.random.randint(1, SERVERS_MAX)
        if number not in self.servers:
            self.create(number, DurableState())
        self.ask(lambda request: ChangeMembership(request, change, number))

    def transfer(self) -> None:
        number = self.random.randint(1, len(self.servers))
        self.ask(lambda request: TransferLeadership(request, number))

    def partition(self) -> None:
        """Cut the group in two, or some links, in one direction or both."""
        numbers = list(self.servers)
        kind = self.random.choice(("full", "partial", "asymmetric"))
        side = {number: self.random.random() < 0.5 for number in numbers}
        for one in numbers:
            for other in numbers:
                if one == other:
                    continue
                if kind == "full":
                    cut = side[one] != side[other]
                elif kind == "partial":
                    cut = one < other and self.random.random() < 0.3
                else:
                    cut = side[one] and not side[other]
                if cut:
                    self.blocked.add((one, other))
                    if kind == "partial":
                        self.blocked.add((other, one))
        self.note(f"{kind} partitions")
        self.at(self.random.randint(50, 1500), self.reconnect)

    def _isolate(self, server: Server) -> None:
        for other in self.servers:
            self.blocked.update(((server.id, other), (other, server.id)))
        if self.random.random() < 0.5:
            self._skew(server, 0.1)  # so that it believes for long that it leads
        self.note("full partitions")
        self.at(self.random.randint(20, 600), self.reconnect)

    def reconnect(self) -> None:
        self.blocked.clear()

    def kill(self) -> None:
        server = self.random.choice(list(self.servers.values()))
        if server.core is not None:
            self.note("kills", server.id)
            self.stop(server, half_done=self.random.random() < 0.5)

    def lose_power(self) -> None:
        """One server, or all at once."""
        together = self.random.random() < 0.2
        chosen = list(self.servers.values()) if together else [self.random.choice(list(self.servers.values()))]
        for server in chosen:
            if server.core is not None:
                self.note("power losses", server.id)
                self.stop(server, half_done=self.random.random() < 0.7, power=True)

    def fail_sync(self) -> None:
        self.random.choice(list(self.servers.values())).disk.fail_next_sync()

    def fill_disk(self) -> None:
        disk = self.random.choice(list(self.servers.values())).disk
        disk.capacity_bytes = self.random.randint(0, 4000)
        self.at(self.random.randint(20, 500), setattr, disk, "capacity_bytes", None)

    def pause(self) -> None:
        server = self.random.choice(list(self.servers.values()))
        server.paused_until_ms = self.now_ms + self.random.randint(10, 1000)
        self.note("pauses", server.id)

    def jump_clock(self) -> None:
        server = self.random.choice(list(self.servers.values()))
        server.clock_offset_ms += self.random.choice((300, 3_600_000))
        self.note("clock jumps", server.id)
        self.plan_tick(server)

    def after_send(self, server: Server, message: AnyMessage) -> None:
        if isinstance(message, VoteReply) and message.granted and not message.pre:
            self._perhaps(self.swarm.strike_voters, 3, self._strike, server, server.boot)

    def after_role_change(self, server: Server, role: Role) -> None:
        if role is Role.LEADER:
            if self.is_faulty and self.random.random() < self.swarm.strike_leaders / 2:
                self._isolate(server)  # before its first words leave, as in the paper's figure 8
            self._perhaps(self.swarm.strike_leaders, 60, self._strike, server, server.boot)

    def _perhaps(self, chance: float, delay_ms: int, action: Callable[..., None], *arguments: object) -> None:
        if self.is_faulty and self.random.random() < chance:
            self.at(self.random.randint(0, delay_ms), action, *arguments)

    def _strike(self, server: Server, boot: int) -> None:
        """Stop it, or cut it off so that it goes on without knowing."""
        if server.core is None or boot != server.boot or not self.is_faulty:
            return
        if self.random.random() < 0.5:
            self._isolate(server)
        else:
            self.note("kills", server.id)
            self.stop(server, half_done=self.random.random() < 0.5)

    def skew_clock(self) -> None:
        self._skew(self.random.choice(list(self.servers.values())), self.random.choice((0.1, 3)))

    def _skew(self, server: Server, rate: float) -> None:
        self.set_clock_rate(server, rate)
        self.note("clocks skewed", server.id)
        self.at(self.random.randint(100, 2000), self.set_clock_rate, server, 1.0)

    # The end.

    def _heal(self) -> None:
        self.is_faulty = False
        self.blocked.clear()
        for server in self.servers.values():
            server.disk.capacity_bytes = None
            server.paused_until_ms = 0
            self.set_clock_rate(server, 1)
        self.at(100, self._demand)

    def _demand(self) -> None:
        """Propose again and again, so that there is something to converge on."""
        self.propose()
        self.at(100, self._demand)

    def _converged(self) -> bool:
        """All are up, and all members have applied what was committed once there was real progress."""
        committed = self.checker.committed_index
        if self._goal_index is None:
            self._goal_index = committed + 10
        if committed < self._goal_index:
            return False
        cores = [server.core for server in self.servers.values() if server.core is not None]
        leaders = [core for core in cores if core.role is Role.LEADER]
        if len(cores) < len(self.servers) or not leaders:
            return False
        newest = max(leaders, key=lambda core: core.term)
        return all(
            self.servers[member].applied_index >= self._goal_index for member in newest.node.membership.current.members
        )


ACTIONS: dict[str, Callable[[_Run], None]] = {
    "propose": _Run.propose,
    "read": _Run.read,
    "change membership": _Run.change_membership,
    "transfer": _Run.transfer,
    "partition": _Run.partition,
    "kill": _Run.kill,
    "lose power": _Run.lose_power,
    "fail sync": _Run.fail_sync,
    "fill disk": _Run.fill_disk,
    "pause": _Run.pause,
    "jump clock": _Run.jump_clock,
    "skew clock": _Run.skew_clock,
}
