"""A unit on its disk: what was committed is found after any crash, and index and sessions are made again from the
lane.
"""

from random import Random
from uuid import UUID

import pytest

from ithaca.engines.corfu.sequencing.entries import JUNK, Entry, entry_of
from ithaca.engines.corfu.sequencing.rows import first_position
from ithaca.engines.corfu.sequencing.unit import Change, EpochChange, RowChange, TrimChange
from ithaca.engines.corfu.storage import row_index
from ithaca.engines.corfu.storage.stored import held_batches, stored_runs
from ithaca.engines.corfu.storage.unit_store import UnitStore, create
from ithaca.sim.disk import PowerLoss, SimDisk
from ithaca.wire.build import build

IDENTITY = UUID(int=5)
NEVER = 1 << 60


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_index, "BLOCK_ROWS", 8)


def batch(number: int, producer: int = 1, bytes_count: int = 10) -> Entry:
    made = build([bytes([number % 251]) * bytes_count], timestamp_us=number, producer=(producer, 1, number))
    return entry_of(made, number)


def opened(disk: SimDisk) -> UnitStore:
    return UnitStore(disk, "unit", segment_bytes=4096)


def made(disk: SimDisk) -> UnitStore:
    create(disk, "unit", IDENTITY)
    return opened(disk)


def commit(store: UnitStore, *changes: Change) -> None:
    """As the server does it: commit, note, apply, and write the checkpoint that is due."""
    store.noted(changes, store.commit(changes))
    for change in changes:
        store.state.apply(change)
    due = store.due_checkpoint()
    if due is not None:
        store.checkpoint(due)
        store.checkpointed(due)


def seen(store: UnitStore) -> dict[int, Entry]:
    return {row: store.read(row) for row in range(200) if row in store.rows}


def test_rows_are_found_in_whatever_order_they_came() -> None:
    disk = SimDisk()
    store = made(disk)
    rows = list(range(60))
    Random(1).shuffle(rows)
    for row in rows:
        commit(store, RowChange(row, JUNK if row % 7 == 0 else batch(row)))
    for each in (store, opened(disk)):
        assert seen(each) == {row: JUNK if row % 7 == 0 else batch(row) for row in range(60)}
        assert each.read(33).time_us == 33
        assert each.read(33).batch is not None
        assert 61 not in each.rows
        assert each.rows.missing(0, 64, 2, 10) == ([60, 62], 64)
        assert each.rows.missing(55, 70, 1, 3) == ([60, 61, 62], 63)
        assert (each.state.highest, each.state.time_us) == (59, 59)
        assert [placed.row for placed in each.state.placed.of(1)] == [51, 52, 53, 54, 55, 57, 58, 59]


def test_epochs_and_trims_come_back() -> None:
    disk = SimDisk()
    store = made(disk)
    commit(store, EpochChange(1, False), RowChange(3, batch(3)), EpochChange(1, True), EpochChange(2, False))
    commit(store, TrimChange(7, 9), TrimChange(0, 2))
    state = opened(disk).state
    assert (state.epoch, state.is_sealed, state.trims.below, state.trims.ranges) == (2, False, 2, ((7, 9),))
    assert opened(disk).identity == IDENTITY


@pytest.mark.parametrize("gone", ["rows", "sessions"])
def test_index_and_sessions_are_made_again_from_the_lane(gone: str) -> None:
    disk = SimDisk()
    store = made(disk)
    for row in range(50):
        commit(store, RowChange(row, batch(row)))
    before, placed = seen(store), store.state.placed.items()
    disk.remove(f"unit/{gone}")
    again = opened(disk)
    assert seen(again) == before
    assert again.state.placed.items() == placed
    assert again.state.highest == 49
    assert not again.state.placed.is_forgetful
    assert again.rows.end_lsn > 0, "most of it is in the file again"


def test_every_flipped_bit_of_the_index_is_noticed() -> None:
    disk = SimDisk()
    store = made(disk)
    for row in range(20):
        commit(store, RowChange(row, batch(row)))
    before = seen(store)
    size = disk.open("unit/rows").size()
    assert size > 400
    for offset in range(0, size, 13):
        disk.flip_bit("unit/rows", offset, offset % 8)
        assert seen(opened(disk)) == before, f"byte {offset}"


def test_blocks_that_are_made_before_others_are_stored_do_not_overlap() -> None:
    disk = SimDisk()
    store = made(disk)
    waiting = []
    for row in range(24):
        changes = [RowChange(row, batch(row))]
        store.noted(changes, store.commit(changes))
        store.state.apply(changes[0])
        due = store.due_checkpoint()
        if due is not None:
            waiting.append(due)
    for due in waiting:
        store.checkpoint(due)
    for due in waiting:
        store.checkpointed(due)
    assert len(waiting) == 3
    assert seen(store) == seen(opened(disk)) == {row: batch(row) for row in range(24)}


def test_where_the_log_begins_is_kept_and_left_out_of_dumps() -> None:
    disk = SimDisk()
    store = made(disk)
    for row in range(6):
        entry = entry_of(build([b"a", b"b", b"c"], timestamp_us=row, producer=(1, 1, 1 + 3 * row)), row)
        commit(store, RowChange(row, JUNK if row == 4 else entry))
    commit(store, TrimChange(0, 2, first_position(2) + 1), TrimChange(3, 4))
    assert opened(disk).state.trims.first == first_position(2) + 1
    found = [(run.position, run.high - run.low) for run in stored_runs(disk, "unit")]
    assert found == [(first_position(2) + 1, 2), (first_position(5), 3)]
    assert len(list(held_batches(disk, "unit"))) == 5


def test_trimmed_segments_go_and_the_rest_stays() -> None:
    disk = SimDisk()
    store = made(disk)
    for row in range(60):
        commit(store, RowChange(row, batch(row, bytes_count=400)))
    segments = len(store.lane.first_lsns)
    commit(store, TrimChange(0, 40))
    store.reclaim(store.reclaimable())
    assert len(store.lane.first_lsns) < segments
    for each in (store, opened(disk)):
        assert {row: each.read(row) for row in range(40, 60)} == {
            row: batch(row, bytes_count=400) for row in range(40, 60)
        }
        assert each.state.highest == 59
        assert each.state.placed.of(1)[-1].row == 59


def test_a_unit_whose_index_is_gone_too_says_that_it_may_have_forgotten_sessions() -> None:
    disk = SimDisk()
    store = made(disk)
    for row in range(60):
        commit(store, RowChange(row, batch(row, producer=1 + row // 30, bytes_count=400)))
    commit(store, TrimChange(0, 40))
    store.reclaim(store.reclaimable())
    disk.remove("unit/rows")
    disk.remove("unit/sessions")
    again = opened(disk)
    assert again.state.placed.is_forgetful
    assert again.read(59) == batch(59, producer=2, bytes_count=400)


class Life:
    """A seeded life of a unit, cut short at any operation of the disk."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.disk = SimDisk()
        self.durable: dict[int, Entry] = {}
        self.attempted: dict[int, set[Entry]] = {}
        self.epoch = (0, True)
        self.epochs = {(0, True)}
        self.crashes = 0
        self.store = made(self.disk)

    def live(self) -> None:
        for _ in range(4):
            self.disk.power_fails_after(self.random.randint(0, 60))
            try:
                for _ in range(40):
                    self._step()
            except PowerLoss:
                self.crashes += 1
            self.disk.crash(self.random)
            self.disk.power_fails_after(NEVER)
            if self.random.random() < 0.3 and self.disk.exists("unit/rows"):
                self.disk.remove(self.random.choice(["unit/rows", "unit/rows"]))
            self.store = opened(self.disk)
            self._check()

    def _step(self) -> None:
        changes: list[Change] = []
        for _ in range(self.random.randint(1, 4)):
            row = self.random.randint(0, 100)
            taken = row in self.store.rows or any(isinstance(each, RowChange) and each.row == row for each in changes)
            if self.random.random() < 0.2:
                epoch, is_sealed = max(self.epochs)
                following = (epoch + 1, False) if is_sealed else (epoch, True)
                self.epochs.add(following)
                changes.append(EpochChange(*following))
            elif not taken:
                entry = JUNK if self.random.random() < 0.2 else batch(self.random.randint(1, 10_000))
                self.attempted.setdefault(row, set()).add(entry)
                changes.append(RowChange(row, entry))
        commit(self.store, *changes)
        for change in changes:
            if isinstance(change, RowChange):
                self.durable[change.row] = change.entry
            elif isinstance(change, EpochChange):
                self.epoch = max(self.epoch, (change.epoch, change.is_sealed))

    def _check(self) -> None:
        found = seen(self.store)
        for row, entry in self.durable.items():
            assert found.get(row) == entry, f"row {row} was {entry}, and is {found.get(row)}"
        for row, entry in found.items():
            assert entry in self.attempted[row], f"row {row} holds what nobody wrote: {entry}"
        state = self.store.state
        assert (state.epoch, state.is_sealed) >= self.epoch
        assert (state.epoch, state.is_sealed) in self.epochs
        assert state.highest == max(found, default=-1)
        self.durable, self.epoch = found, (state.epoch, state.is_sealed)
        self.epochs = {each for each in self.epochs if each <= self.epoch}


def test_a_crash_anywhere_loses_nothing_that_was_committed() -> None:
    crashes = 0
    for seed in range(25):
        life = Life(seed)
        try:
            life.live()
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error
        crashes += life.crashes
    assert crashes > 40


@pytest.mark.campaign
def test_a_crash_anywhere_loses_nothing_that_was_committed_many_times() -> None:
    for seed in range(25, 4000):
        try:
            Life(seed).live()
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error
