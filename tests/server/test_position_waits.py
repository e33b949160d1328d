"""Waiting for positions: whoever is passed is woken, in order, and nobody else is."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ithaca.server.position_waits import PositionWaits


async def let_run() -> None:
    """Everything that can go on goes on."""
    for _ in range(5):
        await asyncio.sleep(0)


def waiting(waits: PositionWaits, positions: list[int], woken: list[int]) -> list["asyncio.Task[None]"]:
    async def wait(position: int) -> None:
        await waits.wait(position)
        woken.append(position)

    return [asyncio.ensure_future(wait(position)) for position in positions]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 20), max_size=30), st.lists(st.integers(0, 22), max_size=6), st.data())
def test_an_advance_wakes_those_that_it_passes(positions: list[int], limits: list[int], data: st.DataObject) -> None:
    async def run() -> None:
        waits, woken = PositionWaits(), list[int]()
        tasks = dict(enumerate(waiting(waits, positions, woken)))
        await let_run()
        left = dict(enumerate(positions))
        for limit in sorted(limits):
            gives_up: bool = data.draw(st.booleans())
            if left and gives_up:
                tasks[gone := data.draw(st.sampled_from(sorted(left)))].cancel()
                await let_run()
                del left[gone]
            expected = sorted(position for position in left.values() if position < limit)
            left = {number: position for number, position in left.items() if position >= limit}
            woken.clear()
            waits.passed(limit)
            await let_run()
            assert woken == expected
        waits.wake_all()
        await let_run()
        assert all(task.done() for task in tasks.values())
        assert len(waits) == 0

    asyncio.run(run())


async def test_among_those_of_one_position_whoever_came_first_is_woken_first() -> None:
    waits, order = PositionWaits(), list[int]()

    async def wait(number: int) -> None:
        await waits.wait(7)
        order.append(number)

    tasks = [asyncio.ensure_future(wait(number)) for number in range(20)]
    await let_run()
    waits.passed(7)
    await let_run()
    assert order == [], "position 7 itself is not below 7"
    waits.passed(8)
    await asyncio.gather(*tasks)
    assert order == list(range(20))


@pytest.mark.parametrize("is_cancelled", [True, False])
async def test_who_has_given_up_is_not_kept(is_cancelled: bool) -> None:
    waits = PositionWaits()
    stays = asyncio.ensure_future(waits.wait(1))
    for _ in range(200):
        if is_cancelled:
            task = asyncio.ensure_future(waits.wait(1 << 60))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        else:
            await waits.wait(1 << 60, 0)
        assert len(waits) <= 3
    waits.passed(2)
    await stays
