"""Tests that run on both event loops, and fail when one of them had to report an error itself."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest
import uvloop

TIMEOUT_S = 60.0
"""A test that waits longer waits for ever."""


def on_both_loops(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """An async test as a plain one, once for each event loop; its own parameters stay."""

    def run(new_loop: Callable[[], asyncio.AbstractEventLoop], **arguments: Any) -> None:
        reported: list[dict[str, Any]] = []

        async def main() -> None:
            asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
            async with asyncio.timeout(TIMEOUT_S):
                await test(**arguments)

        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(main())
        assert reported == []

    run.__name__, run.__doc__, run.__module__ = test.__name__, test.__doc__, test.__module__
    own = inspect.Parameter("new_loop", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    run.__signature__ = inspect.Signature([own, *inspect.signature(test).parameters.values()])  # type: ignore[attr-defined]
    loops = [asyncio.new_event_loop, uvloop.new_event_loop]
    marked: Callable[..., None] = pytest.mark.parametrize("new_loop", loops, ids=["asyncio", "uvloop"])(run)
    return marked


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that tells nobody when it happens; the test's own time-out ends the wait."""
    while True:
        if condition():
            return
        await asyncio.sleep(0.002)


async def fails(awaitable: Awaitable[Any], kind: type[Exception], match: str) -> None:
    """Await something that has to raise."""
    with pytest.raises(kind, match=match):
        await awaitable
