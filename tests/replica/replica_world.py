"""A small world around the replica core: real cores, a real ordering state and leader, and everything that fails.

Consensus is a list of committed entries; leaders change and take along what they had in flight. Disks lose what
is not synced, links, streams and reports are delayed, cut and lost, replicas crash alone or all at once, clients
retry and move. After every step the world compares what the cores say with what is on the disks and in the
order. The numbers in violations are those of the invariants in `ithaca.engines.scalog.replica`; 0 is a promise to
users.
"""

from collections.abc import Callable

from tests.ordering.building import CONFIGURATION, shard_entry
from tests.replica.replica_order import Order
from tests.replica.replica_weights import AWAY, FAULTS, QUIET_ROUNDS, SHAPES, STEPS, WEIGHTS
from tests.replica.simulated_client import Sent, SimulatedClient, appended
from tests.replica.simulated_replica import SimulatedReplica, check, end_of

from ithaca.engines.scalog.ordering.entries import CloseLane, Configure, ExpireSession, Finalize, OpenLane, TrimTo
from ithaca.engines.scalog.replica.events import DiskFull, Fetch, Replicated, RunsFetched, SourcesExhausted, Tick
from ithaca.model.positions import LaneId
from ithaca.model.view import Address
from ithaca.wire.batch import NOOPS, Batch
from ithaca.wire.build import build


class World(Order):
    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.late: list[tuple[SimulatedReplica, int, LaneId, Batch]] = []
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
        masked = [server for server in self.servers.values() if self.state.shards.by_number[server.shard].masking]
        self.slow = self.rng.choice([None, *self.servers.values(), *masked])
        """A replica that lags behind: with masking the others go on without it."""
        self.away = self.slow if self.slow in masked and self.rng.random() < 0.7 else None
        """The same, if it hears nothing at all of the order for the middle part of the run."""
        self.steps = 0
        for server in self.servers.values():
            server.start()

    def run(self) -> "World":
        # Each seed has its own mix of faults, so that some are rare and some frequent in it.
        mixed = WEIGHTS | {fault: WEIGHTS[fault] * self.rng.choice([0, 1, 1, 6]) for fault in FAULTS}
        mixed["restart"] *= self.rng.choice([0.2, 1, 1])
        kinds, weights = list(mixed), list(mixed.values())
        for self.steps in range(STEPS):
            self.now_us += self.rng.randint(0, 4000)
            if self.away is not None and self.steps == AWAY.start:
                self.cut_link(self.away)
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
        if server is not None and not server.link_lost and not (server is self.away and self.steps in AWAY):
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
                if batch.base_lsn > stream.next_lsn:
                    stream.batches += self.snapshot(lane, found, batch.base_lsn)
                stream.batches.append(batch)
                stream.next_lsn = batch.end_lsn
                batches -= 1
                if batch.kind == NOOPS:
                    stream.batches += self.snapshot(lane, found, batch.end_lsn)
        if isinstance(wanted, Fetch) and not stream.batches:
            self.fetch_the_last(server, lane, source, wanted)
        elif stream.next_lsn < found.trim_lsn == found.length:
            stream.batches += self.snapshot(lane, found, found.length)
            stream.next_lsn = found.length

    def fetch_the_last(self, server: SimulatedReplica, lane: LaneId, source: SimulatedReplica, wanted: Fetch) -> None:
        """There are no more batches to be had from this peer: does it know what they were, or does nobody?"""
        assert source.core is not None
        if source.core.is_settled(lane):
            server.streams[lane].batches += self.snapshot(lane, source.disk[lane], wanted.stop)
        peers = [self.at[address] for address in wanted.peers]
        if all(each.core is not None and not self.can_send(each, server, lane, wanted.stop) for each in peers):
            server.step(SourcesExhausted(lane))

    def can_send(self, peer: SimulatedReplica, server: SimulatedReplica, lane: LaneId, stop: int) -> bool:
        """Whether the peer has more of the lane, or can say what it was."""
        assert server.core is not None
        assert peer.core is not None
        found, start = peer.disk.get(lane), server.core.received(lane)
        if found is None:
            return False
        sends = any(batch.base_lsn >= found.trim_lsn and batch.end_lsn > start for batch in found.batches)
        return sends or (peer.core.is_settled(lane) and not found.has_holes_before(stop))

    def receive_batch(self) -> None:
        server = self.any_server(lambda each: any(stream.batches for stream in each.streams.values()))
        if server is not None:
            lane = self.rng.choice([lane for lane, stream in server.streams.items() if stream.batches])
            for _ in range(self.rng.randint(1, 3)):
                server.receive_batch(lane)

    def break_stream(self) -> None:
        """The connection ends, and is dialled again."""
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
        peer = self.at[self.rng.choice(wanted.peers)]
        if peer.core is None or lane not in peer.disk:
            return
        known = peer.disk[lane].runs_known()
        stop = max(wanted.stop, known[0][0].lsn + 1) if known else 0
        found = [(run, at) for run, at in known if run.lsn < stop and end_of(run) > wanted.start]
        if found:
            wanted.start = end_of(found[-1][0])
            if wanted.start >= wanted.stop:
                del server.runs_wanted[lane]
            for run, time_us in found:
                server.step(RunsFetched(lane, (run,), time_us))

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
        if server is not None and not self.is_held_up(server):
            server.start()

    def lose_lane(self) -> None:
        """A replica that is down will find a lane damaged; never what no other replica has on its disk."""
        server = self.any_server(lambda each: each.core is None and bool(each.disk))
        if server is not None:
            lane = self.rng.choice(list(server.disk))
            if any(self.has_as_much(peer, server, lane) for peer in self.servers.values() if peer is not server):
                server.lose_lane(lane)

    def has_as_much(self, peer: SimulatedReplica, server: SimulatedReplica, lane: LaneId) -> bool:
        mine, theirs = server.disk[lane], peer.disk.get(lane)
        if theirs is None or (theirs.has_holes and not mine.has_holes):
            return False
        return theirs.synced >= mine.synced and theirs.runs_durable >= mine.runs_durable

    def break_link(self) -> None:
        server = self.any_server(lambda each: each.link is not None)
        if server is not None:
            self.cut_link(server)

    def drop_news(self) -> None:
        """A cut is left out of the stream, which TCP would not do: it must be seen when the next one comes."""
        server = self.any_server(lambda each: each.link is not None)
        if server is not None and server.link is not None:
            cuts = [item for item in server.link if type(item).__name__ == "ShardCut"]
            if len(cuts) > 1:
                server.link.remove(self.rng.choice(cuts[:-1]))
                self.counts["news dropped"] += 1

    def fill_disk(self) -> None:
        self.set_full(self.any_server(lambda each: each.core is not None and not each.is_full), is_full=True)

    def free_disk(self) -> None:
        self.set_full(self.any_server(lambda each: each.core is not None and each.is_full), is_full=False)

    def set_full(self, server: SimulatedReplica | None, *, is_full: bool) -> None:
        if server is not None:
            server.is_full = is_full
            server.step(DiskFull(is_full))

    # What operators do

    def close_lane(self) -> None:
        lane = self.any_open_lane()
        if lane is not None:
            self.send(CloseLane(lane))

    def trim(self) -> None:
        self.send(TrimTo(self.rng.randint(self.state.first, self.state.tail)))

    def drop_trimmed(self) -> None:
        """A replica gives up batches that nobody may read any more, and where they were."""
        server = self.any_server(lambda each: each.core is not None and bool(each.disk))
        if server is not None and server.core is not None:
            server.disk[self.rng.choice(list(server.disk))].trim(server.core.first, self.rng.randint(0, 9))

    def finalize(self) -> None:
        """Not the first shard: appends must have somewhere to go."""
        if 1 in self.state.shards.by_number:
            self.send(Finalize(1, self.rng.randint(0, 2), 0))

    # Picking

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
            self.start_again_if_closed(server)
            if server.core is None:
                server.start()
            self.set_full(server, is_full=False)
        for number in range(QUIET_ROUNDS):
            self.now_us += 30_000
            self.quiet_round()
            if self.is_at_rest():
                break
            if number == QUIET_ROUNDS // 2:
                for server in self.servers.values():
                    self.start_again_if_waiting(server)
        self.check_the_end()

    def start_again_if_closed(self, server: SimulatedReplica) -> None:
        """A server whose lane was closed is started again: the order gives its next boot another one."""
        core = server.core
        if core is not None and core.own_lane is not None and not self.has_open_lane(core.own_lane):
            server.crash()

    def start_again_if_waiting(self, server: SimulatedReplica) -> None:
        """As one that is a member without a lane does, and would ask for one only after seconds."""
        core = server.core
        if core is not None and core.deadline_us is not None and not self.has_open_lane(core.own_lane):
            server.crash()

    def has_open_lane(self, lane: LaneId | None) -> bool:
        return lane is not None and self.state.lanes.is_open(lane)

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
                server.core is not None and server.core.state in ("serving", "finalized") and self.is_complete(server)
                for server in servers
            )
        )

    def is_complete(self, server: SimulatedReplica) -> bool:
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
