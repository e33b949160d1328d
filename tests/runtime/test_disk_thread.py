"""The thread for disks: jobs in their order, words to the loop, failures, closing."""

import asyncio
import gc
import os
import threading
from typing import Any

import pytest
from tests.runtime.loops import on_both_loops

from ithaca.runtime import machine
from ithaca.runtime.disk_thread import OsDiskThread


def _thread() -> machine.DiskThread:
    return machine.current().disk_thread("ithaca-test", asyncio.get_running_loop())


def _is_running() -> bool:
    return any(thread.name == "ithaca-test" for thread in threading.enumerate())


@on_both_loops
async def test_jobs_run_in_their_order_outside_the_loop() -> None:
    thread = _thread()
    ran: list[int] = []
    where: set[str] = set()

    def job(number: int) -> None:
        ran.append(number)
        where.add(threading.current_thread().name)

    assert not _is_running()
    for number in range(500):
        thread.submit(lambda number=number: job(number))  # type: ignore[misc]
        if number % 50 == 0:
            await asyncio.sleep(0.001)  # the thread falls asleep in between
    await thread.close()
    assert ran == list(range(500))
    assert where == {"ithaca-test"}
    assert not _is_running()


@on_both_loops
async def test_what_jobs_tell_comes_to_the_loop_in_order_and_before_the_close() -> None:
    thread = _thread()
    told: list[tuple[int, bool]] = []
    here = threading.get_ident()

    def note(number: int) -> None:
        told.append((number, threading.get_ident() == here))

    for number in range(100):
        thread.submit(lambda number=number: thread.tell(note, number))  # type: ignore[misc]
    await thread.close()
    assert told == [(number, True) for number in range(100)]


@on_both_loops
async def test_closing_twice_at_once_waits_for_the_jobs_and_gives_back_the_descriptor() -> None:
    before = len(os.listdir("/proc/self/fd"))
    thread = _thread()
    go_on = threading.Event()

    def job() -> None:
        assert go_on.wait(60)

    thread.submit(job)
    closing = [asyncio.create_task(thread.close()) for _ in range(2)]
    await asyncio.sleep(0.01)
    assert not any(task.done() for task in closing)
    go_on.set()
    await asyncio.gather(*closing)
    await thread.close()
    assert len(os.listdir("/proc/self/fd")) == before
    with pytest.raises(AssertionError, match="closed"):
        thread.submit(lambda: None)


@on_both_loops
async def test_a_thread_that_had_no_job_closes() -> None:
    thread = _thread()
    await thread.close()
    await thread.close()
    assert not _is_running()


async def test_a_job_that_raises_reaches_the_loops_handler_and_the_next_job_runs(
    caplog: pytest.LogCaptureFixture,
) -> None:
    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    thread, ran = _thread(), threading.Event()

    def fail() -> None:
        raise ZeroDivisionError("of the job's own")

    thread.submit(fail)
    thread.submit(ran.set)
    await thread.close()
    assert ran.is_set()
    assert [type(context["exception"]) for context in reported] == [ZeroDivisionError]
    assert "a job of thread ithaca-test failed" in caplog.text


def test_nobody_is_told_once_the_loop_is_closed() -> None:
    loop = asyncio.new_event_loop()
    thread = OsDiskThread("ithaca-test", loop)
    go_on, told = threading.Event(), threading.Event()

    def job() -> None:
        go_on.wait(60)
        thread.tell(lambda: None)
        told.set()

    thread.submit(job)
    loop.close()
    go_on.set()
    assert told.wait(60)
    gc.collect()  # nothing of it complains
