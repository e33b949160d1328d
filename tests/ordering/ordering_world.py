"""A small world around the ordering core: replicas with disks, a network for reports, leaders that change.

Consensus is worse here than Raft allows: what any leader ever proposed may commit, late, between the entries
of its successors; only each leader's own entries stay in their order. Reports are lost, repeated and overtaken.
After every entry the world compares what was ordered with what is on the disks. The numbers in violations
are those of the invariants in `ithaca.engines.scalog.ordering`.
"""

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from tests.ordering.building import CONFIGURATION, address, placed, shard_entry

from ithaca.engines.scalog.ordering.entries import (
    AddReplica,
    Configure,
    Cut,
    Finalize,
    OpenLane,
    OrderingEntry,
    RemoveReplica,
    decode_entry,
    encode_entry,
)
from ithaca.engines.scalog.ordering.leader import CutProposer
from ithaca.engines.scalog.ordering.outcomes import LaneClosed, LaneOpened, OrderedCut, Outcome, ViewChanged
from ithaca.engines.scalog.ordering.reports import Report
from ithaca.engines.scalog.ordering.state import OrderingState
from ithaca.model.positions import LaneId
from ithaca.model.view import ClusterConfiguration, Shard

STEPS = 1200
QUIET_ROUNDS = 60
WEIGHTS = {
    "append": 30,
    "sync": 50,
    "report": 30,
    "deliver": 40,
    "lose": 4,
    "propose": 30,
    "commit": 30,
    "change leader": 3,
    "restart": 0.7,
    "open": 20,
    "remove": 0.7,
    "learn": 8,
    "add": 8,
    "finalize": 0.05,
}
SHAPES = [(0, False), (1, False), (2, False), (1, True), (2, True)]


class Violation(AssertionError):
    """Something that must hold did not."""


def check(number: int, holds: bool, what: str) -> None:
    if not holds:
        raise Violation(f"{number}: {what}")


@dataclass
class Server:
    """A replica, or a learner: its disk, and which start it is in."""

    shard: int
    replica: int
    boot: int = 1
    lane: LaneId | None = None
    synced: dict[LaneId, int] = field(default_factory=dict)
    runs_cut: int = 0


class World:
    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.state = OrderingState()
        self.entries: list[OrderingEntry] = []
        self.records: dict[LaneId, list[int]] = {}
        """What is in each lane, by id; every copy is a prefix of it."""
        self.began_behind: dict[int, int] = {}
        """For each record the highest position that was acknowledged when its append began."""
        self.position_of: dict[int, int] = {}
        self.servers: dict[tuple[int, int], Server] = {}
        self.gone: list[Server] = []
        self.messages: list[Report] = []
        self.flights: dict[int, deque[OrderingEntry]] = {}
        self.counts: Counter[str] = Counter()
        self.now_us = 1000
        self.term = 0
        interval = self.rng.choice([0, 0, 50])
        self.apply(Configure(ClusterConfiguration(CONFIGURATION.log, "scalog", interval, self.rng.randint(1, 4))))
        for shard in range(self.rng.randint(1, 3)):
            f, masking = self.rng.choice(SHAPES)
            self.apply(shard_entry(shard, f=f, masking=masking))
        self.lead()

    # What may happen.

    def run(self) -> "World":
        kinds, weights = list(WEIGHTS), list(WEIGHTS.values())
        for _ in range(STEPS):
            self.now_us += self.rng.randint(0, 40)
            getattr(self, self.rng.choices(kinds, weights)[0].replace(" ", "_"))()
        self.come_to_rest()
        self.check_the_end()
        return self

    def append(self) -> None:
        server = self.any_server(lambda each: each.lane is not None)
        if server is not None and server.lane is not None:
            for _ in range(self.rng.randint(1, 4)):
                record = len(self.began_behind)
                self.began_behind[record] = self.state.tail - 1
                self.records[server.lane].append(record)

    def sync(self) -> None:
        """A server syncs some of what it was sent of each lane."""
        server = self.any_server()
        if server is not None:
            for lane in self.lanes_of(server.shard):
                held = server.synced.get(lane, 0)
                server.synced[lane] = held + self.rng.randint(0, len(self.records[lane]) - held)
            server.runs_cut = self.rng.randint(server.runs_cut, self.state.cut_number)

    def report(self) -> None:
        server = self.any_server(lambda each: each.shard in self.state.shards.by_number)
        if server is not None:
            self.messages.append(self.report_of(server))

    def deliver(self) -> None:
        if self.messages:
            message = self.messages[self.rng.randrange(len(self.messages))]
            accepted = self.leader.receive(message)
            self.counts["reports taken" if accepted else "reports dropped"] += 1
            if self.rng.random() < 0.8:
                self.messages.remove(message)

    def lose(self) -> None:
        self.messages = [message for message in self.messages if self.rng.random() < 0.7]

    def propose(self) -> None:
        cut = self.leader.propose(self.now_us, self.now_us + self.rng.randint(-100, 100))
        if cut is not None:
            self.send(cut)

    def commit(self) -> None:
        terms = [term for term, flight in self.flights.items() if flight]
        if terms:
            term = self.rng.choice(terms)
            self.apply(self.flights[term].popleft(), own=term == self.term)
            self.counts["committed late"] += term != self.term

    def change_leader(self) -> None:
        flight = self.flights[self.term]
        for _ in range(self.rng.randint(0, len(flight))):
            flight.pop()
        self.lead()
        self.counts["leaders"] += 1

    def restart(self) -> None:
        server = self.any_server()
        if server is not None:
            server.boot, server.lane = server.boot + 1, None
            self.counts["restarts"] += 1

    def open(self) -> None:
        server = self.any_server(lambda each: each.lane is None)
        if server is not None:
            self.send(OpenLane(server.shard, server.replica, server.boot))

    def remove(self) -> None:
        shard = self.any_shard()
        self.send(RemoveReplica(shard.shard, shard.epoch, self.rng.choice(shard.replicas).replica))

    def learn(self) -> None:
        """A learner appears where a replica is missing; later it copies a lane from a peer, and reports."""
        shard = self.any_shard()
        if len(shard.replicas) < shard.size and not self.learners(shard):
            number = shard.replica_last + self.rng.randint(1, 2)
            self.servers[shard.shard, number] = Server(shard.shard, number)
            return
        lanes = self.lanes_of(shard.shard)
        for learner in self.learners(shard) if lanes else ():
            lane = self.rng.choice(lanes)
            learner.synced[lane] = max(each.synced.get(lane, 0) for each in (learner, *self.members(shard)))
            self.messages.append(self.report_of(learner))

    def add(self) -> None:
        shard = self.any_shard()
        for learner in self.learners(shard):
            if self.leader.has_caught_up(shard.shard, learner.replica):
                self.send(AddReplica(shard.shard, shard.epoch, learner.replica, address(learner.replica)))

    def finalize(self) -> None:
        until_us = self.now_us + 200 if self.rng.random() < 0.5 else 0
        self.send(Finalize(self.any_shard().shard, self.rng.randint(0, 3), until_us))

    # The parts of the world.

    def any_server(self, fits: Callable[[Server], bool] = lambda _server: True) -> Server | None:
        servers = [each for each in self.servers.values() if fits(each)]
        return self.rng.choice(servers) if servers else None

    def any_shard(self) -> Shard:
        return self.rng.choice(self.state.view.shards)

    def lanes_of(self, shard: int) -> list[LaneId]:
        return [lane for lane in self.records if lane.shard == shard]

    def members(self, shard: Shard) -> list[Server]:
        return [self.servers[shard.shard, each.replica] for each in shard.replicas]

    def learners(self, shard: Shard) -> list[Server]:
        numbers = {each.replica for each in shard.replicas}
        return [each for each in self.servers.values() if each.shard == shard.shard and each.replica not in numbers]

    def report_of(self, server: Server) -> Report:
        epoch = self.state.shards.by_number[server.shard].epoch
        lengths = tuple(sorted(server.synced.items()))
        return Report(server.shard, epoch, server.replica, server.boot, server.runs_cut, lengths)

    def lead(self) -> None:
        self.term += 1
        self.flights[self.term] = deque()
        self.leader = CutProposer(self.state)

    def send(self, entry: OrderingEntry) -> None:
        self.flights[self.term].append(entry)

    # Applying, and checking.

    def apply(self, entry: OrderingEntry, *, own: bool = False) -> None:
        entry = decode_entry(encode_entry(entry))
        if isinstance(entry, Cut):
            self.check_forgetting(entry)
        self.entries.append(entry)
        before = self.state.tail
        outcomes = self.state.apply(len(self.entries), entry)
        for outcome in outcomes:
            self.counts[type(outcome).__name__] += 1
            self.take(outcome, before)
        if self.term:
            self.leader.applied(outcomes, own=own)

    def take(self, outcome: Outcome, tail_before: int) -> None:
        match outcome:
            case OrderedCut():
                self.check_cut(outcome, tail_before)
            case LaneOpened(lane, boot):
                self.records.setdefault(lane, [])
                server = self.servers[lane[:2]]
                if server.boot == boot:
                    server.lane = lane
            case LaneClosed(lane, length):
                self.close(lane, length)
            case ViewChanged(_, _, shard) if shard is not None:
                self.follow(shard)
            case _:
                pass

    def close(self, lane: LaneId, length: int) -> None:
        check(6, length <= len(self.records[lane]), f"lane {lane} is longer than what was appended")
        del self.records[lane][length:]
        for server in self.servers.values():
            if lane in server.synced:
                server.synced[lane] = min(server.synced[lane], length)
            if server.lane == lane:
                server.lane = None

    def follow(self, shard: Shard) -> None:
        """Servers appear with the view; the disk of a removed one is gone."""
        for each in shard.replicas:
            self.servers.setdefault((shard.shard, each.replica), Server(shard.shard, each.replica))
        numbers = {each.replica for each in shard.replicas}
        for key in [key for key in self.servers if key[0] == shard.shard and key[1] not in numbers]:
            if key[1] <= shard.replica_last:
                self.gone.append(self.servers.pop(key))
        self.check_copies(shard)

    def check_cut(self, cut: OrderedCut, tail: int) -> None:
        records = placed([cut])
        check(2, [each[0] for each in records] == list(range(tail, cut.tail)), f"cut {cut.number} is not dense")
        check(3, [each[1:] for each in records] == sorted(each[1:] for each in records), "not in lane order")
        for position, lane, lsn in records:
            record = self.records[lane][lsn]
            check(2, record not in self.position_of, f"record {record} is ordered twice")
            check(7, position > self.began_behind[record], f"record {record} began behind an acknowledged one")
            self.position_of[record] = position
        for shard in cut.shards:
            known = self.state.shards.by_number[shard]
            for run in cut.of_shard(shard).runs:
                holders = [each for each in self.members(known) if each.synced.get(run.lane, 0) >= run.lsn + run.count]
                check(4, len(holders) >= known.f + 1, f"{run} is on {len(holders)} of {known}")

    def check_copies(self, shard: Shard) -> None:
        """All that is ordered is on f+1 replicas, less those that are being replaced."""
        for lane, length in self.state.lanes.ordered_lengths(shard.shard).items():
            holders = [each for each in self.members(shard) if each.synced.get(lane, 0) >= length]
            missing = max(0, shard.size - len(shard.replicas))
            check(4, length == 0 or len(holders) >= shard.f + 1 - missing, f"lane {lane} has {len(holders)} copies")

    def check_forgetting(self, cut: Cut) -> None:
        for number in self.state.kept.keys() & set(cut.forget):
            self.counts["forgotten"] += 1
            for shard in self.state.kept[number].shards:
                servers = [each for each in (*self.servers.values(), *self.gone) if each.shard == shard]
                synced = [each for each in servers if each.runs_cut >= number]
                check(10, len(synced) > self.state.shards.by_number[shard].f, f"cut {number} is forgotten too early")

    def come_to_rest(self) -> None:
        """No more faults: what is durable everywhere must be ordered before long."""
        for _ in range(QUIET_ROUNDS):
            self.now_us += 100
            for server in list(self.servers.values()):
                if server.lane is None and self.state.shards.by_number[server.shard].phase != "finalized":
                    self.send(OpenLane(server.shard, server.replica, server.boot))
                server.synced = {lane: len(self.records[lane]) for lane in self.lanes_of(server.shard)}
                server.runs_cut = self.state.cut_number
                self.leader.receive(self.report_of(server))
            self.propose()
            while any(self.flights.values()):
                self.commit()

    def check_the_end(self) -> None:
        for shard in self.state.view.shards:
            for lane in shard.open_lanes() if shard.is_ordering else ():
                ordered = self.state.lanes.ordered_length(lane)
                check(12, ordered == len(self.records[lane]), f"lane {lane} stands still at {ordered}")
        check(2, sorted(self.position_of.values()) == list(range(1, self.state.tail)), "positions are not dense")
        for lane, records in self.records.items():
            positions = [self.position_of[record] for record in records if record in self.position_of]
            check(3, positions == sorted(positions), f"lane {lane} is not in order")
        again = OrderingState()
        for index, entry in enumerate(self.entries, 1):
            again.apply(index, entry)
        check(1, again == self.state, "the same entries gave another state")
