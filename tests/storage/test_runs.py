"""Runs against a naive list: look-ups, reopening, trims, and syncs in another thread."""

import threading
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.storage.conftest import Place
from tests.storage.naive_runs import PAGE, NaiveRuns, check, fill, new_disk, opened

from ithaca.engines.scalog.storage import runs
from ithaca.engines.scalog.storage.runs import PendingRuns
from ithaca.engines.scalog.storage.runs_format import Run
from ithaca.model.errors import NotWritten, StorageFull, Trimmed
from ithaca.sim.disk import SimDisk

pytestmark = pytest.mark.usefixtures("small_page_files")

appends = st.tuples(st.just("append"), st.integers(0, 3), st.integers(1, 4), st.integers(0, 2))
others = st.tuples(
    st.sampled_from(["sync", "sync", "reopen", "trim", "truncate", "skip", "check"]),
    st.integers(0, 100),
    st.just(0),
    st.just(0),
)


@settings(max_examples=150)
@given(st.lists(st.one_of(appends, appends, appends, others), max_size=60))
def test_runs_agree_with_a_naive_list(operations: list[tuple[str, int, int, int]]) -> None:
    disk = new_disk()
    found, model, synced = opened(disk), NaiveRuns(), 0
    for kind, first, second, third in operations:
        match kind:
            case "append":
                run = model.next(first, second, third)
                found.append(run)
                model.append(run)
            case "sync":
                found.sync()
                synced = len(model.positions)
            case "reopen":  # the process ends: what was not synced was never on the disk
                disk.kill()
                found, model = opened(disk), model.truncated(synced)
            case "trim":
                trimmed = len(model.positions) * first // 100
                before = found.first_lsn
                found.trim(trimmed)
                assert before <= found.first_lsn <= max(before, trimmed)
                synced = max(synced, found._file.last.end_lsn)
            case "skip":
                found.skip_to(model.skip(1 + first))
            case "truncate":
                length = found.first_lsn + (len(model.positions) - found.first_lsn) * first // 100
                found.truncate(length)
                model = model.truncated(length)
                synced = synced if length > synced else length
                synced = max(synced, found._file.last.end_lsn)
            case _:
                check(found, model)
    check(found, model)


split_steps = st.tuples(
    st.sampled_from(
        ["prepare", "write", "write", "adopt", "full", "give up", "trim", "truncate", "skip", "crash", "check"]
    ),
    st.integers(0, 100),
    st.just(0),
    st.just(0),
)


@settings(max_examples=200)
@given(st.lists(st.one_of(appends, appends, appends, split_steps), max_size=80))
def test_runs_agree_with_a_naive_list_while_they_are_being_synced(operations: list[tuple[str, int, int, int]]) -> None:
    disk = new_disk()
    found, model, synced = opened(disk), NaiveRuns(), 0
    pending: PendingRuns | None = None
    done = False
    collected = 0  # what was there when the pending sync was prepared
    for kind, first, second, third in operations:
        match kind:
            case "append":
                run = model.next(first, second, third)
                found.append(run)
                model.append(run)
            case "prepare" if pending is None or done:
                pending, done = found.prepare_sync(), False
                collected = len(model.positions)
                synced = collected if pending is None else synced
            case "give up":
                pending = None
            case "write" if pending is not None and not done:
                pending.write()
                synced, done = collected, True
            case "full" if pending is not None and not done:
                disk.capacity_bytes, done = 0, True
                try:
                    pending.write()
                    synced = collected
                except StorageFull:
                    check(found, model)
                disk.capacity_bytes = None
            case "adopt" if pending is not None and done:
                found.adopt(pending)
            case "trim":
                found.trim(len(model.positions) * first // 100)
                synced = max(synced, found._file.last.end_lsn)
            case "skip":
                found.skip_to(model.skip(1 + first))
            case "truncate" if pending is None or done:
                length = found.first_lsn + (len(model.positions) - found.first_lsn) * first // 100
                if length < len(model.positions):
                    found.truncate(length)
                    model, synced, pending = model.truncated(length), length, None
            case "crash":
                disk.crash(Random(first))
                found, model, pending = opened(disk), model.truncated(synced), None
            case _:
                check(found, model)
    check(found, model)
    if pending is not None and not done:
        pending.write()
    found.sync()
    disk.crash(Random(0))
    check(opened(disk), model)


def test_runs_are_appended_and_looked_up_while_another_thread_writes() -> None:
    disk, model, random = new_disk(), NaiveRuns(), Random(9)
    found = opened(disk)
    for _ in range(60):
        fill(found, model, random, random.randint(1, 9))
        pending = found.prepare_sync()
        assert pending is not None
        thread = threading.Thread(target=pending.write)
        thread.start()
        fill(found, model, random, random.randint(0, 9))
        check(found, model)
        thread.join()
        assert pending.pages_now is not None
        fill(found, model, random, random.randint(0, 9))
        found.adopt(pending)
        check(found, model)
    found.sync()
    assert found.prepare_sync() is None
    check(opened(disk), model)


def test_a_sync_that_was_not_begun_is_given_up_for_the_next() -> None:
    disk, model, random = new_disk(), NaiveRuns(), Random(11)
    found = opened(disk)
    fill(found, model, random, 9)
    never = found.prepare_sync()
    assert never is not None
    found.sync()
    with pytest.raises(AssertionError, match="newer runs"):
        never.write()
    disk.crash(random)
    check(opened(disk), model)


def test_runs_go_on_behind_what_was_trimmed_while_another_thread_writes() -> None:
    """What is being written was trimmed meanwhile, so that none of it counts when it is there."""
    disk, model, random = new_disk(), NaiveRuns(), Random(12)
    found = opened(disk)
    fill(found, model, random, 3 * PAGE)
    pending = found.prepare_sync()
    assert pending is not None
    found.skip_to(model.skip(100))
    fill(found, model, random, 2)
    pending.write()
    found.adopt(pending)
    assert found.first_lsn == model.skips[-1]
    check(found, model)
    with pytest.raises(Trimmed):
        found.position_of(found.first_lsn - 1)
    found.sync()
    disk.crash(random)
    check(opened(disk), model)


def test_some_runs_from_an_lsn_on() -> None:
    disk, model, random = new_disk(), NaiveRuns(), Random(10)
    found = opened(disk)
    fill(found, model, random, 30)
    found.sync()
    fill(found, model, random, 10)
    found.trim(found.end_lsn // 4)
    for start in range(found.first_lsn, found.end_lsn):
        lsn, listed = start, list[Run]()
        while lsn < found.end_lsn:
            some = found.runs_from(lsn, 3)
            assert 1 <= len(some) <= 3
            listed += some
            lsn = some[-1].lsn + some[-1].count
        assert listed == list(found.runs(start, found.end_lsn))
    assert found.first_lsn > 0
    assert found.runs_from(0, 1)[0].lsn == found.first_lsn
    assert found.runs_from(found.end_lsn, 1) == []


def test_on_both_disks(place: Place) -> None:
    place.disk.make_directory(place.directory)
    found, model, random = opened(place.disk, place.directory), NaiveRuns(), Random(1)
    for _ in range(20):
        fill(found, model, random, random.randint(1, 9))
        found.sync()
    check(opened(place.disk, place.directory), model)
    found.trim(found.end_lsn // 4 * 3)
    assert found.first_lsn > found.end_lsn // 2
    check(found, model)
    found.sync()
    again = opened(place.disk, place.directory)
    assert again.first_lsn == found.first_lsn
    check(again, model)


def used_bytes(disk: SimDisk) -> int:
    return sum(disk.open(f"/lane/{name}").size() for name in disk.list("/lane"))


def test_trimming_gives_space_back_and_memory_is_bounded() -> None:
    disk, model, random = new_disk(), NaiveRuns(), Random(2)
    found = opened(disk)
    fill(found, model, random, 400)
    found.sync()
    files, before = len(disk.list("/lane")), used_bytes(disk)
    assert files > 20
    found.positions_of(np.arange(found.end_lsn))
    assert len(found._cache) == 2
    found.trim(found.end_lsn * 2 // 3)
    assert len(disk.list("/lane")) == files, "not before the next sync"
    operations = disk.operations
    found.sync()
    assert len(disk.list("/lane")) < files // 2
    assert used_bytes(disk) < before // 2
    assert disk.operations - operations < files, "nothing is rewritten"
    with pytest.raises(Trimmed) as caught:
        found.position_of(0)
    assert caught.value.first == model.positions[found.first_lsn]
    with pytest.raises(Trimmed):
        found.lsn_of(1)
    assert found.floor_position(1) == found.seek_time(0) == found.first_lsn
    check(found, model)


def test_an_empty_lane() -> None:
    found = opened(new_disk())
    assert (found.first_lsn, found.end_lsn, found.end_position) == (0, 0, 0)
    assert (found.lsn_of(1), found.floor_position(1), found.seek_time(1), list(found.runs(0, 9))) == (None, 0, 0, [])
    assert found.positions_of(np.empty(0, np.int64)).tolist() == []
    with pytest.raises(NotWritten):
        found.position_of(0)


def test_what_is_synced_is_not_written_again() -> None:
    runs = opened(new_disk())
    runs.append(Run(0, 1, 2, 0))
    runs.sync()
    assert runs.prepare_sync() is None
    runs.append(Run(2, 3, 1, 0))
    assert runs.prepare_sync() is not None


def test_runs_that_continue_at_the_same_time_become_one() -> None:
    found = opened(new_disk())
    for run in (Run(0, 1, 2, 5), Run(2, 3, 1, 5), Run(3, 4, 1, 6), Run(4, 9, 1, 6)):
        found.append(run)
    assert list(found.runs(0, 5)) == [Run(0, 1, 3, 5), Run(3, 4, 1, 6), Run(4, 9, 1, 6)]
    assert list(found.runs(1, 4)) == [Run(1, 2, 2, 5), Run(3, 4, 1, 6)]


def test_runs_wait_for_their_sync_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "RUNS_UNSYNCED_MAX", 10)
    found, model = opened(new_disk()), NaiveRuns()
    fill(found, model, Random(3), 3)
    for at in range(7):
        found.append(Run(found.end_lsn, 1000 + 2 * at, 1, 1000))
    with pytest.raises(AssertionError, match="too many runs"):
        found.append(Run(found.end_lsn, 2000, 1, 2000))
    found.sync()
    found.append(Run(found.end_lsn, 2000, 1, 2000))
