"""What runs follow in a log with empty positions, through syncs, pages, reopening, cuts and packs."""

import random

import pytest
from tests.storage.test_packs import new_disk

from ithaca.engines.scalog.storage.lane_store import LaneStore
from ithaca.engines.scalog.storage.runs import Runs
from ithaca.engines.scalog.storage.runs_format import HEAD_BYTES, Run, parse_head
from ithaca.model.cut import LaneRun
from ithaca.model.positions import LaneId
from ithaca.wire.build import build

LANE = LaneId(0, 0, 1)


def scattered(count: int, seed: int) -> list[Run]:
    """Runs with gaps between them, in some of which others' records lie."""
    chance = random.Random(seed)
    runs: list[Run] = []
    lsn, position = 0, 1
    for number in range(count):
        end, size = position, chance.randint(1, 5)
        position = end + chance.randint(0, 20)
        follows = chance.choice((0, chance.randint(end, position)))
        runs.append(Run(lsn, position, size, number, 0 if follows == position else follows))
        lsn, position = lsn + size, position + size
    return runs


@pytest.mark.parametrize("seed", range(4))
def test_they_are_what_they_were_after_a_restart(seed: int) -> None:
    disk, runs = new_disk(), scattered(100, seed)
    disk.make_directory("/lane")
    kept = Runs(disk, "/lane", is_new=True, is_dense=False, page_entries=8)
    for run in runs:
        kept.append(run)
        if run.time_us % 7 == 0:
            kept.sync()
    assert kept.all() == runs
    kept.sync()
    again = Runs(disk, "/lane", page_entries=8)  # the file says what it is
    assert again.all() == runs
    assert parse_head(disk.open("/lane/runs").read(0, HEAD_BYTES))[0] == 3  # type: ignore[index]
    for run in runs:
        (first, *_) = again.runs_from(run.lsn, 1)
        assert first == run
        if run.count > 1:
            (rest, *_) = again.runs_from(run.lsn + 1, 1)
            assert rest == Run(run.lsn + 1, run.position + 1, run.count - 1, run.time_us)  # follows its own start
    last = runs[60]
    again.truncate(last.lsn + 1)
    assert again.all() == [*runs[:60], last._replace(count=1)]


def test_dense_logs_are_kept_as_they_were() -> None:
    disk = new_disk()
    disk.make_directory("/lane")
    kept = Runs(disk, "/lane", is_new=True)
    kept.append(Run(0, 1, 5, 1))
    kept.sync()
    assert parse_head(disk.open("/lane/runs").read(0, HEAD_BYTES))[0] == 2  # type: ignore[index]
    kept.append(Run(5, 9, 1, 2, 7))
    with pytest.raises(AssertionError, match="dense"):
        kept.sync()


@pytest.mark.parametrize("count", [1, 3])
def test_they_are_in_packs(count: int) -> None:
    disk = new_disk()
    store = LaneStore(disk, "/store", segment_bytes=2500, is_dense=False)
    held = store.create(LANE)
    held.lane.commit(held.lane.prepare([build([b"v"] * count, timestamp_us=1)]))
    runs = [Run(n, 10 * (n + 1), 1, n + 1, 10 * n + 5) for n in range(count)]
    for run in runs:
        store.note((LaneRun(LANE, run.lsn, run.position, run.count, run.follows),), run.time_us)
    held.is_written, held.is_settled = False, True
    assert store.pack() is None
    assert LANE in store.settled
    packed = store.get(LANE)
    assert packed is not None
    assert packed.runs.all() == runs
