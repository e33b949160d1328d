"""Followers beside a writer that rolls, trims, recycles and restarts: right records, or `Trimmed`, nothing else."""

import threading
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from tests.storage.lanes import NaiveLane, Source, Written, read_rows

import ithaca
from ithaca.embedded import directory
from ithaca.embedded.follower import Follower
from ithaca.model.errors import Trimmed
from ithaca.model.records import Durability
from ithaca.storage.disk import OsDisk
from ithaca.storage.lane import Lane
from ithaca.storage.reader import Cursor, LaneReader
from ithaca.storage.segment import Segment
from ithaca.wire.batch import Batch

pytestmark = pytest.mark.usefixtures("small_limits")

FAILED_ONCE = (30, 47)


class Following:
    """One writer and some followers, one step at a time, in an order that the seed decides."""

    def __init__(self, path: Path, seed: int, durability: Durability) -> None:
        self.random = Random(seed)
        self.source = Source(self.random)
        self.path = str(path)
        self.disk = OsDisk()
        self.lock = directory.prepare(self.disk, self.path)
        self.durability: Durability = durability
        self.written: list[Written] = []
        self.model = NaiveLane()
        self.lane = self._open()
        self.cursors = [Cursor(self._follower(), 0) for _ in range(3)]
        self.trimmed = self.read = 0

    def _open(self) -> Lane:
        place = directory.lane_directory(self.path)
        return Lane(self.disk, place, directory.LANE, durability=self.durability, segment_bytes=2500)

    def _follower(self) -> Follower:
        return Follower(self.disk, self.path)

    def step(self) -> None:
        chance = self.random.random()
        if chance < 0.45:
            self._write([self.source.records() for _ in range(self.random.randint(1, 3))])
        elif chance < 0.55:
            self._write([self.source.trim(self.lane)])
            self.lane.drop_trimmed()
        elif chance < 0.58:
            if self.random.random() < 0.5:
                self.lane.close()
            self.lane = self._open()  # or it was killed
        elif chance < 0.62:
            self._seek()
        else:
            self._follow(self.random.randrange(len(self.cursors)))

    def _write(self, entries: list[Written]) -> None:
        self.lane.commit(self.lane.prepare([entry.batch for entry in entries]))
        for entry in entries:
            self.written.append(entry)
            self.model.apply(entry)

    def _follow(self, number: int) -> None:
        cursor = self.cursors[number]
        follower = cursor._reader
        if self.random.random() < 0.8:
            follower.refresh()
        assert follower.length <= len(self.model.rows)
        if cursor.lsn >= follower.length:
            return
        stop = self.random.randint(cursor.lsn + 1, follower.length)
        low = cursor.lsn
        try:
            batches = cursor.read(stop, bytes_max=self.random.choice([1, 300, 5000]))
        except Trimmed as error:
            self._restart(number, error.first)
            return
        for batch in batches:
            rows = [(record.value, record.key) for record in batch.records(0, 0)]
            assert rows == self.model.rows[batch.base_lsn : batch.end_lsn]
            self.read += len(rows)
        assert batches[0].base_lsn <= low < batches[0].end_lsn

    def _restart(self, number: int, first: int) -> None:
        """A reader was too late; it goes on somewhere else."""
        self.trimmed += 1
        cursor = self.cursors[number]
        assert cursor.lsn + 1 < first <= self.model.trim + 1
        follower = cursor._reader if self.random.random() < 0.7 else self._follower()
        self.cursors[number] = Cursor(follower, self.random.randint(self.model.trim, len(self.model.rows)))

    def _seek(self) -> None:
        """By time, from every reader: the first record at or behind it that is not trimmed."""
        lsn, places = 0, []
        for entry in self.written:
            if entry.rows:
                places.append((entry.batch.timestamp_us, lsn))
                lsn += len(entry.rows)
        if not places:
            return
        time_us = self.random.choice(places)[0] + self.random.randint(-2, 2)
        expected = max(self.model.trim, next((at for stamp, at in places if stamp >= time_us), lsn))
        readers: list[LaneReader] = [self.lane, *(cursor._reader for cursor in self.cursors)]
        for reader in readers:
            reader.refresh()
            assert reader.seek_time(time_us) == expected, type(reader)


@pytest.mark.parametrize("durability", ["fsync", "os"])
def test_followers_see_right_records_or_trimmed(tmp_path: Path, durability: Durability) -> None:
    trimmed = read = 0
    for seed in (*range(12), *FAILED_ONCE):
        following = Following(tmp_path / f"{seed}", seed, durability)
        try:
            for _ in range(250):
                following.step()
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error
        trimmed += following.trimmed
        read += following.read
    assert trimmed > 100
    assert read > 2000


def test_what_a_follower_has_passed_it_finds_again_without_a_walk(tmp_path: Path) -> None:
    """The writer stores where batches are a checkpoint at a time: behind the last one there may be many."""
    following = Following(tmp_path / "log", 3, "os")
    for _ in range(8):
        following._write([following.source.records(2)])
    follower, length = following._follower(), following.lane.length
    follower.refresh()
    assert follower.first_lsns == [0]
    segment = follower.segment(0)
    known = [lsn for lsn, _ in segment.index.entries()]
    cursor = Cursor(follower, 0)
    while cursor.lsn < length:
        cursor.read(length, bytes_max=500)
    learnt = dict(segment.index.entries())
    assert max(known, default=0) < max(learnt)
    offsets = {batch.base_lsn: offset for offset, batch in walked(segment, length) if batch.count}
    assert learnt.items() <= offsets.items()
    assert segment.index.next_offset > max(offsets.values()), "none of those behind is a stride further"


def walked(segment: Segment, length: int) -> Iterator[tuple[int, Batch]]:
    """All of a segment up to the lane's end."""
    for offset, batch in segment.walk(0, segment.first_lsn):
        yield offset, batch
        if batch.end_lsn >= length:
            return


def test_threads_follow_while_a_writer_rolls_trims_and_recycles(tmp_path: Path) -> None:
    """The same with real races: a value is a function of its position."""
    path = str(tmp_path / "log")
    failures: list[BaseException] = []
    started = threading.Barrier(3)
    finished = threading.Event()
    counts, late = [0, 0], [0, 0]

    def value_of(position: int) -> bytes:
        return b"%d." % position * 100

    def follow(number: int) -> None:
        random = Random(number)
        try:
            with ithaca.open(path, mode="r") as log:
                started.wait(60)
                while not finished.is_set():
                    first, tail = log.first(), log.tail()
                    start = random.randint(first, tail)
                    try:
                        for record in log.read_range(start):
                            assert record.value == value_of(record.position)
                            counts[number] += 1
                    except Trimmed:
                        late[number] += 1
        except BaseException as error:
            failures.append(error)
            started.abort()

    with ithaca.open(path, segment_bytes=1 << 16, durability="os") as log:
        threads = [threading.Thread(target=follow, args=(number,)) for number in range(2)]
        for thread in threads:
            thread.start()
        started.wait(60)
        random = Random(7)
        for _ in range(300):
            tail = log.tail()
            log.append_many([value_of(tail + n) for n in range(random.randint(1, 60))])
            if random.random() < 0.1:
                log.trim(random.randint(log.first(), log.tail()))
            if failures:
                break
        finished.set()
        for thread in threads:
            thread.join(60)
    if failures:
        raise failures[0]
    assert min(counts) > 0
    assert sum(late) < sum(counts)


def test_the_writers_own_readers_race_with_it_too(tmp_path: Path) -> None:
    path = str(tmp_path / "log")
    failures: list[BaseException] = []
    finished = threading.Event()

    def value_of(position: int) -> bytes:
        return b"%d." % position * 100

    with ithaca.open(path, segment_bytes=1 << 16, durability="os") as log:
        log.append(value_of(1))

        def read() -> None:
            try:
                while not finished.is_set():
                    try:
                        for record in log.read_range(log.first()):
                            assert record.value == value_of(record.position)
                    except Trimmed:
                        continue
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=read) for _ in range(2)]
        for thread in threads:
            thread.start()
        random = Random(8)
        for _ in range(200):
            tail = log.tail()
            log.append_many([value_of(tail + n) for n in range(random.randint(1, 60))])
            if random.random() < 0.1:
                log.trim(random.randint(log.first(), log.tail()))
            if failures:
                break
        finished.set()
        for thread in threads:
            thread.join(60)
        if failures:
            raise failures[0]
        assert read_rows(log._engine.reader, log.first() - 1, log.tail() - 1)  # type: ignore[attr-defined]
