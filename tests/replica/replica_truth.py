"""What is true in the world: what primaries accepted, what was ordered, and whether replicas agree with both."""

from collections import Counter
from random import Random

from tests.replica.simulated_client import Sent
from tests.replica.simulated_replica import DiskLane, SimulatedReplica, check, end_of

from ithaca.engines.scalog.ordering.outcomes import OrderedCut
from ithaca.engines.scalog.ordering.state import OrderingState
from ithaca.engines.scalog.replica.events import Request
from ithaca.model.cut import LaneRun
from ithaca.model.errors import IthacaError, WrongLane
from ithaca.model.positions import LaneId
from ithaca.wire.batch import NOOPS, SNAPSHOT, Batch, lane_seed
from ithaca.wire.build import bookkeeping

Excuse = tuple[object, SimulatedReplica, dict[LaneId, tuple[int, int]]]


class Truth:
    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.counts: Counter[str] = Counter()
        self.state = OrderingState()
        self.servers: dict[tuple[int, int], SimulatedReplica] = {}
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
        self.snapshots: list[tuple[Batch, ...]] = []
        """What each snapshot says, by its number."""
        self.last_seq: dict[int, int] = {}
        self.forgotten: set[LaneId] = set()
        self.applying: object = None
        """The entry whose outcomes are looked at."""
        self.excused: list[Excuse] = []
        """Entries that were on their way when a replica came back without some lanes: they may count on those."""

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
            was_opened = self.state.lanes.ordered_length(lane) is not None or lane in self.forgotten
            check(1, was_opened, f"lane {lane} was not opened")
            assert len(self.content[lane]) == batch.base_lsn
            self.content[lane] += values
        held = self.content[lane][batch.base_lsn : batch.end_lsn]
        check(4, held == list(values), f"a copy of lane {lane} is another")

    def snapshot(self, lane: LaneId, found: DiskLane, lsn: int) -> list[Batch]:
        """What a replica says of the batches before this one, if it knows."""
        if found.has_holes_before(lsn):
            return []
        entry = bookkeeping(SNAPSHOT, b"%d" % len(self.snapshots)).placed(lsn, lane_seed(lane))
        self.snapshots.append(found.known(lsn))
        return [entry]

    def said(self, lane: LaneId, entry: Batch) -> tuple[Batch, ...]:
        """The batches that a snapshot tells of."""
        told = self.snapshots[int(entry.control_body())]
        values = [value for batch in told for value in self.values[batch.body_crc]]
        check(5, values == self.content[lane][: entry.base_lsn], f"a snapshot of lane {lane} is not what was there")
        self.counts["holes explained"] += 1
        return told

    def ordered(self, cut: OrderedCut) -> None:
        for shard in cut.shards:
            known = self.state.shards.by_number[shard]
            members = [self.servers[shard, each.replica] for each in known.replicas]
            for run in cut.of_shard(shard).runs:
                stop = run.lsn + run.count
                holders = [each for each in members if self.synced_by(each, run.lane) >= stop]
                check(3, len(holders) > known.f, f"{run} is synced by {len(holders)} of {len(members)}")
        for shard in sorted(cut.shards):
            for run in cut.of_shard(shard).runs:
                for lsn in range(run.lsn, run.lsn + run.count):
                    self.place(run.lane, lsn)
        assert len(self.truth) == self.state.tail - 1

    def synced_by(self, server: SimulatedReplica, lane: LaneId) -> int:
        """How much of the lane the replica has synced, or had, when what is applied now was proposed."""
        found = server.disk.get(lane)
        known = [0 if found is None else found.synced, server.lost.get(lane, (0, 0))[0]]
        for entry, excused, lost in self.excused:
            if entry is self.applying and excused is server:
                known.append(lost.get(lane, (0, 0))[0])
        return max(known)

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
        check(2, places == list(range(run.position, run.position + run.count)), f"{run} is not what was ordered")

    def check_skipped(self, lane: LaneId, lsn: int, first: int) -> None:
        check(6, self.places[lane][lsn - 1] < first, f"the positions of lane {lane} up to {lsn} were not all trimmed")
        self.counts["runs skipped"] += 1

    def check_runs_synced(self, server: SimulatedReplica, cut: int) -> None:
        """All runs up to the cut are durable there, or of records that were trimmed."""
        for number, kept in self.state.kept.items():
            if number > cut:
                break
            for run in kept.of_shard(server.shard).runs:
                found = server.disk.get(run.lane)
                if found is None or run.position + run.count <= self.state.first:
                    continue
                known = max((end_of(each) for each, _ in found.runs[: found.runs_synced]), default=0)
                check(6, known >= run.lsn + run.count, f"the runs up to cut {cut} are said to be durable")

    def acknowledged(self, request: Request, position: int) -> None:
        sent = request.connection
        assert isinstance(sent, Sent)
        places = [self.truth[at - 1] for at in range(position, position + len(sent.values)) if at < self.state.tail]
        values = tuple(self.content[lane][lsn] for lane, lsn in places)
        check(2, values == sent.values, f"{sent.values} is acknowledged at {position}, where {values} is")
        self.counts["acknowledged"] += 1
        if sent.client is not None and self.rng.random() < 0.9:
            sent.client.answered(sent)

    def refused(self, server: SimulatedReplica, request: Request, error: IthacaError) -> None:
        sent = request.connection
        assert isinstance(sent, Sent)
        self.counts[f"refused {type(error).__name__}"] += 1
        lane = None if server.core is None else server.core.own_lane
        if error.outcome_unknown:
            trimmed = [self.content[lane][lsn] for lane, lsn in self.truth[: self.state.first - 1]]
            is_ordered = sent.values[0] in trimmed
            check(2, is_ordered or lane in self.forgotten, f"the position of {sent.values} is said to be gone")
            self.counts["positions gone"] += 1
            if is_ordered or sent.client is None:
                sent.is_answered = True
            else:
                sent.client.give_up()
        if isinstance(error, WrongLane) and lane is not None:
            ordered = self.content[lane][: len(self.places[lane])]
            if sent.client is None:
                check(5, sent.values[0] not in ordered, f"{sent.values} is refused, and ordered")
            elif sent.values[0] in self.content[lane] and sent.values[0] not in ordered:
                # It was accepted, and now is not: then its lane must be closed.
                session = sent.client.session
                is_other = session is None or (session.producer_id, session.home) != (sent.batch.producer_id, lane)
                check(5, is_other or not self.state.lanes.is_open(lane), f"{sent.values} was accepted, and is refused")

    def look_at(self, server: SimulatedReplica) -> None:
        """After each step: what the core says can be read is on the disk, and is what was ordered."""
        core = server.core
        assert core is not None
        for position in range(max(server.checked, core.first), core.readable):
            lane, lsn = self.truth[position - 1]
            if lane.shard != server.shard:
                continue
            found = server.disk.get(lane)
            check(6, found is not None and found.synced > lsn, f"position {position} is said to be here")
            assert found is not None
            check(6, found.position_of(lsn) == position, f"position {position} is not known")
            check(6, server.values_of(lane, lsn, lsn + 1) == [self.content[lane][lsn]], f"{position} is another record")
        server.checked = max(server.checked, core.readable)

    def check_copy(self, server: SimulatedReplica, lane: LaneId, length: int) -> None:
        found = server.disk[lane]
        check(4, found.synced == found.length == length, f"a copy of lane {lane} has {found.synced} of {length}")
        for lsn, value in enumerate(server.values_of(lane, 0, length)):
            gone = self.places[lane][lsn] < self.state.first
            check(4, value == self.content[lane][lsn] or (value is None and gone), f"{lane} at {lsn} is {value!r}")
            check(2, gone or found.position_of(lsn) == self.places[lane][lsn], f"{lane} at {lsn} has another position")
