"""What waits, in a loop. `blocking.waiting` has the same names for threads; everything else here is generated."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from ithaca.model.errors import DeadlineExceeded

T = TypeVar("T")

Lock = asyncio.Lock


class Promise(Generic[T]):
    """A result to come; given or failed once, by whoever comes first."""

    __slots__ = ("_future",)

    def __init__(self) -> None:
        self._future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def give(self, value: T) -> None:
        if not self._future.done():
            self._future.set_result(value)

    def fail(self, error: BaseException) -> None:
        if not self._future.done():
            self._future.set_exception(error)
            self._future.exception()  # looked at: nobody may wait any more

    def done(self) -> bool:
        return self._future.done()

    async def came(self, timeout: float) -> bool:
        """Whether it comes within so many seconds."""
        if not self._future.done():
            await asyncio.wait([self._future], timeout=timeout)
        return self._future.done()

    async def wait(self, timeout: float | None, what: str) -> T:
        """The result; `DeadlineExceeded` says for what it was waited."""
        if timeout is not None and not await self.came(timeout):
            raise DeadlineExceeded(f"{what} took longer than {timeout:.3g} s")
        return await asyncio.shield(self._future)


class Worker:
    """A job in the background."""

    def __init__(self, name: str, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._task = asyncio.get_running_loop().create_task(run(), name=name)

    async def stop(self) -> None:
        """Once whatever it waits for was ended, so that it ends by itself; else it is cancelled."""
        self._task.cancel()
        await asyncio.wait([self._task])


class Bell:
    """Wakes one who pauses."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def ring(self) -> None:
        self._event.set()

    async def pause(self, seconds: float) -> None:
        """So long, or until the bell rings."""
        try:
            async with asyncio.timeout(seconds):
                await self._event.wait()
        except TimeoutError:
            pass


async def in_thread(function: Callable[[], T]) -> T:
    """What takes the disk's time."""
    return await asyncio.to_thread(function)
