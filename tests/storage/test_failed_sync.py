"""A sync that fails: nothing is accepted any more, and a restart does not make durable by reading."""

from random import Random

import pytest
from tests.storage.lanes import (
    NaiveLane,
    Source,
    Written,
    check_reads,
    make_lane,
    open_lane,
    read_rows,
    session_table,
    write,
)

from ithaca.model.errors import Fenced
from ithaca.sim.disk import SimDisk
from ithaca.storage.disk import File
from ithaca.storage.lane import Lane

pytestmark = pytest.mark.usefixtures("small_limits")

SEEDS = range(250)


def grown(seed: int) -> tuple[SimDisk, Lane, Source, list[Written]]:
    """A lane with some committed groups."""
    random = Random(seed)
    disk, source = SimDisk(), Source(random)
    make_lane(disk)
    opened = open_lane(disk)
    written: list[Written] = []
    for _ in range(random.randint(0, 25)):
        group = [source.records() for _ in range(random.randint(1, 3))]
        if random.random() < 0.2:
            group += source.opening(opened)
        write(opened, group)
        written += group
    return disk, opened, source, written


def surviving(opened: Lane, written: list[Written], least: int) -> int:
    """How many of the entries the lane holds."""
    for count in range(len(written), least - 1, -1):
        model = NaiveLane(written[:count])
        if len(model.rows) == opened.length and model.session_table() == session_table(opened):
            return count
    raise AssertionError(f"{opened.length} records are no prefix of what was written")


def fail_a_commit(disk: SimDisk, opened: Lane, group: list[Written], path: str = "") -> None:
    length = opened.length
    disk.fail_next_sync(path)
    with pytest.raises(Fenced) as caught:
        write(opened, group)
    assert caught.value.outcome_unknown
    assert opened.length == length, "what a failed sync wrote is not to be seen"
    with pytest.raises(Fenced):
        opened.prepare([group[0].batch])
    opened.close()


def test_a_failed_sync_fences_and_what_a_restart_reports_is_durable() -> None:
    outcomes = set()
    for seed in SEEDS:
        disk, opened, source, written = grown(seed)
        group = [source.records() for _ in range(source.random.randint(1, 3))]
        fail_a_commit(disk, opened, group)
        check_reads(opened, NaiveLane(written), source.random)
        disk.kill()
        reopened = open_lane(disk)
        count = surviving(reopened, written + group, len(written))
        outcomes.add(count - len(written))
        disk.crash(source.random)
        again = open_lane(disk)
        assert surviving(again, written + group, 0) == count, f"seed {seed}: what was reported went"
        check_reads(again, NaiveLane((written + group)[:count]), source.random)
    assert len(outcomes) > 2, "whole groups and none at all were both expected to survive"


def test_a_failed_sync_and_a_power_loss_leave_what_was_committed() -> None:
    for seed in SEEDS:
        disk, opened, source, written = grown(seed)
        group = [source.records()]
        fail_a_commit(disk, opened, group)
        disk.crash(source.random)
        reopened = open_lane(disk)
        count = surviving(reopened, written + group, len(written))
        check_reads(reopened, NaiveLane((written + group)[:count]), source.random)


def test_a_failed_sync_of_the_directory_while_rolling_fences_too() -> None:
    """The new segment is there, but its name may not be: what goes into it later must not go with it."""
    fenced = 0
    for seed in SEEDS:
        disk, opened, source, written = grown(seed)
        disk.fail_next_sync("/lane")
        for _ in range(30):
            try:
                group = [source.records()]
                write(opened, group)
                written += group
            except Fenced:
                fenced += 1
                break
        with pytest.raises(Fenced):
            opened.prepare([source.records().batch])
        disk.kill()
        reopened = open_lane(disk)
        more = [source.records()]
        write(reopened, more)
        disk.crash(source.random)
        check_reads(open_lane(disk), NaiveLane(written + more), source.random)
    assert fenced == len(SEEDS)


class FailingSecond:
    """A file whose second sync from now on fails."""

    def __init__(self, disk: SimDisk, file: File) -> None:
        self.path = file.path
        self.read, self.write, self.size = file.read, file.write, file.size
        self.truncate, self.allocate = file.truncate, file.allocate
        self.write_durably, self.mapped = file.write_durably, file.mapped
        self.is_resident = file.is_resident
        self._disk = disk
        self._file = file
        self._syncs = 0

    def sync(self) -> None:
        self._syncs += 1
        if self._syncs == 2:
            self._disk.fail_next_sync()
        self._file.sync()


def test_a_sync_that_fails_on_closing_does_not_poison_the_next_writer() -> None:
    for seed in SEEDS:
        disk, opened, source, written = grown(seed)
        opened._writer.file = FailingSecond(disk, opened._writer.file)
        with pytest.raises(Fenced):
            opened.close()
        disk.kill()
        reopened = open_lane(disk)
        more = [source.records()]
        write(reopened, more)
        disk.crash(source.random)
        check_reads(open_lane(disk), NaiveLane(written + more), source.random)


def test_readers_go_on_after_a_fence() -> None:
    disk, opened, source, written = grown(7)
    fail_a_commit(disk, opened, [source.records()])
    model = NaiveLane(written)
    for lsn in range(len(model.rows)):
        assert read_rows(opened, lsn, lsn + 1) == [model.rows[lsn]]
