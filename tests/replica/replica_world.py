"""A small world around the replica core: real cores, a real ordering state and leader, and everything that fails.

Consensus is a list of committed entries; leaders change and take along what they had in flight. Disks lose what
is not synced, links, streams and reports are delayed, cut and lost, replicas crash alone or all at once, clients
retry and move. After every step the world compares what the cores say with what is on the disks and in the
order. The numbers in violations are those of the invariants in `ithaca.replica`; 0 is a promise to users.
"""

from collections import Counter, deque
from collections.abc import Callable
from random import Random

from tests.ordering.building import CONFIGURATION, shard_entry
from tests.replica.simulated_client import Sent, SimulatedClient, appended
from tests.replica.simulated_replica import LINK_LOST, SimulatedReplica, check

from ithaca.model.cut import LaneRun
from ithaca.model.errors import IthacaError, WrongLane
from ithaca.model.positions import LaneId
from ithaca.model.view import Address
from ithaca.ordering.entries import (
    CloseLane,
    Configure,
    ExpireSession,
    Finalize,
    OpenLane,
    OrderingEntry,
    TrimTo,
)
from ithaca.ordering.leader import Leader
from ithaca.ordering.outcomes import (
    Configured,
    LaneClosed,
    LaneOpened,
    OrderedCut,
    Outcome,
    RangeLost,
    Refused,
    Session,
    SessionExpired,
    SessionMoved,
    SessionOpened,
    ShardFinalized,
    TrimmedTo,
    ViewChanged,
)
from ithaca.ordering.reports import Report
from ithaca.ordering.state import OrderingState
from ithaca.replica.events import DiskFull, Fetch, OrderJoined, Replicated, Request, RunsFetched, Tick
from ithaca.wire.batch import NOOPS, Batch
from ithaca.wire.build import build

STEPS = 3000
QUIET_ROUNDS = 400
SHAPES = [(0, False), (1, False), (1, False), (1, True), (1, True), (2, False)]
WEIGHTS = {
    "client append": 40,
    "client deliver": 60,
    "client again": 4,
    "client move": 8,
    "client open": 4,
    "client reopen": 0.3,
    "client expire": 0.1,
    "anonymous append": 4,
    "sync": 120,
    "work": 30,
    "attend": 100,
    "join": 20,
    "send batches": 60,
    "receive batch": 80,
    "break stream": 2,
    "late batch": 2,
    "fetch runs": 10,
    "deliver report": 80,
    "lose report": 3,
    "propose": 50,
    "commit": 50,
    "change leader": 0.3,
    "break link": 0.5,
    "drop news": 0.5,
    "crash": 0.5,
    "power loss": 0.1,
    "restart": 5,
    "close lane": 0.1,
    "trim": 0.3,
    "drop trimmed": 2,
    "finalize": 0.03,
    "fill disk": 0.2,
    "free disk": 4,
    "tick": 20,
}
FAULTS = [
    "break stream",
    "late batch",
    "lose report",
    "change leader",
    "break link",
    "drop news",
    "crash",
    "power loss",
]
FAULTS += ["close lane", "trim", "drop trimmed", "fill disk", "client reopen", "client again"]


class World:
    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.now_us = 1000
        self.counts: Counter[str] = Counter()
        self.state = OrderingState()
        self.leader = Leader(self.state)
        self.entries = 0
        self.flight: deque[OrderingEntry] = deque()
        self.reports: list[Report] = []
        self.late: list[tuple[SimulatedReplica, int, LaneId, Batch]] = []
        self.values: dict[int, tuple[bytes, ...]] = {}
        """What is in a batch, by its checksum."""
        self.numbers: dict[bytes, tuple[int, int]] = {}
        """Producer and number of each record of a session."""
        self.content: dict[LaneId, list[bytes]] = {}
        """What primaries put into their lanes."""
        self.places: dict[LaneId, list[int]] = {}
        """The position of each ordered record of a lane, by LSN."""
        self.truth: list[tuple[LaneId, int]] = []
        """Lane and LSN of each position, from 1 on."""
        self.last_seq: dict[int, int] = {}
        self.forgotten: set[LaneId] = set()
        self.servers: dict[tuple[int, int], SimulatedReplica] = {}
        self.apply(Configure(CONFIGURATION))
        for shard in range(self.rng.randint(1, 2)):
            f, masking = self.rng.choice(SHAPES)
            entry = shard_entry(shard, f=f, masking=masking)
            for replica, address in entry.replicas:
                place = Address(address.host, address.port + 100 * shard)
                self.servers[shard, replica] = SimulatedReplica(self, shard, replica, place)
            replicas = tuple((number, self.servers[shard, number].address) for number, _ in entry.replicas)
            self.apply(type(entry)(shard, f, masking, replicas))
        self.at = {server.address: server for server in self.servers.values()}
        self.clients = [SimulatedClient(self, number) for number in range(self.rng.randint(1, 4))]
        self.slow = self.rng.choice([None, *self.servers.values()])
        """A replica that lags behind: with masking the others go on without it."""
        for server in self.servers.values():
            server.start()

    def run(self) -> "World":
        # Each seed has its own mix of faults, so that some are rare and some frequent in it.
        mixed = WEIGHTS | {fault: WEIGHTS[fault] * self.rng.choice([0, 1, 1, 6]) for fault in FAULTS}
        mixed["restart"] *= self.rng.choice([0.2, 1, 1])
        kinds, weights = list(mixed), list(mixed.values())
        for _ in range(STEPS):
            self.now_us += self.rng.randint(0, 4000)
            getattr(self, self.rng.choices(kinds, weights)[0].replace(" ", "_"))()
        self.come_to_rest()
        return self

    # What clients do

    def client_append(self) -> None:
        self.rng.choice(self.clients).append()

    def client_deliver(self) -> None:
        self.rng.choice(self.clients).deliver()

    def client_again(self) -> None:
        self.rng.choice(self.clients).send_again()

    def client_move(self) -> None:
        self.rng.choice(self.clients).move()

    def client_open(self) -> None:
        self.rng.choice(self.clients).open()

    def client_reopen(self) -> None:
        self.rng.choice(self.clients).open(again=True)

    def client_expire(self) -> None:
        session = self.rng.choice(self.clients).session
        if session is not None:
            self.send(ExpireSession(session.producer_id, session.epoch))

    def anonymous_append(self) -> None:
        lane = self.any_open_lane()
        if lane is not None:
            values = tuple(self.new_value() for _ in range(self.rng.randint(1, 3)))
            batch = build(values, timestamp_us=0)
            self.values[batch.body_crc] = values
            self.deliver_append(lane, Sent(None, batch, values))

    def deliver_append(self, lane: LaneId, sent: Sent) -> None:
        server = self.servers[lane[:2]]
        if server.core is not None:
            server.step(appended(lane, sent))

    # What replicas do

    def sync(self) -> None:
        server = self.any_server(lambda each: each.core is not None and not each.is_full)
        if server is not None and not self.is_held_up(server):
            lanes = [lane for lane, found in server.disk.items() if found.synced < found.length]
            if lanes:
                server.sync(self.rng.choice(lanes), self.rng.randint(1, 4))

    def work(self) -> None:
        server = self.any_server(lambda each: bool(each.work))
        if server is not None:
            server.do_work()

    def attend(self) -> None:
        server = self.any_server(lambda each: each.core is not None and (each.link_lost or bool(each.link)))
        if server is not None and not self.is_held_up(server):
            for _ in range(self.rng.randint(1, 8)):
                server.attend()

    def join(self) -> None:
        server = self.any_server(lambda each: each.core is not None and each.link is None)
        if server is not None and not server.link_lost:
            server.is_joining = True
            self.send(OpenLane(server.shard, server.replica, server.boot))

    def send_batches(self) -> None:
        """A peer sends the next batches of a lane that is followed or fetched."""
        server = self.any_server(lambda each: bool(each.streams))
        if server is not None:
            self.fill_stream(server, self.rng.choice(list(server.streams)), self.rng.randint(1, 3))

    def fill_stream(self, server: SimulatedReplica, lane: LaneId, batches: int) -> None:
        stream = server.streams[lane]
        wanted = stream.wanted
        source = self.at[self.rng.choice(wanted.peers) if isinstance(wanted, Fetch) else wanted.primary]
        if source.core is None or lane not in source.disk:
            return
        if not isinstance(wanted, Fetch) and source.core.own_lane != lane:
            return
        if stream.next_lsn is None or (isinstance(wanted, Fetch) and not stream.batches):
            assert server.core is not None
            stream.next_lsn = server.core.received(lane)
        found = source.disk[lane]
        stop = found.synced if isinstance(wanted, Fetch) else found.length
        for batch in found.batches:
            if batch.base_lsn >= found.trim_lsn and stream.next_lsn < batch.end_lsn <= stop and batches:
                stream.batches.append(batch)
                stream.next_lsn = batch.end_lsn
                batches -= 1

    def receive_batch(self) -> None:
        server = self.any_server(lambda each: any(stream.batches for stream in each.streams.values()))
        if server is not None:
            lane = self.rng.choice([lane for lane, stream in server.streams.items() if stream.batches])
            for _ in range(self.rng.randint(1, 3)):
                server.receive_batch(lane)

    def break_stream(self) -> None:
        """The connection ends, and is dialled anew."""
        server = self.any_server(lambda each: bool(each.streams))
        if server is not None:
            stream = server.streams[self.rng.choice(list(server.streams))]
            stream.batches.clear()
            stream.next_lsn = None

    def late_batch(self) -> None:
        """Something that was received arrives when nobody wants it any more."""
        if self.late:
            server, boot, lane, batch = self.late.pop(self.rng.randrange(len(self.late)))
            if server.core is not None and server.boot == boot:
                server.step(Replicated(lane, batch))

    def fetch_runs(self) -> None:
        server = self.any_server(lambda each: bool(each.runs_wanted))
        if server is not None:
            self.answer_runs(server, self.rng.choice(list(server.runs_wanted)))

    def answer_runs(self, server: SimulatedReplica, lane: LaneId) -> None:
        wanted = server.runs_wanted[lane]
        if wanted.peers:
            peer = self.at[self.rng.choice(wanted.peers)]
            if peer.core is None:
                return
            runs = peer.disk[lane].runs if lane in peer.disk else []
            found = [(run, at) for run, at in runs if run.lsn < wanted.stop and run.lsn + run.count > wanted.start]
            if found:
                wanted.start = found[-1][0].lsn + found[-1][0].count
                if wanted.start >= wanted.stop:
                    del server.runs_wanted[lane]
                for run, time_us in found:
                    server.step(RunsFetched(lane, (run,), time_us))
                return
            wanted.ignorant.add(peer.address)
        if wanted.ignorant >= set(wanted.peers):
            del server.runs_wanted[lane]
            self.counts["nobody knows the runs"] += 1
            server.step(RunsFetched(lane, (), 0))

    def tick(self) -> None:
        server = self.any_server(lambda each: each.core is not None)
        if server is not None:
            server.step(Tick(self.now_us))

    # What fails

    def crash(self) -> None:
        server = self.any_server(lambda each: each.core is not None)
        if server is not None:
            server.crash()
            self.counts["crashes"] += 1

    def power_loss(self) -> None:
        """Every replica of a shard is gone at once."""
        shard = self.rng.choice(self.state.view.shards).shard if self.state.view.shards else None
        for server in self.servers.values():
            if server.shard == shard and server.core is not None:
                server.crash()
                self.counts["crashes"] += 1

    def restart(self) -> None:
        server = self.any_server(lambda each: each.core is None)
        if server is not None:
            server.start()

    def break_link(self) -> None:
        server = self.any_server(lambda each: each.link is not None)
        if server is not None:
            self.cut_link(server)

    def cut_link(self, server: SimulatedReplica) -> None:
        """Some of what was on its way still arrives."""
        if server.link is not None:
            for _ in range(self.rng.randint(0, len(server.link))):
                server.link.pop()
            server.link.append(LINK_LOST)
            server.is_joining = False

    def drop_news(self) -> None:
        """A cut is left out of the stream, which TCP would not do: it must be seen."""
        server = self.any_server(lambda each: each.link is not None)
        if server is not None and server.link is not None:
            cuts = [item for item in server.link if type(item).__name__ == "ShardCut"]
            if cuts:
                server.link.remove(self.rng.choice(cuts))
                self.counts["news dropped"] += 1

    def fill_disk(self) -> None:
        self.set_full(self.any_server(lambda each: each.core is not None and not each.is_full), is_full=True)

    def free_disk(self) -> None:
        self.set_full(self.any_server(lambda each: each.core is not None and each.is_full), is_full=False)

    def set_full(self, server: SimulatedReplica | None, *, is_full: bool) -> None:
        if server is not None:
            server.is_full = is_full
            server.step(DiskFull(is_full))

    # The order

    def deliver_report(self) -> None:
        if self.reports:
            report = self.reports[self.rng.randrange(len(self.reports))]
            self.leader.receive(report)
            if self.rng.random() < 0.9:
                self.reports.remove(report)

    def lose_report(self) -> None:
        self.reports = [report for report in self.reports if self.rng.random() < 0.5]

    def propose(self) -> None:
        cut = self.leader.propose(self.now_us, self.now_us)
        if cut is not None:
            self.send(cut)

    def commit(self) -> None:
        for _ in range(min(len(self.flight), self.rng.randint(1, 3))):
            self.apply(self.flight.popleft())

    def change_leader(self) -> None:
        """What was in flight commits up to some point; every link ends."""
        for _ in range(self.rng.randint(0, len(self.flight))):
            self.flight.pop()
        while self.flight:
            self.commit()
        self.leader = Leader(self.state)
        self.counts["leaders"] += 1
        for server in self.servers.values():
            server.is_joining = False
            self.cut_link(server)

    def close_lane(self) -> None:
        lane = self.any_open_lane()
        if lane is not None:
            self.send(CloseLane(lane))

    def trim(self) -> None:
        self.send(TrimTo(self.rng.randint(self.state.first, self.state.tail)))

    def drop_trimmed(self) -> None:
        """A replica gives up batches that nobody may read any more."""
        server = self.any_server(lambda each: each.core is not None and bool(each.disk))
        if server is not None and server.core is not None:
            found = server.disk[self.rng.choice(list(server.disk))]
            for batch in found.batches:
                position = found.position_of(batch.end_lsn - 1)
                if position is not None and position < server.core.first:
                    found.trim_lsn = batch.end_lsn

    def finalize(self) -> None:
        """Not the first shard: appends must have somewhere to go."""
        if 1 in self.state.shards.by_number:
            self.send(Finalize(1, self.rng.randint(0, 2), 0))

    def send(self, entry: OrderingEntry) -> None:
        self.flight.append(entry)

    def apply(self, entry: OrderingEntry) -> None:
        self.entries += 1
        outcomes = self.state.apply(self.entries, entry)
        for outcome in outcomes:
            self.counts[type(outcome).__name__] += 1
            self.take(outcome)
        self.leader.applied(outcomes, own=True)
        for server in self.servers.values():
            if server.link is not None and not (server.link and server.link[-1] is LINK_LOST):
                news = [news_of(outcome, server.shard) for outcome in outcomes]
                server.link += [item for item in news if item is not None]
        if isinstance(entry, OpenLane):
            self.welcome(entry, outcomes)

    def welcome(self, entry: OpenLane, outcomes: list[Outcome]) -> None:
        """Whoever asked to join is told where its shard stands; the news go on from here."""
        server = self.servers[entry.shard, entry.replica]
        summary = self.state.summary(entry.shard)
        if summary is None or not server.is_joining or server.boot != entry.boot or server.link is not None:
            return
        lane = next((outcome.lane for outcome in outcomes if isinstance(outcome, LaneOpened)), None)
        cuts = tuple(self.state.cuts_since(entry.shard, 0))
        server.link = deque([OrderJoined(CONFIGURATION.log, lane, summary, cuts)])

    def take(self, outcome: Outcome) -> None:
        match outcome:
            case OrderedCut():
                self.ordered(outcome)
            case LaneOpened(lane, _):
                self.content.setdefault(lane, [])
                self.places.setdefault(lane, [])
            case TrimmedTo(_, lanes):
                self.forgotten |= set(lanes)
            case SessionOpened(session):
                for client in self.clients_of(session):
                    client.opened(session)
            case SessionMoved(session, _):
                for client in self.clients_of(session):
                    client.moved(session)
            case SessionExpired(session):
                for client in self.clients_of(session):
                    client.expired()
            case _:
                pass

    def clients_of(self, session: Session) -> list[SimulatedClient]:
        return [client for client in self.clients if client.name == session.name]

    # What is true

    def new_value(self) -> bytes:
        self.counts["records"] += 1
        return b"record %d" % self.counts["records"]

    def remember(self, batch: Batch, values: tuple[bytes, ...], producer_id: int, first_seq: int) -> None:
        self.values[batch.body_crc] = values
        for number, value in enumerate(values):
            self.numbers[value] = (producer_id, first_seq + number)

    def written(self, lane: LaneId, batch: Batch, *, is_primary: bool) -> None:
        """A replica puts a batch into its copy of a lane."""
        if batch.kind == NOOPS:
            dead = self.places[lane][batch.base_lsn : batch.end_lsn]
            check(4, len(dead) == batch.count and max(dead) < self.state.first, f"no-ops in lane {lane} hide records")
            self.counts["holes filled"] += 1
            return
        values = self.values[batch.body_crc]
        if is_primary:
            check(1, self.state.lanes.ordered_length(lane) is not None, f"lane {lane} was not opened")
            assert len(self.content[lane]) == batch.base_lsn
            self.content[lane] += values
        held = self.content[lane][batch.base_lsn : batch.end_lsn]
        check(4, held == list(values), f"a copy of lane {lane} is another")

    def ordered(self, cut: OrderedCut) -> None:
        for shard in cut.shards:
            known = self.state.shards.by_number[shard]
            members = [self.servers[shard, each.replica] for each in known.replicas]
            for run in cut.of_shard(shard).runs:
                stop = run.lsn + run.count
                holders = [each for each in members if run.lane in each.disk and each.disk[run.lane].synced >= stop]
                check(3, len(holders) > known.f, f"{run} is synced by {len(holders)} of {len(members)}")
        for shard in sorted(cut.shards):
            for run in cut.of_shard(shard).runs:
                for lsn in range(run.lsn, run.lsn + run.count):
                    self.place(run.lane, lsn)
        assert len(self.truth) == self.state.tail - 1

    def place(self, lane: LaneId, lsn: int) -> None:
        assert len(self.places[lane]) == lsn
        self.truth.append((lane, lsn))
        self.places[lane].append(len(self.truth))
        number = self.numbers.get(self.content[lane][lsn])
        if number is not None:
            producer_id, seq = number
            last = self.last_seq.get(producer_id, 0)
            check(5, seq == last + 1, f"number {seq} of producer {producer_id} is ordered after {last}")
            self.last_seq[producer_id] = seq

    def check_run(self, run: LaneRun) -> None:
        places = self.places[run.lane][run.lsn : run.lsn + run.count]
        if places == list(range(run.position, run.position + run.count)):
            return
        check(2, len(places) == run.count and max(places) < self.state.first, f"{run} is not what was ordered")
        check(2, run.position + run.count <= self.state.first, f"{run} is made up, and can be read")
        self.counts["runs made up"] += 1

    def check_runs_synced(self, server: SimulatedReplica, cut: int) -> None:
        """All runs up to the cut are durable there, or of records that were trimmed."""
        for number, kept in self.state.kept.items():
            if number > cut:
                break
            for run in kept.of_shard(server.shard).runs:
                found = server.disk.get(run.lane)
                if found is None:
                    continue
                known = sum(each.count for each, _ in found.runs[: found.runs_synced])
                check(6, known >= run.lsn + run.count, f"the runs up to cut {cut} are said to be durable")

    def acknowledged(self, request: Request, position: int) -> None:
        sent = request.connection
        assert isinstance(sent, Sent)
        places = [self.truth[at - 1] for at in range(position, position + len(sent.values)) if at < self.state.tail]
        values = tuple(self.content[lane][lsn] for lane, lsn in places)
        if values != sent.values:
            check(2, position < self.state.first, f"{sent.values} is acknowledged at {position}, where {values} is")
            self.counts["acknowledged at a trimmed position"] += 1
        self.counts["acknowledged"] += 1
        if sent.client is not None and self.rng.random() < 0.9:
            sent.client.answered(sent)

    def refused(self, server: SimulatedReplica, request: Request, error: IthacaError) -> None:
        sent = request.connection
        assert isinstance(sent, Sent)
        self.counts[f"refused {type(error).__name__}"] += 1
        lane = None if server.core is None else server.core.own_lane
        if error.outcome_unknown:
            trimmed = self.truth[: self.state.first - 1]
            found = [self.content[lane][lsn] for lane, lsn in trimmed if lane.shard == server.shard]
            check(2, sent.values[0] in found, f"the position of {sent.values} is said to be gone")
            sent.is_answered = True
        if isinstance(error, WrongLane) and lane is not None:
            ordered = self.content[lane][: len(self.places[lane])]
            if sent.client is None:
                check(5, sent.values[0] not in ordered, f"{sent.values} is refused, and ordered")
            elif sent.values[0] in self.content[lane] and sent.values[0] not in ordered:
                # It was accepted, and now is not: then its lane must be closed.
                is_other = sent.client.session is None or sent.client.session.home != lane
                check(5, is_other or not self.state.lanes.is_open(lane), f"{sent.values} was accepted, and is refused")

    def look_at(self, server: SimulatedReplica) -> None:
        """After each step: what the core says can be read is on the disk, and is what was ordered."""
        core = server.core
        assert core is not None
        for position in range(max(server.checked, core.first), core.readable):
            lane, lsn = self.truth[position - 1]
            if lane.shard != server.shard or position < self.state.first:
                continue
            found = server.disk.get(lane)
            check(6, found is not None and found.synced > lsn, f"position {position} is said to be here")
            assert found is not None
            check(6, found.position_of(lsn) == position, f"position {position} is not known")
            check(6, server.values_of(lane, lsn, lsn + 1) == [self.content[lane][lsn]], f"{position} is another record")
        server.checked = max(server.checked, core.readable)

    def is_held_up(self, server: SimulatedReplica) -> bool:
        return server is self.slow and self.rng.random() < 0.9

    def any_server(self, fits: Callable[[SimulatedReplica], bool]) -> SimulatedReplica | None:
        servers = [server for server in self.servers.values() if fits(server)]
        return self.rng.choice(servers) if servers else None

    def any_open_lane(self) -> LaneId | None:
        lanes = self.state.view.live_lanes()
        return self.rng.choice(lanes) if lanes else None

    # In the end

    def come_to_rest(self) -> None:
        """No more faults: before long everything is answered, ordered, and the same everywhere."""
        for server in self.servers.values():
            if server.core is not None and server.core.own_lane is not None:
                closed = not self.state.lanes.is_open(server.core.own_lane)
                if closed:
                    server.crash()  # a server whose lane was closed is started again
            if server.core is None:
                server.start()
            self.set_full(server, is_full=False)
        for _ in range(QUIET_ROUNDS):
            self.now_us += 30_000
            self.quiet_round()
            if self.is_at_rest():
                break
        self.check_the_end()

    def quiet_round(self) -> None:
        for server in self.servers.values():
            if server.shard not in self.state.shards.by_number:
                continue
            if server.core is None:
                server.start()
            if server.link is None and not server.link_lost and not server.is_joining:
                server.is_joining = True
                self.send(OpenLane(server.shard, server.replica, server.boot))
            while server.link_lost or server.link:
                server.attend()
            while server.work:
                server.do_work()
            for lane in list(server.streams):
                self.fill_stream(server, lane, 100)
                while lane in server.streams and server.streams[lane].batches:
                    server.receive_batch(lane)
            for lane in list(server.runs_wanted):
                self.answer_runs(server, lane)
            for lane, found in list(server.disk.items()):
                if found.synced < found.length:
                    server.sync(lane, 100)
            assert server.core is not None
            server.step(Tick(self.now_us))
        for client in self.clients:
            client.open()
            client.move()
            client.wire.clear()
            client.send_again()
            while client.wire:
                client.deliver()
        for report in self.reports:
            self.leader.receive(report)
        self.reports.clear()
        self.propose()
        while self.flight:
            self.commit()

    def is_at_rest(self) -> bool:
        servers = [server for server in self.servers.values() if server.shard in self.state.shards.by_number]
        return (
            not any(client.unanswered for client in self.clients)
            and not any(server.link or server.work or server.link is None for server in servers)
            and all(server.core is not None and server.core.deadline_us is None for server in servers)
            and all(server.core is not None and server.core.readable == self.state.tail for server in servers)
            and all(
                server.core is not None and server.core.state in ("serving", "finalized") and self.is_whole(server)
                for server in servers
            )
        )

    def is_whole(self, server: SimulatedReplica) -> bool:
        assert server.core is not None
        return all(
            server.core.is_settled(lane) or (is_open and durable == ordered == len(self.content[lane]))
            for lane, is_open, durable, ordered in server.core.lanes()
        )

    def check_the_end(self) -> None:
        for client in self.clients:
            check(5, not client.unanswered, f"{client.name} waits for {len(client.unanswered)} answers")
        for server in self.servers.values():
            if server.shard not in self.state.shards.by_number:
                continue
            core, name = server.core, f"replica {server.shard}/{server.replica}"
            assert core is not None
            check(4, core.state in ("serving", "finalized"), f"{name} is {core.state}: {core.lanes()}")
            check(6, core.readable == self.state.tail, f"{name} can read up to {core.readable} of {self.state.tail}")
            lengths = self.state.lanes.ordered_lengths(server.shard)
            check(4, set(server.disk) == set(lengths), f"{name} holds {sorted(server.disk)}, not {sorted(lengths)}")
            for lane, length in lengths.items():
                self.check_copy(server, lane, length)
            check(7, core.deadline_us is None, f"{name} still waits for {core.deadline_us} at {self.now_us}")

    def check_copy(self, server: SimulatedReplica, lane: LaneId, length: int) -> None:
        found = server.disk[lane]
        check(4, found.synced == found.length == length, f"a copy of lane {lane} has {found.synced} of {length}")
        for lsn, value in enumerate(server.values_of(lane, 0, length)):
            gone = self.places[lane][lsn] < self.state.first
            check(4, value == self.content[lane][lsn] or (value is None and gone), f"{lane} at {lsn} is {value!r}")
            check(2, gone or found.position_of(lsn) == self.places[lane][lsn], f"{lane} at {lsn} has another position")


def news_of(outcome: Outcome, shard: int) -> object | None:
    """What of an outcome a replica of the shard is told."""
    match outcome:
        case OrderedCut():
            return outcome.of_shard(shard)
        case ViewChanged() | TrimmedTo():
            return outcome
        case LaneOpened(lane) | LaneClosed(lane) | RangeLost(lane):
            return outcome if lane.shard == shard else None
        case ShardFinalized(finalized):
            return outcome if finalized == shard else None
        case SessionOpened(session) | SessionExpired(session):
            return outcome if session.home.shard == shard else None
        case SessionMoved(session, source):
            return outcome if shard in (session.home.shard, source.shard) else None
        case Refused() | Configured():
            return None
