"""Forks, interrupts, threads and descriptors: what a process may do to a handle, and the handle to it."""

import asyncio
import gc
import json
import os
import random
import signal
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from tests.embedded.children import started
from tests.embedded.numbered import Numbered, decode

import ithaca
import ithaca.aio
from ithaca.model.errors import LogClosed
from ithaca.runtime.group_commit import GroupCommit, Ticket

INTERRUPTS = 20


def test_a_forked_child_is_told_and_keeps_nothing_locked(tmp_path: Path) -> None:
    directory = tmp_path / "log"
    with started("fork", directory) as family:
        outcomes = json.loads(family.line())
        assert outcomes == dict.fromkeys(outcomes, "ForkedHandle")
        family.expect("no error")  # closing an inherited handle is harmless
        family.stdin.write("go on\n")
        family.stdin.flush()
        family.expect("parent closed")
        with ithaca.open(directory) as log:  # although the forked child lives
            assert [record.value for record in log.read_range(1)] == [b"before the fork", b"by the parent"]
            log.append(b"by a third")
        family.finish()
    with ithaca.open(directory) as log:
        assert log.tail() == 4


def test_interrupts_in_the_middle_of_appends_harm_nothing(tmp_path: Path) -> None:
    directory = tmp_path / "log"
    rng = random.Random(7)
    acks: list[tuple[int, int, int, int]] = []
    with started("interrupted", directory, INTERRUPTS) as child:
        child.expect("open")
        for _ in range(INTERRUPTS):
            for _ in range(rng.randint(1, 25)):
                line = child.line()
                writer, batch, position, rows = map(int, line.split())
                acks.append((writer, batch, position, rows))
            os.kill(child.process.pid, signal.SIGINT)
            while (line := child.line()) != "interrupted":
                writer, batch, position, rows = map(int, line.split())
                acks.append((writer, batch, position, rows))
        writer, batch, position, rows = map(int, child.line().split())
        acks.append((writer, batch, position, rows))
        child.expect("closed")
        child.finish()
    with ithaca.open(directory) as log:
        found = {record.position: decode(record.value) for record in log.read_range(1)}
    for writer, batch, position, rows in acks:
        for row in range(rows):
            assert found[position + row] == Numbered(writer, batch, row, rows)
    assert sorted(found.values()) == list(found.values()), "out of order"
    assert len(set(found.values())) == len(found), "a record is there twice"


def open_files(directory: Path) -> list[str]:
    """The files of a directory that this process has open."""
    links = []
    for descriptor in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):
            links.append(os.readlink(f"/proc/self/fd/{descriptor}"))
    return [link for link in links if link.startswith(str(directory))]


def test_closing_leaves_neither_threads_nor_descriptors(tmp_path: Path) -> None:
    threads = set(threading.enumerate())
    with ithaca.open(tmp_path / "log") as log, ithaca.open(tmp_path / "log", mode="r") as reader:
        for n in range(10):
            log.submit(b"%d" % n)
        log.flush()
        assert next(reader.subscribe("earliest")).position == 1
        assert len(list(log.read_range(1))) == 10
        assert open_files(tmp_path)
    assert set(threading.enumerate()) == threads
    assert open_files(tmp_path) == []


def test_an_append_that_loses_the_race_against_close_does_not_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once `close` has let go of the lock, another process may be writing: nothing of ours may follow."""
    log = ithaca.open(tmp_path / "log")
    log.append(b"in time")
    add = GroupCommit.add

    def close_first(commits: GroupCommit, ticket: Ticket) -> Ticket:
        log.close()
        return add(commits, ticket)

    monkeypatch.setattr(GroupCommit, "add", close_first)
    with pytest.raises(LogClosed):
        log.append(b"late")
    with pytest.raises(LogClosed):
        log.submit(b"late").result()
    monkeypatch.undo()
    with ithaca.open(tmp_path / "log") as log:
        assert [record.value for record in log.read_range(1)] == [b"in time"]


def test_a_handle_that_was_never_closed_loses_nothing_acknowledged(tmp_path: Path) -> None:
    log = ithaca.open(tmp_path / "log")
    log.append(b"acknowledged")
    del log
    gc.collect()  # closes the files, and with them goes the lock
    with ithaca.open(tmp_path / "log") as again:
        assert again.read(1).value == b"acknowledged"


def test_the_asynchronous_twin_works_in_one_loop_after_another(tmp_path: Path) -> None:
    async def use(expected: int) -> None:
        async with ithaca.aio.open(tmp_path / "log") as log:
            assert await log.tail() == expected
            receipts = await asyncio.gather(*(log.append(b"%d" % n) for n in range(10)))
            assert sorted(receipt.position for receipt in receipts) == list(range(expected, expected + 10))
            pending = await log.submit(b"last")
            assert (await pending).position == expected + 10
            async with log.subscribe(expected) as subscription:
                assert (await anext(subscription)).position == expected

    for turn in range(3):
        asyncio.run(use(1 + 11 * turn))


async def test_the_asynchronous_twin_opens_by_await_too(tmp_path: Path) -> None:
    log = await ithaca.aio.open(tmp_path / "log")
    try:
        assert (await log.append(b"a")).position == 1
    finally:
        await log.close()


async def test_a_waiting_task_does_not_hold_up_the_loop(tmp_path: Path) -> None:
    async with ithaca.aio.open(tmp_path / "log") as log:
        waiting = asyncio.create_task(log.read(3, wait=60))
        async with log.subscribe("earliest") as subscription:
            polling = asyncio.create_task(subscription.poll(timeout=60))
            await asyncio.sleep(0)
            for value in (b"a", b"b", b"c"):
                await log.append(value)
            assert (await waiting).value == b"c"
            assert (await polling)[0].value == b"a"


async def test_a_cancelled_wait_leaves_the_log_usable(tmp_path: Path) -> None:
    async with ithaca.aio.open(tmp_path / "log") as log, log.subscribe("latest") as subscription:
        stepping = asyncio.ensure_future(anext(subscription))
        reading = asyncio.create_task(log.read(5, wait=60))
        await asyncio.sleep(0)
        stepping.cancel()
        reading.cancel()
        for task in (stepping, reading):
            with pytest.raises(asyncio.CancelledError):
                await task
        receipt = await log.append(b"a")
        assert (await subscription.poll(timeout=60))[0].position == receipt.position


async def test_cancelled_steps_skip_no_record_and_repeat_none(tmp_path: Path) -> None:
    rng = random.Random(11)
    async with ithaca.aio.open(tmp_path / "log") as log, ithaca.aio.open(tmp_path / "log", mode="r") as reader:
        for n in range(200):
            await log.submit(b"%d" % n + bytes(100_000))
        await log.flush()
        found: list[int] = []
        async with reader.subscribe("earliest") as subscription:
            while len(found) < 200:
                step = asyncio.ensure_future(subscription.poll(timeout=60, max_records=7))
                for _ in range(rng.randint(0, 6)):
                    await asyncio.sleep(0)
                if rng.random() < 0.7:
                    step.cancel()
                with suppress(asyncio.CancelledError):
                    found += [record.position for record in await step]
                assert found == list(range(1, len(found) + 1))


async def test_a_cancelled_append_happens_or_not(tmp_path: Path) -> None:
    async with ithaca.aio.open(tmp_path / "log") as log:
        tasks = [asyncio.create_task(log.append(b"%d" % n)) for n in range(50)]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        values = [record.value async for record in log.read_range(1)]
        assert len(set(values)) == len(values)
        for n, outcome in enumerate(outcomes):
            if not isinstance(outcome, BaseException):
                assert (await log.read(outcome.position)).value == b"%d" % n
