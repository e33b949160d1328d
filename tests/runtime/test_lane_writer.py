"""The disk thread of a lane: groups, order, one word per group; full, slow and failing disks; closing."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from random import Random
from typing import TypeVar

import pytest
from tests.runtime.commits import new_lane
from tests.storage.cluster_lanes import ClusterSource, check_prefix
from tests.storage.lanes import Written, open_lane, read_rows, shrink_limits

from ithaca.model.errors import Fenced, IthacaError, StorageError
from ithaca.model.records import Buffer
from ithaca.runtime import lane_writer
from ithaca.runtime.lane_writer import LaneWriter
from ithaca.sim.disk import SimDisk
from ithaca.storage.lane import Lane

T = TypeVar("T")


@pytest.fixture(autouse=True)
def _small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink_limits(monkeypatch)
    monkeypatch.setattr(lane_writer, "STORAGE_FULL_RETRY_S", 0.005)


def lane_threads() -> set[threading.Thread]:
    """Those of this process, of other tests' writers too."""
    return {thread for thread in threading.enumerate() if thread.name.startswith("ithaca-lane")}


class Told:
    """A writer, and what it has told the loop, in order."""

    def __init__(self, lane: Lane) -> None:
        self.lane = lane
        self.lengths: list[int] = []
        self.full: list[bool] = []
        self.failures: list[IthacaError] = []
        self.groups: list[tuple[float, int, int]] = []
        self.news = asyncio.Event()
        self.source = ClusterSource(Random(1))
        self.written: list[Written] = []
        self.length = lane.length
        self.loop_thread = threading.get_ident()
        self.threads_before = lane_threads()
        self.writer = LaneWriter(
            lane,
            loop=asyncio.get_running_loop(),
            on_synced=self.telling(self.lengths.append),
            on_full=self.telling(self.full.append),
            on_failed=self.telling(self.failures.append),
            on_group=lambda *group: self.groups.append(group),
        )

    def telling(self, note: Callable[[T], None]) -> Callable[[T], None]:
        def tell(what: T) -> None:
            assert threading.get_ident() == self.loop_thread
            note(what)
            self.news.set()

        return tell

    def write(self, count: int = 1) -> None:
        for _ in range(count):
            entry = self.source.batch()
            self.writer.write(entry.batch.placed(self.length, self.lane.seed))
            self.length += len(entry.rows)
            self.written.append(entry)

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(60):
            while not condition():
                self.news.clear()
                await self.news.wait()

    async def synced(self) -> None:
        await self.until(lambda: self.lengths and self.lengths[-1] == self.length)


@pytest.fixture
async def disk() -> SimDisk:
    return SimDisk()


@pytest.fixture(params=["thread", "loop"])
async def told(disk: SimDisk, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Told]:
    """A writer that leaves everything to its thread, or one that writes all it may in the loop."""
    monkeypatch.setattr(lane_writer, "INLINE_GROUP_BYTES_MAX", 0 if request.param == "thread" else 1 << 20)
    told = Told(new_lane(disk))
    yield told
    with suppress(Fenced):  # where a test made it so
        await told.writer.close()


in_thread = pytest.mark.parametrize("told", ["thread"], indirect=True)


class SlowFile:
    """Stands for a sync that takes its time."""

    def __init__(self, lane: Lane) -> None:
        self.syncing, self.go_on = threading.Event(), threading.Event()
        write = lane._writer.write

        def slow_write(offset: int, buffers: Sequence[Buffer], count: int, *, durably: bool) -> None:
            self.syncing.set()
            assert self.go_on.wait(60)
            write(offset, buffers, count, durably=durably)

        lane._writer.write = slow_write  # type: ignore[method-assign]


async def test_what_is_written_is_synced_in_order(disk: SimDisk, told: Told) -> None:
    random = Random(2)
    for _ in range(60):
        told.write(random.randint(1, 5))
        if random.random() < 0.5:
            await told.synced()
    await told.synced()
    assert told.lengths == sorted(set(told.lengths))
    assert told.writer.queued_bytes == 0
    check_prefix(told.lane, told.written)
    disk.crash(random)
    check_prefix(open_lane(disk), told.written)
    told.lane.closed = True  # the disk it was on is gone
    await told.writer.close()
    assert len(told.groups) == len(told.lengths)
    assert sum(batches for _, batches, _ in told.groups) == len(told.written)


@in_thread
async def test_what_arrives_during_a_sync_goes_into_the_next_and_is_told_once(told: Told) -> None:
    slow = SlowFile(told.lane)
    told.write()
    first = told.length
    assert await asyncio.to_thread(slow.syncing.wait, 60)
    told.write(9)
    assert told.lengths == []
    assert told.writer.queued_bytes == sum(entry.batch.total_bytes for entry in told.written)
    slow.go_on.set()
    await told.synced()
    assert told.lengths == [first, told.length]


@in_thread
async def test_groups_are_bounded(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane_writer, "GROUP_BYTES_MAX", 1000)
    slow = SlowFile(told.lane)
    told.write()
    assert await asyncio.to_thread(slow.syncing.wait, 60)
    told.write(40)
    slow.go_on.set()
    await told.synced()
    ends, sizes = 0, []
    for entry in told.written:
        ends += len(entry.rows)
        sizes.append((ends, entry.batch.total_bytes))
    before = 0
    for length in told.lengths[1:]:
        group = [size for end, size in sizes if max(before, told.lengths[0]) < end <= length]
        assert len(group) == 1 or sum(group) <= 1000
        before = length
    assert len(told.lengths) > 5


async def test_a_full_disk_keeps_the_group_until_there_is_space(disk: SimDisk, told: Told) -> None:
    told.write(3)
    await told.synced()
    disk.capacity_bytes = 0
    synced = told.length
    told.write(30)
    await told.until(lambda: told.full)
    told.write(5)
    assert told.full == [True]
    assert told.lengths[-1] < told.length
    assert read_rows(told.lane, 0, synced)
    disk.capacity_bytes = None
    await told.synced()
    assert told.full == [True, False]
    assert told.failures == []
    check_prefix(told.lane, told.written)


async def test_closing_on_a_full_disk_leaves_what_was_synced(disk: SimDisk, told: Told) -> None:
    told.write(3)
    await told.synced()
    kept = list(told.written)
    disk.capacity_bytes = 0
    told.writer.write(told.source.batch(400).batch.placed(told.length, told.lane.seed))
    await told.until(lambda: told.full)
    await told.writer.close()
    assert (told.full, told.failures) == ([True], [])
    disk.capacity_bytes = None
    check_prefix(open_lane(disk), kept)


async def test_a_failed_sync_is_told_once_and_nothing_comes_after_it(disk: SimDisk, told: Told) -> None:
    told.write(3)
    await told.synced()
    kept, lengths = list(told.written), list(told.lengths)
    disk.fail_next_sync()
    told.write(2)
    await told.until(lambda: told.failures)
    operations, queued_bytes = disk.operations, told.writer.queued_bytes
    told.write(5)
    assert told.writer.queued_bytes == queued_bytes
    await told.writer.close()
    assert [type(error) for error in told.failures] == [Fenced]
    assert told.lengths == lengths
    assert disk.operations == operations
    check_prefix(told.lane, kept)


async def test_a_bug_in_the_thread_is_told_too(told: Told, caplog: pytest.LogCaptureFixture) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("of the disk's own")

    told.lane._writer.write = fail  # type: ignore[method-assign]
    told.write()
    await told.until(lambda: told.failures)
    assert type(told.failures[0]) is StorageError
    assert "ZeroDivisionError" in str(told.failures[0])
    assert "Traceback" in caplog.text


async def test_a_batch_that_does_not_continue_the_lane_is_refused_at_once(told: Told) -> None:
    told.write()
    batch = told.source.batch().batch.placed(told.length + 1, told.lane.seed)
    with pytest.raises(AssertionError):
        told.writer.write(batch)


@in_thread
async def test_closing_writes_what_is_queued_and_closes_the_lane(disk: SimDisk, told: Told) -> None:
    slow = SlowFile(told.lane)
    told.write(4)
    assert await asyncio.to_thread(slow.syncing.wait, 60)
    told.write(20)
    closing = [asyncio.create_task(told.writer.close()) for _ in range(2)]
    await asyncio.sleep(0)
    slow.go_on.set()
    await asyncio.gather(*closing)
    assert told.lane.closed
    assert told.lengths[-1] == told.length
    assert lane_threads() <= told.threads_before
    check_prefix(open_lane(disk), told.written)


async def test_a_writer_that_never_wrote_closes_its_lane(told: Told) -> None:
    await told.writer.close()
    assert told.lane.closed
    with pytest.raises(AssertionError, match="closed"):
        told.write()


async def test_a_lane_that_cannot_be_closed_says_so(disk: SimDisk, told: Told) -> None:
    told.write(2)
    await told.synced()
    disk.fail_next_sync()
    with pytest.raises(Fenced):
        await told.writer.close()


async def test_trimming_goes_through_the_thread(told: Told) -> None:
    for _ in range(30):
        told.write(2)
        await told.synced()
    segments = len(told.lane.first_lsns)
    told.writer.trim(told.length - 5)
    told.write()
    await told.synced()
    assert told.lane.trim_lsn == told.length - 5 - len(told.written[-1].rows)
    assert len(told.lane.first_lsns) < segments
    assert told.writer.queued_bytes == 0
