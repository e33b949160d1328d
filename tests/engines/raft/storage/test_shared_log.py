"""Lane and Raft log in step: a crash at any operation leaves ranges with all their bytes, and nothing behind them."""

from collections import Counter
from contextlib import suppress

import pytest
from tests.engines.raft.batches import batch_of
from tests.engines.raft.storage.shared_log_life import DIRECTORY, Life, point, shrink

from ithaca.engines.raft.name import LANE
from ithaca.engines.raft.replog.entries import encode_entry, range_of
from ithaca.engines.raft.storage.shared_log import LANE_DIRECTORY, SEED, SharedLog, SharedLogFiles
from ithaca.model.errors import Corrupt
from ithaca.raft.events import Persist
from ithaca.raft.messages import Entry, EntryKind, HardState, first_state
from ithaca.sim.disk import PowerLoss, SimDisk
from ithaca.storage import truncation
from ithaca.wire.batch import DATA
from ithaca.wire.build import noops

pytestmark = pytest.mark.usefixtures("small_limits")

SEEDS, CAMPAIGN_SEEDS, CAMPAIGN_CHUNK = 150, 5000, 500


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch)


def run(first: int, seeds: int) -> Counter[str]:
    counts: Counter[str] = Counter()
    for seed in range(first, first + seeds):
        life = Life(seed)
        try:
            life.live()
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error
        counts.update(crashes=life.crashes, cuts=life.cuts, copies=life.copies, full=life.full, restored=life.restored)
    return counts


def test_a_crash_anywhere_leaves_ranges_with_their_bytes() -> None:
    counts = run(0, SEEDS)
    assert min(counts.values()) > 0, counts
    assert counts["crashes"] > 2 * SEEDS


@pytest.mark.campaign
@pytest.mark.parametrize("first", range(SEEDS, SEEDS + CAMPAIGN_SEEDS, CAMPAIGN_CHUNK))
def test_a_crash_anywhere_leaves_ranges_with_their_bytes_many_times(first: int) -> None:
    run(first, CAMPAIGN_CHUNK)


def made() -> tuple[SimDisk, SharedLog]:
    disk = SimDisk()
    disk.make_directory(DIRECTORY)
    return disk, SharedLogFiles().create(disk, DIRECTORY, first_state(1, 2, 3))


def entry(store: SharedLog, index: int, term: int, lsn: int, count: int = 1, text: bytes = b"x") -> Entry:
    batch = batch_of(1, lsn + 1, count, text=text).placed(lsn, SEED)
    store.staging.put(index, term, [batch])
    return Entry(index, term, EntryKind.PAYLOAD, encode_entry(range_of([batch])))


def opened(disk: SimDisk) -> SharedLog:
    return SharedLogFiles().open(disk, DIRECTORY)[0]


def test_bytes_behind_the_last_range_are_discarded_by_a_start() -> None:
    """Power was lost between the two syncs: the bytes are there, and the range is not."""
    disk, store = made()
    store.persist(Persist(1, HardState(1, 1), None, (entry(store, 1, 1, 0, 2),)))
    second = entry(store, 2, 1, 2, 3)
    store._write_bytes(2, 2, (second,))
    assert store.lane.length == 5
    disk.kill()
    assert opened(disk).lane.length == 2


def test_a_lane_that_is_shorter_than_its_ranges_is_damage() -> None:
    disk, store = made()
    store.persist(Persist(1, HardState(1, 1), None, (entry(store, 1, 1, 0, 2), entry(store, 2, 1, 2, 2))))
    store.close(store.end_lsn)
    truncation.truncate(disk, f"{DIRECTORY}/{LANE_DIRECTORY}", LANE, 2)
    with pytest.raises(Corrupt, match="the data log ends at LSN 2, and ranges of it up to 4 were agreed on"):
        opened(disk)


@pytest.mark.parametrize("operations", range(40))
def test_between_the_two_truncations_no_range_is_left_without_bytes(operations: int) -> None:
    """Wherever the power goes while a conflict is resolved: what is left of the old ranges has its bytes."""
    disk, store = made()
    old = tuple(entry(store, index, 1, index - 1, text=b"old") for index in (1, 2, 3))
    store.persist(Persist(1, HardState(1, 1), None, old))
    new = entry(store, 2, 2, 1, 2, text=b"new")
    disk.power_fails_after(operations)
    with suppress(PowerLoss):
        store.persist(Persist(2, HardState(2, None), None, (new,)))
    disk.kill()
    disk.power_fails_after(1 << 60)
    store, state = SharedLogFiles().open(disk, DIRECTORY)
    terms = [each.term for each in state.entries]
    assert terms in ([1, 1, 1], [1], [1, 2])
    assert store.lane.length == {(1, 1, 1): 3, (1,): 1, (1, 2): 3}[tuple(terms)]
    found = store.read(0, store.lane.length)
    assert all(b"new" in bytes(batch.body) for batch in found if batch.base_lsn >= 1 and terms == [1, 2])
    assert all(b"old" in bytes(batch.body) for batch in found if terms != [1, 2] or batch.base_lsn < 1)


def test_what_was_copied_goes_when_entries_come_instead() -> None:
    _, store = made()
    store.persist(Persist(1, HardState(1, 1), None, (entry(store, 1, 1, 0, 2),)))
    store.copy(2, [batch_of(1, 3, 4, text=b"copied").placed(2, SEED)])
    store.persist(Persist(2, HardState(2, 1)))
    assert store.lane.length == 6
    store.persist(Persist(3, None, None, (entry(store, 2, 2, 2),)))
    assert store.lane.length == 3
    store.copy(5, [batch_of(1, 6, 4, text=b"late").placed(5, SEED)])
    assert store.lane.length == 3


def test_a_compaction_point_is_written_when_its_data_is_there() -> None:
    disk, store = made()
    store.copy(0, [batch_of(1, 1, 4, text=b"copied").placed(0, SEED)])
    store.persist(Persist(1, HardState(3, None), point(9, 3, 4)))
    assert (store.last_index, store.end_lsn, store.lane.length) == (9, 4, 4)
    disk.kill()
    assert opened(disk).lane.length == 4
    with pytest.raises(AssertionError):
        store.persist(Persist(2, HardState(3, None), point(12, 3, 5)))


def test_a_trim_outlives_a_cut_below_it() -> None:
    _, store = made()
    first = entry(store, 1, 1, 0, 2)
    store.persist(Persist(1, HardState(1, 1), None, (first, entry(store, 2, 1, 2))))
    store.trim(2)
    store.persist(Persist(2, HardState(2, 1), None, (), cut_from=2))
    assert (store.lane.length, store.lane.trim_lsn) == (2, 2)


@pytest.mark.parametrize(("trim_lsn", "kept"), [(2, 2), (3, 5), (5, 5), (6, 6)])
def test_what_was_trimmed_stays_though_its_ranges_are_dropped(trim_lsn: int, kept: int) -> None:
    """A server that was started again knows of no commit, and is told to drop what it does not know to be committed."""
    disk, store = made()
    old = (entry(store, 1, 1, 0, 2), entry(store, 2, 1, 2, 3), entry(store, 3, 1, 5, 1))
    staged = {each.index: store.staging.get(each.index, 1) for each in old}
    store.persist(Persist(1, HardState(1, 1), None, old))
    store.trim(trim_lsn)
    disk.kill()
    store = opened(disk)
    store.persist(Persist(2, HardState(2, None), None, (), cut_from=1))
    assert (store.last_index, store.end_lsn, store.lane.length) == (0, 0, kept)
    disk.kill()
    store = opened(disk)
    assert (store.lane.length, store.lane.trim_lsn) == (kept, trim_lsn)
    # A leader sends them again, one by one; what was trimmed at its side comes as no-ops
    for each in old:
        batches = staged[each.index]
        assert batches is not None
        gone = [noops(batch.count, timestamp_us=0).placed(batch.base_lsn, SEED) for batch in batches]
        store.staging.put(each.index, 1, gone if batches[-1].end_lsn <= trim_lsn else batches)
        store.persist(Persist(2 + each.index, None, None, (each,)))
    assert (store.last_index, store.end_lsn, store.lane.length) == (3, 6, 6)
    assert all(batch.kind == DATA for batch in store.read(trim_lsn, 6))


@pytest.mark.parametrize("operations", [*range(0, 60, 3), 1 << 60])
def test_a_follower_that_diverged_below_the_compaction_point_ends_with_the_leaders_bytes(operations: int) -> None:
    """Its ranges go durably, the lane is copied behind what is committed, and only then the point is installed."""
    disk, store = made()
    old = tuple(entry(store, index, 1, index - 1, text=b"old") for index in (1, 2, 3))
    store.persist(Persist(1, HardState(1, 1), None, old))
    disk.power_fails_after(operations)
    with suppress(PowerLoss):
        store.persist(Persist(2, HardState(3, None), None, (), cut_from=2))
        store.copy(1, [batch_of(1, 2, 4, text=b"new").placed(1, SEED)])
        store.persist(Persist(3, HardState(3, None), point(9, 3, 5)))
    disk.kill()
    disk.power_fails_after(1 << 60)
    store, state = SharedLogFiles().open(disk, DIRECTORY)
    found = store.read(0, store.lane.length)
    texts = [b"new" if b"new" in bytes(batch.body) else b"old" for batch in found]
    if state.snapshot.index == 9:
        assert (store.last_index, store.lane.length, texts) == (9, 5, [b"old", b"new"])
    else:
        assert [each.term for each in state.entries] in ([1, 1, 1], [1])
        assert texts == [b"old"] * len(state.entries), "what was copied belongs to nobody yet"
    assert operations < 1 << 60 or state.snapshot.index == 9
