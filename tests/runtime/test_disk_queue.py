"""What waits for a disk's thread: order, one job at a time, full disks, failures, closing."""

import asyncio
import threading
from collections import deque
from random import Random

import pytest
from tests.runtime.loops import on_both_loops, until

from ithaca.model.errors import StorageFull
from ithaca.runtime.disk_queue import DiskQueue


class Disk:
    """Takes numbers, a few at a time; it can be slow, full or broken."""

    def __init__(self, group_max: int = 4) -> None:
        self.held: list[int] = []
        self.is_full = False
        self.is_broken = False
        self.gate = threading.Event()
        self.gate.set()
        self.writing = threading.Lock()
        self.tries = 0
        self.told: list[int] = []
        self.full = 0
        self.failures: list[Exception] = []
        self._group_max = group_max
        self.queue: DiskQueue[int, int] = DiskQueue(
            "ithaca-test",
            asyncio.get_running_loop(),
            write=self.write,
            written=self.told.append,
            full=self.found_full,
            failed=self.failures.append,
            retry_s=0.002,
        )

    def write(self, items: deque[int]) -> int:
        with self.writing:
            assert self.gate.wait(60)
            self.tries += 1
            if self.is_full:
                raise StorageFull("no space")
            if self.is_broken:
                raise ZeroDivisionError("of the disk's own")
            for _ in range(min(self._group_max, len(items))):
                self.held.append(items.popleft())
            return len(self.held)

    def found_full(self, error: StorageFull) -> None:
        self.full += 1

    def put(self, number: int) -> None:
        self.queue.items.append(number)
        self.queue.hand_over()


@on_both_loops
async def test_everything_is_written_in_order_and_told_once_for_each_write() -> None:
    disk, random = Disk(), Random(1)
    for number in range(3000):
        disk.put(number)
        if random.random() < 0.2:
            await asyncio.sleep(0)
        if random.random() < 0.01:
            await until(lambda number=number: disk.told[-1:] == [number + 1])  # type: ignore[misc]
            await until(lambda: disk.queue.is_idle)
    await disk.queue.close()
    assert disk.held == list(range(3000))
    assert disk.told == sorted(set(disk.told))
    assert disk.told[-1] == 3000
    assert len(disk.told) == disk.tries


@on_both_loops
async def test_the_loop_may_write_only_when_it_has_heard_of_every_job() -> None:
    disk = Disk()
    assert disk.queue.is_idle
    disk.gate.clear()
    disk.put(1)
    assert not disk.queue.is_idle
    disk.gate.set()
    while len(disk.held) < 1:
        pass  # the loop hears nothing meanwhile
    disk.writing.acquire()  # the job is behind its write
    disk.writing.release()
    assert not disk.queue.is_idle
    assert disk.told == []
    await until(lambda: bool(disk.told))
    assert disk.queue.is_idle
    await disk.queue.close()


@on_both_loops
async def test_a_full_disk_is_tried_again_and_holds_up_no_job() -> None:
    disk = Disk()
    disk.is_full = True
    for number in range(6):
        disk.put(number)
    await until(lambda: disk.full > 2)
    assert disk.held == []
    assert not disk.queue.is_idle
    disk.is_full = False
    await until(lambda: disk.told[-1:] == [6])
    assert disk.held == list(range(6))
    await disk.queue.close()


@on_both_loops
async def test_closing_gives_up_waiting_for_space_and_still_does_what_is_last() -> None:
    disk, last = Disk(), threading.Event()
    disk.is_full = True
    disk.put(1)
    await until(lambda: disk.full > 0)
    tries = disk.tries
    disk.is_full = False
    await disk.queue.close(last.set)
    assert last.is_set()
    assert disk.tries <= tries + 1  # one that had begun
    tries = disk.tries
    await asyncio.sleep(0.01)
    assert disk.tries == tries


@on_both_loops
async def test_closing_writes_what_is_queued_before_what_is_last() -> None:
    disk = Disk(group_max=1)
    seen: list[int] = []
    disk.gate.clear()
    for number in range(20):
        disk.put(number)
    closing = asyncio.create_task(disk.queue.close(lambda: seen.append(len(disk.held))))
    await asyncio.sleep(0)
    disk.gate.set()
    await closing
    await disk.queue.close()
    assert seen == [20]
    assert disk.told == list(range(1, 21))


@pytest.mark.parametrize("closes_at_once", [True, False])
async def test_nothing_is_written_behind_a_failure(closes_at_once: bool) -> None:
    disk, last = Disk(), threading.Event()
    disk.put(1)
    await until(lambda: bool(disk.told))
    disk.is_broken = True
    disk.put(2)
    disk.put(3)
    if not closes_at_once:
        await until(lambda: bool(disk.failures))
        disk.put(4)
    await disk.queue.close(last.set)
    assert [type(error) for error in disk.failures] == [ZeroDivisionError]
    assert disk.held == [1]
    assert disk.tries == 2
    assert last.is_set()


@on_both_loops
async def test_a_job_that_finds_nothing_writes_nothing_and_leaves_the_queue_idle() -> None:
    """So it happens when the job before takes the last item just after the loop has looked at the queue."""
    disk = Disk()
    disk.queue.hand_over()
    await until(lambda: disk.queue.is_idle)
    assert disk.tries == 0
    disk.put(1)
    await until(lambda: disk.told == [1])
    await disk.queue.close()
    assert disk.held == [1]
    assert disk.failures == []
