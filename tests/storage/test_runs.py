"""Runs against a naive list: look-ups, reopening, crashes at any operation, full disks, and every byte flipped."""

import threading
from contextlib import suppress
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.storage.conftest import Place

from ithaca.engines.scalog.storage import runs, runs_file, runs_format
from ithaca.engines.scalog.storage.runs import PendingRuns, Runs
from ithaca.engines.scalog.storage.runs_format import Run
from ithaca.model.errors import Corrupt, Fenced, FormatTooNew, NotWritten, StorageFull, Trimmed
from ithaca.sim.disk import PowerLoss, SimDisk
from ithaca.storage.disk import Disk
from ithaca.wire.batch import crc32c

PAGE = 4
FILE = "/lane/runs"
NEVER = 1 << 60


@pytest.fixture(autouse=True)
def small_page_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs_file, "RUNS_FILE_PAGES", 2)


def opened(disk: Disk, directory: str = "/lane") -> Runs:
    return Runs(disk, directory, page_entries=PAGE, pages_cached_max=2)


def new_disk() -> SimDisk:
    disk = SimDisk()
    disk.make_directory("/lane")
    disk.sync_directory("/")
    return disk


class NaiveRuns:
    """The position and time of every LSN, one by one."""

    def __init__(self) -> None:
        self.positions: list[int] = []
        self.times: list[int] = []
        self.skips: list[int] = []
        """LSNs before which nothing is known."""

    def append(self, run: Run) -> None:
        assert run.lsn == len(self.positions)
        self.positions += range(run.position, run.position + run.count)
        self.times += [run.time_us] * run.count

    def truncated(self, length: int) -> "NaiveRuns":
        model = NaiveRuns()
        model.positions, model.times = self.positions[:length], self.times[:length]
        model.skips = [lsn for lsn in self.skips if lsn <= length]
        return model

    def skip(self, count: int) -> int:
        """The LSN at which the runs go on."""
        self.positions += self.positions[-1:] * count or [1] * count
        self.times += self.times[-1:] * count or [100] * count
        self.skips.append(len(self.positions))
        return len(self.positions)

    def next(self, gap: int, count: int, later_us: int) -> Run:
        position = self.positions[-1] + 1 if self.positions else 1
        return Run(len(self.positions), position + gap, count, (self.times[-1] if self.times else 100) + later_us)


def check(found: Runs, model: NaiveRuns) -> None:
    """Every look-up agrees with the model on everything that was not trimmed."""
    first, end = found.first_lsn, len(model.positions)
    assert found.end_lsn == end
    assert first >= max(model.skips, default=0)
    lsns = np.arange(first, end)
    assert found.positions_of(lsns).tolist() == model.positions[first:]
    shuffled = np.random.default_rng(1).permutation(lsns)
    assert found.positions_of(shuffled).tolist() == [model.positions[lsn] for lsn in shuffled]
    listed = list(found.runs(0, end))
    assert [run.lsn for run in listed[:1]] == [first][: end - first]
    flat = [(run.position + at, run.time_us) for run in listed for at in range(run.count)]
    assert flat == list(zip(model.positions[first:], model.times[first:], strict=True))
    if first == end:
        return
    known = {model.positions[lsn]: lsn for lsn in range(first, end)}
    for position in range(model.positions[first], model.positions[-1] + 3):
        assert found.lsn_of(position) == known.get(position)
        at_or_behind = next((lsn for lsn in range(first, end) if model.positions[lsn] >= position), end)
        assert found.floor_position(position) == at_or_behind
    for time_us in range(model.times[first] - 1, model.times[-1] + 2):
        assert found.seek_time(time_us) == next((lsn for lsn in range(first, end) if model.times[lsn] >= time_us), end)
    for lsn in (first, (first + end) // 2, end - 1):
        assert found.position_of(lsn) == model.positions[lsn]


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


def fill(found: Runs, model: NaiveRuns, random: Random, count: int) -> None:
    for _ in range(count):
        run = model.next(random.randint(0, 2), random.randint(1, 3), random.randint(0, 2))
        found.append(run)
        model.append(run)


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


def live(seed: int) -> int:
    """A life with crashes at any operation; returns how many there were."""
    random, disk = Random(seed), new_disk()
    found, model = opened(disk), NaiveRuns()
    allowed = [NaiveRuns()]  # what a crash may leave: the last synced state, or the one being synced
    crashes = 0
    for _ in range(random.randint(2, 5)):
        disk.power_fails_after(random.choice([random.randint(0, 30), NEVER]))
        try:
            for _ in range(random.randint(1, 10)):
                fill(found, model, random, random.randint(1, 7))
                allowed = [allowed[-1], model.truncated(len(model.positions))]
                chance = random.random()
                if chance < 0.15:
                    length = random.randint(found.first_lsn, found.end_lsn)
                    cut = model.truncated(length)
                    allowed = [allowed[0], cut]
                    found.truncate(length)
                    model = cut
                    allowed = [allowed[0], model.truncated(len(model.positions))]
                if chance > 0.85:
                    found.trim(random.randint(0, found.end_lsn))
                if chance > 0.4:
                    found.sync()
                    allowed = [allowed[-1]]
                    continue
                pending = found.prepare_sync()
                fill(found, model, random, random.randint(0, 9))  # while it is being written
                if pending is not None:
                    pending.write()
                    allowed = [allowed[-1]]
                    found.adopt(pending)
        except PowerLoss:
            pass
        for attempt in range(10):
            crashes += 1
            if random.random() < 0.3:
                disk.kill()
            else:
                disk.crash(random, tear=random.choice(["sector", "byte"]))
            disk.power_fails_after(random.randint(0, 8) if attempt < 8 and random.random() < 0.4 else NEVER)
            try:
                found = opened(disk)
                break
            except PowerLoss:
                continue
        disk.power_fails_after(NEVER)
        matching = [state for state in allowed if len(state.positions) == found.end_lsn]
        assert matching, f"{found.end_lsn} LSNs, and not {[len(state.positions) for state in allowed]}"
        model = matching[-1]
        check(found, model)
        allowed = [model.truncated(len(model.positions))]
    return crashes


def test_a_crash_anywhere_leaves_what_was_synced() -> None:
    crashes = 0
    for seed in range(300):
        try:
            crashes += live(seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error
    assert crashes > 600


@pytest.mark.campaign
@pytest.mark.parametrize("first", range(300, 5300, 250))
def test_a_crash_anywhere_leaves_what_was_synced_many_times(first: int) -> None:
    for seed in range(first, first + 250):
        live(seed)


def test_a_failed_sync_fences_and_a_restart_does_not_launder_it() -> None:
    for seed in range(60):
        disk, model, random = new_disk(), NaiveRuns(), Random(seed)
        found = opened(disk)
        fill(found, model, random, 9)
        found.sync()
        synced = found.end_lsn
        fill(found, model, random, random.randint(1, 12))
        disk.fail_next_sync()
        with pytest.raises(Fenced):
            found.sync()
        with pytest.raises(Fenced):
            found.sync()
        disk.kill()
        reported = opened(disk).end_lsn
        assert reported in (synced, len(model.positions))
        disk.crash(random)
        again = opened(disk)
        assert again.end_lsn == reported
        check(again, model.truncated(reported))


def test_a_failed_sync_of_the_directory_is_not_laundered_either() -> None:
    disk, model, random = new_disk(), NaiveRuns(), Random(4)
    found = opened(disk)
    fill(found, model, random, 40)
    found.sync()
    synced = model.truncated(found.end_lsn)
    disk.fail_next_sync("/lane")
    fill(found, model, random, 40)
    with pytest.raises(Fenced):
        found.sync()
    disk.kill()
    model = synced
    found = opened(disk)
    fill(found, model, random, 3)
    found.sync()
    disk.crash(random)
    check(opened(disk), model)


def test_a_full_disk_loses_nothing_and_recovers() -> None:
    disk, model, random = new_disk(), NaiveRuns(), Random(5)
    found = opened(disk)
    fill(found, model, random, 9)
    found.sync()
    disk.capacity_bytes = sum(disk.open(f"/lane/{name}").size() for name in disk.list("/lane")) + 100
    synced = found.end_lsn
    fill(found, model, random, 20)
    for _ in range(3):
        with pytest.raises(StorageFull):
            found.sync()
        check(found, model)
    copy = SimDisk()  # a power loss now leaves what was synced before
    copy.make_directory("/lane")
    copy.sync_directory("/")
    for name in disk.list("/lane"):
        copy.open(f"/lane/{name}", create=True).write(0, [disk.open(f"/lane/{name}").read(0, 1 << 20)])
    assert opened(copy).end_lsn == synced
    disk.capacity_bytes = None
    found.sync()
    disk.crash(random)
    check(opened(disk), model)


Files = dict[str, bytes]


def small_files() -> tuple[Files, NaiveRuns]:
    """Files with full pages, two slots in use and a mark, as a process leaves them."""
    disk, model, random = new_disk(), NaiveRuns(), Random(6)
    found = opened(disk)
    for count in (9, 3, 2):
        fill(found, model, random, count)
        found.sync()
    return {name: disk.open(f"/lane/{name}").read(0, 1 << 20) for name in disk.list("/lane")}, model


def with_files(files: Files) -> SimDisk:
    disk = new_disk()
    for name, data in files.items():
        file = disk.open(f"/lane/{name}", create=True)
        file.write(0, [data])
        file.sync()
    disk.sync_directory("/lane")
    return disk


def test_every_flipped_byte_is_detected_or_harmless() -> None:
    files, model = small_files()
    assert len(files) > 2
    detected = 0
    for name, data in files.items():
        for offset in range(len(data)):
            for mask in (0xFF, 1 << offset % 8):
                damaged = bytearray(data)
                damaged[offset] ^= mask
                try:
                    check(opened(with_files(files | {name: bytes(damaged)})), model)
                except Corrupt as error:
                    detected += error.file == f"/lane/{name}"
    assert detected > 1200  # the rest is unused space, the mark and the older slot


def test_no_tear_passes_for_fewer_runs_when_the_mark_is_there() -> None:
    files, model = small_files()
    for name, data in files.items():
        refused = 0
        for size in range(len(data) - 1):
            try:
                check(opened(with_files(files | {name: data[:size]})), model)
            except Corrupt:
                refused += 1
        assert refused > len(data) // 2 if name == "runs" else refused == len(data) - 1


def test_a_missing_file_of_pages_is_refused() -> None:
    files, _ = small_files()
    for name in files:
        if name != "runs":
            with pytest.raises(Corrupt):
                opened(with_files({other: data for other, data in files.items() if other != name}))


def version_1(files: Files) -> Files:
    """The same runs as an earlier version kept them: pages behind the slots of one file."""
    data = files["runs"]
    head = data[:8] + (1).to_bytes(4, "little") + data[12:16]
    pages = b"".join(files[name] for name in sorted(files) if name != "runs")
    slots = data[24:].ljust(512 + 2 * (56 + 32 * PAGE) - 24, b"\0")
    return {"runs": head + crc32c(head).to_bytes(4, "little") + data[20:24] + slots + pages}


def test_files_of_version_1_are_read_and_become_version_2() -> None:
    files, model = small_files()
    disk = with_files(version_1(files))
    for _ in range(2):
        found = opened(disk)
        check(found, model)
        assert len(disk.list("/lane")) == len(files)
        disk.crash(Random(1))
    found = opened(disk)
    fill(found, model, Random(7), 30)
    found.sync()
    disk.crash(Random(2))
    check(opened(disk), model)


def test_a_crash_while_version_1_becomes_version_2() -> None:
    files, model = small_files()
    for operations in range(40):
        disk = with_files(version_1(files))
        disk.power_fails_after(operations)
        with suppress(PowerLoss):
            opened(disk)
        disk.crash(Random(operations))
        check(opened(disk), model)


def test_damage_to_version_1_is_refused() -> None:
    files, model = small_files()
    data = version_1(files)["runs"]
    for offset in range(512 + 2 * (56 + 32 * PAGE), len(data), 7):
        damaged = bytearray(data)
        damaged[offset] ^= 0xFF
        with pytest.raises(Corrupt):
            check(opened(with_files({"runs": bytes(damaged)})), model)


def test_a_newer_format_is_refused_by_name() -> None:
    files, _ = small_files()
    data = files["runs"]
    head = data[:8] + (runs_format.VERSION + 1).to_bytes(4, "little") + data[12:20]
    with pytest.raises(FormatTooNew) as caught:
        opened(with_files(files | {"runs": head + crc32c(head).to_bytes(4, "little") + data[24:]}))
    assert (caught.value.found, caught.value.supported) == (runs_format.VERSION + 1, runs_format.VERSION)


def test_pages_of_another_size_are_refused() -> None:
    files, _ = small_files()
    with pytest.raises(Corrupt, match="pages hold 4 runs"):
        Runs(with_files(files), "/lane")
