"""What a simulated process leaves behind when its world ends."""

import asyncio
import gc
import warnings
import weakref
from collections.abc import Coroutine
from random import Random
from typing import Any

from ithaca.sim.network import SimNetwork
from ithaca.sim.process import Clocks, Process
from ithaca.sim.scheduler import Scheduler


def process() -> Process:
    scheduler = Scheduler()
    network = SimNetwork(scheduler, Random(1), lambda _: None, lambda *_: None)
    return Process("one", "10.0.0.1", scheduler, network, Clocks(Random(1)), Random(1), lambda *_: None)


async def nothing() -> None:
    pass


def test_what_was_never_begun_ends_quietly() -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        dead = process()
        dead.loop.spawn(nothing())
        task = dead.loop.create_task(nothing())
        dead.loop.end()
        del task, dead
        gc.collect()
    assert [str(each.message) for each in said if issubclass(each.category, RuntimeWarning)] == []


def test_what_was_begun_is_left_alone() -> None:
    alive = process()
    ended: asyncio.Future[None] = alive.loop.create_future()

    async def wait() -> str:
        await ended
        return "went on"

    task = alive.loop.create_task(wait())
    while alive.scheduler.next_ns() is not None:
        alive.scheduler.step()
    alive.loop.end()
    ended.set_result(None)
    while alive.scheduler.next_ns() is not None:
        alive.scheduler.step()
    assert task.result() == "went on"


class Waiting:
    """Knows the task in which it waits, which was woken, and never ran again."""

    def __init__(self, alive: Process) -> None:
        self.woken: asyncio.Future[str] = alive.loop.create_future()
        self.closed: list[str] = []
        inner = self.inner([self])
        self.task = alive.loop.create_task(self.outer(self.middle(inner)))

    def called(self, text: str) -> None:
        self.closed.append(text)

    async def inner(self, itself: "list[Waiting]") -> None:
        woken = self.woken
        del self
        try:
            itself.pop().called(await woken)  # the bound method waits on the stack, and nobody else knows the object
        finally:
            del woken

    async def middle(self, inner: Coroutine[Any, Any, None]) -> None:
        del self
        await inner

    async def outer(self, middle: Coroutine[Any, Any, None]) -> None:
        closed = self.closed
        del self
        try:
            await middle
        finally:
            closed.append("outer")


def test_what_is_suspended_is_closed_from_the_outermost_on_and_never_by_the_collector() -> None:
    over = process()
    waiting = Waiting(over)
    while over.scheduler.next_ns() is not None:
        over.scheduler.step()
    waiting.woken.set_result("called")
    over.scheduler.clear()
    closed, woken = waiting.closed, weakref.ref(waiting.woken)
    del waiting
    over.die()
    over.loop.close_suspended()
    del over
    gc.collect()  # it is this that crashed
    assert closed == ["outer"]
    assert woken() is None
