"""Ranges that only the lane names: found again after a crash, and never what the Raft log has moved past."""

import struct
from collections.abc import Callable
from random import Random

import msgspec
import pytest
from tests.engines.raft.batches import batch_of
from tests.engines.raft.storage.shared_log_life import DIRECTORY
from tests.engines.raft.storage.test_shared_log import entry, made, opened

from ithaca.engines.raft.name import LANE
from ithaca.engines.raft.replog.entries import TrimLog, encode_entry, range_of
from ithaca.engines.raft.storage import names
from ithaca.engines.raft.storage.names import name_of
from ithaca.engines.raft.storage.shared_log import LANE_DIRECTORY, SEED, SharedLog, SharedLogFiles
from ithaca.engines.raft.storage.stored import held_batches
from ithaca.model.errors import Corrupt
from ithaca.raft.events import Persist
from ithaca.raft.messages import Entry, EntryKind, HardState, first_state
from ithaca.sim.disk import PowerLoss, SimDisk, SimFile
from ithaca.storage import lane as lanes
from ithaca.storage.raftlog import FILE_NAME, Place, RaftLog, verify
from ithaca.wire.batch import Batch

PATH = f"{DIRECTORY}/{FILE_NAME}"
LANE_PATH = f"{DIRECTORY}/{LANE_DIRECTORY}"


def raft_entries(disk: SimDisk) -> list[int]:
    """The entries that the Raft log itself has, by index."""
    return [each.index for each in verify(disk, DIRECTORY).state.entries]


def begun() -> tuple[SimDisk, SharedLog]:
    """A store with a range in the Raft log, and two behind it that are named."""
    disk, store = made()
    store.persist(Persist(1, HardState(1, 1), None, (entry(store, 1, 1, 0, 2),)))
    store.persist(Persist(2, None, None, (entry(store, 2, 1, 2, 3),)))
    store.persist(Persist(3, None, None, (entry(store, 3, 1, 5),)))
    return disk, store


def test_a_range_is_synced_once_and_found_after_a_power_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    disk, store = begun()
    synced: list[str] = []
    sync = SimFile.sync

    def noted(file: SimFile) -> None:
        synced.append(file.path)
        sync(file)

    monkeypatch.setattr(SimFile, "sync", noted)
    store.persist(Persist(4, None, None, (entry(store, 4, 1, 6),)))
    assert [path.startswith(LANE_PATH) for path in synced] == [True]
    assert raft_entries(disk) == [1]
    disk.crash(Random(1))
    assert [batch.end_lsn for _, batch in held_batches(disk, DIRECTORY)] == [2, 5, 6, 7], "offline, too"
    store, state = SharedLogFiles().open(disk, DIRECTORY)
    assert [each.index for each in state.entries] == raft_entries(disk) == [1, 2, 3, 4]
    assert (store.last_index, store.end_lsn, store.lane.length) == (4, 7, 7)


@pytest.mark.parametrize(
    "write",
    [
        lambda store: store.persist(Persist(4, HardState(2, 3))),
        lambda store: store.persist(
            Persist(4, None, None, (Entry(4, 1, EntryKind.PAYLOAD, encode_entry(TrimLog(0))),))
        ),
        lambda store: store.trim(1),
        lambda store: store.close(6),
        lambda store: store.persist(Persist(4, HardState(2, 3), None, (entry(store, 4, 2, 6),))),
    ],
    ids=["vote", "control", "trim", "close", "term and range"],
)
def test_whatever_else_is_written_takes_what_was_named_along(write: Callable[[SharedLog], None]) -> None:
    disk, store = begun()
    write(store)
    assert raft_entries(disk)[:3] == [1, 2, 3]


def test_so_many_are_named_and_then_they_are_written_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "NAMED_RANGES_MAX", 2)
    disk, store = begun()
    assert raft_entries(disk) == [1]
    store.persist(Persist(4, None, None, (entry(store, 4, 1, 6),)))
    assert raft_entries(disk) == [1, 2, 3, 4]


def test_so_many_bytes_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "NAMED_BYTES_MAX", 300)
    disk, _ = begun()
    assert raft_entries(disk) == [1, 2, 3]


@pytest.mark.parametrize(("cut_from", "kept"), [(1, []), (2, [1]), (3, [1, 2])])
def test_a_cut_of_named_ranges_is_durable_before_the_lane_is_cut(cut_from: int, kept: list[int]) -> None:
    disk, store = begun()
    store._cut_ranges(Persist(4, None, None, (), cut_from))
    disk.crash(Random(1))
    assert store.lane.length == 6, "the lane was not cut yet"
    store = opened(disk)
    assert raft_entries(disk) == kept
    assert store.lane.length == store.end_lsn == {1: 0, 2: 2, 3: 5}[cut_from]


def written(lane_entries: Callable[[Place], list[Batch]]) -> SimDisk:
    """The disk of a store that was ended, with more in its lane."""
    disk, store = begun()
    place = store._raft.place
    store.lane.commit(store.lane.prepare(lane_entries(place)))
    disk.kill()
    return disk


def named(index: int, term: int, place: Place, *, of: bytes = b"x") -> list[Batch]:
    """A name at LSN 6, and a batch behind it; the range is that of the batch with this text."""
    meant = batch_of(1, 7, 1, text=of).placed(6, SEED)
    name = name_of(Entry(index, term, EntryKind.PAYLOAD, encode_entry(range_of([meant]))), place)
    return [name, batch_of(1, 7, 1, text=b"x")]


def test_a_name_that_fits_counts() -> None:
    assert opened(written(lambda place: named(4, 1, place))).last_index == 4


@pytest.mark.parametrize("older", [Place(1, 0), Place(0, 1 << 40)])
def test_names_of_before_the_raft_log_went_on_do_not_count(older: Place) -> None:
    assert opened(written(lambda _: named(4, 1, older))).last_index == 3


def test_bytes_behind_names_belong_to_nobody() -> None:
    store = opened(written(lambda _: [batch_of(1, 7, 1, text=b"copied")]))
    assert (store.last_index, store.lane.length) == (3, 6)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda place: named(5, 1, place), "entry 5 of term 1 is named behind entry 3 of term 1"),
        (lambda place: named(3, 1, place), "entry 3 of term 1 is named behind entry 3"),
        (lambda place: named(4, 0, place), "entry 4 of term 0 is named behind entry 3 of term 1"),
        (lambda place: named(4, 2, place), "entry 4 of term 2 is named .* in term 1"),
        (lambda place: named(4, 1, place, of=b"y"), "the batches of the range at LSN 6 are not those that it names"),
        (lambda place: named(4, 1, Place(place.generation, place.offset + 8)), "the Raft log has lost what it had"),
        (lambda place: named(4, 1, Place(place.generation + 1, 64)), "the Raft log has lost what it had"),
    ],
    ids=["gap", "again", "lower term", "term that nobody has", "other bytes", "later place", "later generation"],
)
def test_a_name_that_does_not_fit_is_damage(wrong: Callable[[Place], list[Batch]], words: str) -> None:
    disk = written(wrong)
    with pytest.raises(Corrupt, match=words):
        opened(disk)


def test_a_range_that_is_not_whole_was_never_acknowledged() -> None:
    def half(place: Place) -> list[Batch]:
        batches = [batch_of(1, 7 + lsn, 1).placed(6 + lsn, SEED) for lsn in range(2)]
        return [name_of(Entry(4, 1, EntryKind.PAYLOAD, encode_entry(range_of(batches))), place), batches[0]]

    store = opened(written(half))
    assert (store.last_index, store.lane.length) == (3, 6)


def test_a_directory_of_an_earlier_version_is_opened_and_goes_on_with_names() -> None:
    disk = SimDisk()
    disk.make_directory(LANE_PATH)
    lanes.create(disk, LANE_PATH, LANE)
    RaftLog.create(disk, DIRECTORY, first_state(1, 2, 3)).persist(Persist(1, HardState(1, 1)))
    assert version_of(disk) == 1
    disk.kill()
    store = opened(disk)
    store.persist(Persist(1, None, None, (entry(store, 1, 1, 0),)))
    assert (raft_entries(disk), version_of(disk)) == ([], 2)
    disk.crash(Random(1))
    assert opened(disk).last_index == 1


def version_of(disk: SimDisk) -> int:
    version: int = struct.unpack_from("<I", disk.open(PATH).read(0, 32), 8)[0]
    return version


def test_a_torn_write_of_the_raft_log_leaves_what_was_named() -> None:
    disk, store = begun()
    place = store._raft.place
    state = verify(disk, DIRECTORY).state
    disk.power_fails_after(1)  # the group is written, and not synced
    with pytest.raises(PowerLoss):
        store.persist(Persist(4, HardState(2, 3)))
    for seed in range(20):
        image = disk.image(Random(seed))
        found = verify(image, DIRECTORY)
        assert found.place == place or found.state.hard_state == HardState(2, 3)
        assert found.state == state or [each.index for each in found.state.entries] == [1, 2, 3]
        after = SharedLogFiles().open(image, DIRECTORY)[1]
        assert [each.index for each in after.entries] == [1, 2, 3]
        assert msgspec.structs.replace(after, entries=()) in (
            msgspec.structs.replace(state, entries=()),
            msgspec.structs.replace(state, hard_state=HardState(2, 3), entries=()),
        )
