"""Reading a shard by position against a plain list: merges, stops, budgets, trims, cuts and restarts in between."""

from dataclasses import dataclass, field
from random import Random

import pytest
from tests.storage.cluster_lanes import ClusterSource, lengths
from tests.storage.lanes import Row, Written, rows_of, write

from ithaca.engines.scalog.storage import shard_reader
from ithaca.engines.scalog.storage.lane_store import LaneStore, trim
from ithaca.engines.scalog.storage.shard_reader import LaneRange, PositionedEntry, ShardCursor, find, seek_time
from ithaca.model.cut import LaneRun
from ithaca.model.errors import Corrupt, Lost, Trimmed
from ithaca.model.limits import READ_RUNS_MIN
from ithaca.model.positions import LaneId
from ithaca.sim.disk import SimDisk

OLD = LaneId(0, 1, 1)
small = pytest.mark.usefixtures("small_limits")


@dataclass(eq=False)
class Reader:
    """A cursor and what it has returned since `start`."""

    cursor: ShardCursor
    start: int
    stop: int = 0
    seen: list[tuple[int, Row]] = field(default_factory=list)


class NaiveShard:
    """A shard on a simulated disk, and the same as a list: what is at each position, and when it was ordered."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.source = ClusterSource(random)
        self.disk = SimDisk()
        self.disk.make_directory("/store")
        self.disk.sync_directory("/")
        self.lanes_open_max = random.choice([1, 3, 100])
        self.store = self.opened()
        self.written: dict[LaneId, list[Written]] = {}
        self.ordered: dict[LaneId, int] = {}  # batches
        self.rows: dict[int, tuple[LaneId, int, Row]] = {}
        self.times: dict[int, int] = {}
        self.tail = 1
        self.time_us = 10
        self.entries = 0
        self.cursors: list[Reader] = []
        self.settled: dict[int, int] = {}
        """How many lanes of each number were settled: another one took their place."""

    def opened(self) -> LaneStore:
        return LaneStore(self.disk, "/store", segment_bytes=2500, lanes_open_max=self.lanes_open_max)

    def lane(self, number: int) -> LaneId:
        lane = LaneId(0, 1 + number % 2, 1 + number // 2 + 3 * self.settled.get(number, 0))
        if lane not in self.written:
            self.store.create(lane)
            self.written[lane], self.ordered[lane] = [], 0
        return lane

    def write(self, number: int, batches: int) -> None:
        lane = self.lane(number)
        group = [self.source.batch() for _ in range(1 + batches % 4)]
        write(self.store.lanes[lane].lane, group)
        self.written[lane] += group

    def cut(self, gap: int) -> None:
        """Order some batches of some lanes; between them, `gap` records of other shards."""
        self.time_us += self.random.randint(0, 3)
        for lane in sorted(self.written):
            if lane not in self.store.lanes or self.store.lanes[lane].is_settled:
                continue
            before = self.ordered[lane]
            after = self.random.randint(before, len(self.written[lane]))
            ends = lengths(self.written[lane])
            if after > before and self.random.random() < 0.8:
                self.tail += self.random.randint(0, gap % 4)
                run = LaneRun(lane, ends[before], self.tail, ends[after] - ends[before])
                self.store.note((run,), self.time_us)
                rows = [row for entry in self.written[lane][before:after] for row in entry.rows]
                for lsn, row in enumerate(rows, run.lsn):
                    self.rows[self.tail], self.times[self.tail] = (lane, lsn, row), self.time_us
                    self.tail += 1
                self.ordered[lane] = after
        self.tail += gap % 3

    def close_lane(self, number: int) -> None:
        lane = self.lane(number)
        self.written[lane] = self.written[lane][: self.ordered[lane]]
        self.store.truncate(lane, lengths(self.written[lane])[-1])

    def settle(self, number: int) -> None:
        """Close a lane, or several, for good; they may go into a pack at once."""
        for each in range(number, number + 1 + number % 3):
            lane = self.lane(each % 6)
            self.close_lane(each % 6)
            held = self.store.lanes[lane]
            held.is_written, held.is_settled = False, True
            self.settled[each % 6] = self.settled.get(each % 6, 0) + 1
        if number % 2:
            assert self.store.pack() is None
            assert not self.store.packable()
        if number % 4 == 1:
            self.store.tidy()

    def drop_trimmed(self) -> None:
        """What the order does with lanes of which nothing is left."""
        ends = {lane: position + 1 for position, (lane, _, _) in sorted(self.rows.items())}
        gone = [lane for lane, end in ends.items() if end <= self.store.first]
        self.store.forget([lane for lane in gone if lane in self.store.settled])
        for lane in gone:
            if lane in self.store.lanes and self.store.lanes[lane].is_settled:
                self.store.drop(lane)

    def trim(self, percent: int) -> None:
        self.store.first = max(self.store.first, self.tail * percent // 220)
        for held in self.store.lanes.values():
            before = held.runs.floor_position(self.store.first)
            trim(held, before)
            held.runs.trim(before)

    def reopen(self) -> None:
        first = self.store.first
        self.store.close()
        self.disk.kill()
        settled = {lane for lane, held in self.store.lanes.items() if held.is_settled}
        self.store = self.opened()
        for lane in settled:
            self.store.lanes[lane].is_settled = True
        self.store.first = first
        self.cursors.clear()

    def sync_runs(self) -> None:
        for held in self.store.lanes.values():
            held.runs.sync()

    # Reading.

    def start(self, percent: int) -> None:
        position = max(self.store.first, 1 + self.tail * percent // 100)
        self.cursors.append(Reader(ShardCursor(self.store, position), position))

    def read(self, number: int, percent: int) -> None:
        if not self.cursors:
            return
        reader = self.cursors[number % len(self.cursors)]
        cursor = reader.cursor
        wanted = cursor.position + (self.tail - cursor.position) * min(100, percent) // 100
        stop = reader.stop = max(reader.stop, wanted, cursor.position)
        bytes_max = self.random.choice([1, 200, 700, 5000])
        before = cursor.position
        if before < self.store.first:
            with pytest.raises(Trimmed) as caught:
                cursor.plan(stop)
            assert caught.value.first == self.store.first
            self.cursors.remove(reader)
            return
        stretches = cursor.plan(stop, bytes_max=bytes_max)
        positions = [stretch.position for stretch in stretches]
        assert positions == sorted(positions)
        entries = cursor.read(stretches)
        assert sum(entry.batch.total_bytes for entry in entries[:-1]) < bytes_max
        assert stretches or cursor.position == stop
        assert bool(stretches) == bool(entries)
        self.entries += len(entries)
        for entry in entries:
            reader.seen += positioned_rows(entry)
        assert before <= cursor.position <= max(stop, before)
        expected = [(at, self.rows[at][2]) for at in range(reader.start, cursor.position) if at in self.rows]
        assert reader.seen == expected

    def check(self) -> None:
        """Everything, at once; and every position alone."""
        first = self.store.first
        cursor, seen = ShardCursor(self.store, first), list[tuple[int, Row]]()
        while cursor.position < self.tail:
            for entry in cursor.read(cursor.plan(self.tail)):
                seen += positioned_rows(entry)
        assert seen == [(at, row) for at, (_, _, row) in sorted(self.rows.items()) if at >= first]
        for position in range(first, self.tail + 3):
            assert find(self.store, position) == (self.rows[position][:2] if position in self.rows else None)
        for time_us in range(9, self.time_us + 2):
            for stop in (self.tail, first + (self.tail - first) // 2):
                left = [at for at, time in sorted(self.times.items()) if time >= time_us and first <= at < stop]
                assert seek_time(self.store, time_us, stop) == (left[0] if left else None)


def positioned_rows(entry: PositionedEntry) -> list[tuple[int, Row]]:
    rows = rows_of(entry.batch)
    assert 0 <= entry.low < entry.high <= len(rows)
    return [(entry.position + row, rows[row]) for row in range(entry.low, entry.high)]


STEPS = (
    ["write"] * 8
    + ["cut"] * 6
    + ["start"] * 2
    + ["read"] * 14
    + ["close", "trim", "reopen", "sync", "check", "settle", "settle", "drop"]
)


def play(seed: int) -> int:
    """A life of a shard and of its readers; returns how many batches were read."""
    random = Random(seed)
    shard = NaiveShard(random)
    for _ in range(random.randint(20, 150)):
        number, percent = random.randrange(6), random.randint(0, 110)
        match random.choice(STEPS):
            case "write":
                shard.write(number, percent)
            case "cut":
                shard.cut(number)
            case "start":
                shard.start(percent)
            case "read":
                shard.read(number, percent)
            case "close":
                shard.close_lane(number)
            case "trim":
                shard.trim(percent)
            case "reopen":
                shard.reopen()
            case "sync":
                shard.sync_runs()
            case "settle":
                shard.settle(number)
            case "drop":
                shard.drop_trimmed()
            case _:
                shard.check()
    shard.check()
    return shard.entries


@small
def test_a_shard_reads_as_a_plain_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_reader, "READ_LANE_BYTES_MIN", 300)
    entries = 0
    for seed in range(200):
        monkeypatch.setattr(shard_reader, "READ_RUNS_MIN", 1 + seed % 2)
        monkeypatch.setattr(shard_reader, "READ_RUNS_MAX", 1 + seed % 7)
        monkeypatch.setattr(shard_reader, "_RUNS_AT_ONCE", 1 + seed % 3)
        monkeypatch.setattr(shard_reader, "_LANES_AT_ONCE", 1 + seed % 4)
        try:
            entries += play(seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error
    assert entries > 4500


def small_shard(seed: int = 1) -> NaiveShard:
    shard = NaiveShard(Random(seed))
    for number in range(30):
        shard.write(number % 3, number)
        shard.cut(number)
    return shard


@small
def test_what_is_written_and_not_ordered_is_never_read() -> None:
    shard = small_shard()
    before = len(shard.rows)
    for number in range(9):
        shard.write(number, 3)
    cursor = ShardCursor(shard.store, 1)
    records = 0
    while stretches := cursor.plan(shard.tail + 1000):
        records += sum(entry.high - entry.low for entry in cursor.read(stretches))
    assert records == before
    assert cursor.position == shard.tail + 1000
    assert cursor.plan(shard.tail + 1000) == []


@small
def test_one_lane_alone_is_one_stretch_of_so_many_runs() -> None:
    shard = NaiveShard(Random(2))
    for number in range(80):
        shard.time_us += 1
        shard.write(0, number)
        shard.cut(0)
    runs = list(shard.store.lanes[OLD].runs.runs(0, 1 << 30))
    cursor, at, ahead = ShardCursor(shard.store, 1), 0, READ_RUNS_MIN
    assert len(runs) > 3 * ahead
    while cursor.position < shard.tail:
        stretches = cursor.plan(shard.tail, bytes_max=1 << 20)
        assert [stretch.count for stretch in stretches] == [sum(run.count for run in runs[at : at + ahead])]
        cursor.read(stretches)
        at, ahead = at + ahead, 2 * ahead
    assert at >= len(runs)


@small
def test_lanes_that_come_later_are_part_of_the_merge() -> None:
    shard = small_shard()
    cursor = ShardCursor(shard.store, 1)
    shard.cursors.append(Reader(cursor, 1))
    shard.read(0, 60)
    shard.write(7, 3)
    shard.close_lane(0)
    while len(shard.written[shard.lane(7)]) != shard.ordered[shard.lane(7)]:
        shard.cut(2)
    for _ in range(200):
        shard.read(0, 100)
    assert cursor.position == shard.tail
    assert len(shard.cursors[0].seen) == len(shard.rows)


@small
def test_what_is_in_memory_needs_no_disk() -> None:
    shard = small_shard()
    cold = ShardCursor(shard.store, 1)
    assert not cold.in_memory(cold.plan(shard.tail))
    shard.write(0, 0)
    while shard.ordered[OLD] < len(shard.written[OLD]):
        start = shard.tail
        shard.cut(0)
    hot = ShardCursor(shard.store, start)
    stretches = hot.plan(shard.tail)
    assert stretches[-1].lane == OLD or len(stretches) > 1
    assert hot.in_memory(stretches)
    assert hot.in_memory([])


@small
def test_a_trimmed_place_says_what_is_left() -> None:
    shard = small_shard()
    late = ShardCursor(shard.store, 1)
    stretches = late.plan(shard.tail)
    shard.trim(100)
    with pytest.raises(Trimmed) as caught:
        late.read(stretches)
    assert caught.value.first == shard.store.first
    for fail in (lambda: ShardCursor(shard.store, 2).plan(shard.tail), lambda: find(shard.store, 2)):
        with pytest.raises(Trimmed) as caught:
            fail()
        assert caught.value.first == shard.store.first


@small
def test_a_lane_that_was_dropped_under_a_reader_was_trimmed() -> None:
    shard = small_shard()
    unread, reading = ShardCursor(shard.store, 1), ShardCursor(shard.store, 1)
    planned = unread.plan(shard.tail)
    reading.read(reading.plan(shard.tail, bytes_max=1))
    rest = reading.plan(shard.tail)
    for lane in list(shard.store.lanes):
        shard.store.drop(lane)
    shard.store.first = shard.tail
    for cursor, stretches in ((unread, planned), (reading, rest)):
        with pytest.raises(Trimmed) as caught:
            cursor.read(stretches)
        assert caught.value.first == shard.tail


@small
def test_ordered_records_that_are_not_on_the_disk_are_lost() -> None:
    shard = NaiveShard(Random(3))
    shard.write(0, 2)
    held = shard.store.lanes[OLD]
    length = held.lane.length
    shard.store.note((LaneRun(OLD, 0, 1, length), LaneRun(OLD, length, length + 5, 4)), 5)
    cursor = ShardCursor(shard.store, 1)
    assert sum(entry.high - entry.low for entry in cursor.read(cursor.plan(length + 20))) == length
    with pytest.raises(Lost) as caught:
        cursor.plan(length + 20)
    assert (caught.value.start, caught.value.stop) == (length + 5, length + 9)
    assert cursor.position == length + 5
    assert ShardCursor(shard.store, caught.value.stop).plan(length + 20) == []


@small
def test_damage_stays_damage() -> None:
    shard = small_shard()
    shard.disk.flip_bit(f"/store/{OLD}/{0:020d}.seg", 400)
    cursor = ShardCursor(shard.store, 1)
    before = cursor.read(cursor.plan(shard.tail, bytes_max=1 << 20))
    assert before, "what precedes the damage is read"
    reached = cursor.position
    behind = before[-1].position + before[-1].high
    assert reached == min(position for position in shard.rows if position >= behind)
    with pytest.raises(Corrupt):
        cursor.read(cursor.plan(shard.tail, bytes_max=1 << 20))
    at_damage = ShardCursor(shard.store, reached)
    with pytest.raises(Corrupt):
        at_damage.read(at_damage.plan(shard.tail))


@small
def test_a_lane_whose_files_were_closed_goes_on_under_a_reader_when_they_are_opened_again() -> None:
    shard = NaiveShard(Random(4))
    shard.write(0, 3)
    while shard.ordered[OLD] < len(shard.written[OLD]):
        shard.cut(0)
    shard.cursors.append(Reader(ShardCursor(shard.store, 1), 1))
    while shard.cursors[0].cursor.position < shard.tail:
        shard.read(0, 100)
    held = shard.store.lanes[OLD]
    shard.sync_runs()
    held.is_written = False
    assert held.close_files()
    for number in range(20):  # more than a segment holds
        shard.write(0, number)
    while shard.ordered[OLD] < len(shard.written[OLD]):
        shard.cut(0)
    while shard.cursors[0].cursor.position < shard.tail:
        shard.read(0, 100)
    assert len(shard.cursors[0].seen) == len(shard.rows)


@small
def test_a_plan_ends_within_a_run_where_it_is_told_to_and_goes_on_there() -> None:
    """At the position below which it is asked for, and at the end of what is on the disk."""
    shard = NaiveShard(Random(3))
    held = shard.store.create(OLD)
    write(held.lane, [shard.source.batch(8)])
    shard.store.note((LaneRun(OLD, 0, 1, 12),), 10)
    cursor = ShardCursor(shard.store, 1)
    assert [cursor.plan(stop) for stop in (4, 4)] == [[LaneRange(OLD, 0, 1, 3)], []]
    assert (cursor.position, cursor.plan(50)) == (4, [LaneRange(OLD, 3, 4, 5)])
    with pytest.raises(Lost) as error:
        cursor.plan(50)
    assert (error.value.start, error.value.stop) == (9, 13)
