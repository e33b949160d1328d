"""What a simulated process leaves behind when its world ends."""

import asyncio
import gc
import warnings
from random import Random

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
