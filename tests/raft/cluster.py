"""A group of Raft cores moved by hand: nothing is delivered, synced or timed unless a test says so."""

from collections import deque
from random import Random

from tests.raft.raft_checker import Checker, DurableModel

from ithaca.raft.core import RaftCore
from ithaca.raft.events import (
    Apply,
    Effect,
    Event,
    Persist,
    Persisted,
    Receive,
    Restore,
    Role,
    Send,
    Settings,
    Tick,
)
from ithaca.raft.messages import AnyMessage, DurableState, Entry, ServerId, Snapshot, first_state

SETTINGS = Settings(election_timeout_ms=100, heartbeat_ms=20)


class Cluster:
    """Cores, the messages between them in order, and what each has synced and applied."""

    def __init__(self, *founders: ServerId, settings: Settings = SETTINGS, checked: bool = True) -> None:
        """`checked`: every property is checked after every step; for groups whose messages are all real."""
        self.settings = settings
        self.cores: dict[ServerId, RaftCore] = {}
        self.network: deque[tuple[ServerId, ServerId, AnyMessage]] = deque()
        self.applied: dict[ServerId, list[Entry | Snapshot]] = {}
        self.answers: list[Effect] = []
        self.slow_disks: set[ServerId] = set()
        self.story: list[tuple[ServerId, Effect]] = []
        self._persists: dict[ServerId, deque[tuple[Persist, list[Effect]]]] = {}
        self._durable: dict[ServerId, DurableModel] = {}
        self._checker = Checker() if checked else None
        self._now_ms = 0
        for server in founders:
            self.add(server, first_state(*founders))

    def add(self, server: ServerId, state: DurableState) -> None:
        core = RaftCore(server, self.settings, Random(server), state, now_ms=self._now_ms)
        self._start(core)
        self._durable[server] = DurableModel(state)
        if self._checker is not None:
            self._checker.created(core, state)

    def restart(self, server: ServerId) -> None:
        """Lose everything but the disk."""
        state = self._durable[server].state
        core = RaftCore(server, self.settings, Random(server), state, now_ms=self._now_ms)
        self._start(core)
        if self._checker is not None:
            self._checker.recovered(core, state, None)

    def _start(self, core: RaftCore) -> None:
        self.cores[core.node.id] = core
        self.applied[core.node.id] = []
        self._persists[core.node.id] = deque()

    def step(self, server: ServerId, event: Event) -> list[Effect]:
        core = self.cores[server]
        effects = core.step(event)
        if self._checker is not None:
            self._checker.stepped(core)
        self._perform(server, effects)
        return effects

    def _perform(self, server: ServerId, effects: list[Effect]) -> None:
        for place, effect in enumerate(effects):
            self.story.append((server, effect))
            match effect:
                case Persist():
                    self._persists[server].append((effect, effects[place + 1 :]))
                    if server not in self.slow_disks:
                        self.sync_all(server)
                    return
                case Send():
                    self.network.append((server, effect.to, effect.message))
                case Apply():
                    self.applied[server] += effect.entries
                case Restore():
                    self.applied[server] = [effect.snapshot]
                case _:
                    self.answers.append(effect)

    def sync(self, server: ServerId) -> None:
        """Finish the oldest persist."""
        effect, behind = self._persists[server].popleft()
        self._durable[server].persisted(effect)
        if self._checker is not None:
            self._checker.persisted(server, effect)
        self._perform(server, behind)
        self.step(server, Persisted(effect.sequence))

    def sync_all(self, server: ServerId) -> None:
        while self._persists[server]:
            self.sync(server)

    def tick(self, server: ServerId, passed_ms: int) -> list[Effect]:
        """Let time pass for one server."""
        self._now_ms = max(self._now_ms, self.cores[server].node.now_ms)
        return self.step(server, Tick(self.cores[server].node.now_ms + passed_ms))

    def deliver(self, sender: ServerId | None = None, to: ServerId | None = None) -> int:
        """Deliver what is under way now, between these servers if given; tells how much that was."""
        chosen = self.take(sender, to)
        for _, target, message in chosen:
            if target in self.cores:
                self.step(target, Receive(message))
        return len(chosen)

    def take(
        self, sender: ServerId | None = None, to: ServerId | None = None
    ) -> list[tuple[ServerId, ServerId, AnyMessage]]:
        """Remove what is under way from the network: to drop it, or to deliver it later."""
        chosen = [each for each in self.network if sender in (None, each[0]) and to in (None, each[1])]
        self.network = deque(each for each in self.network if each not in chosen)
        return chosen

    def settle(self) -> None:
        """Deliver until nothing is under way."""
        while self.deliver():
            pass

    def elect(self, server: ServerId) -> None:
        """Let a server time out, win, and commit its first entry."""
        for core in self.cores.values():
            self.tick(core.node.id, self.settings.election_timeout_ms)
        self.take()
        self.tick(server, 2 * self.settings.election_timeout_ms)
        self.settle()
        assert self.cores[server].role is Role.LEADER

    def role(self, server: ServerId) -> Role:
        return self.cores[server].role

    def log(self, server: ServerId) -> list[tuple[int, int]]:
        """(index, term) of each entry in memory."""
        log = self.cores[server].node.log
        return [(each.index, each.term) for each in log.slice(log.first_index, log.last_index + 1)]
