"""Appends as futures of an event loop: what the asynchronous handles of all engines share."""

import asyncio
from collections.abc import Awaitable, Callable, Generator
from types import TracebackType
from typing import Any, Generic, TypeVar

from ithaca.model.arguments import function
from ithaca.model.errors import DeadlineExceeded, IthacaError
from ithaca.model.interface import awaited
from ithaca.model.records import Receipt
from ithaca.model.units import Duration, optional_seconds
from ithaca.runtime.checks import flush_too_late, too_late

LogT = TypeVar("LogT", bound=awaited.Log)


async def within(future: "asyncio.Future[Receipt]", timeout: float | None) -> Receipt:
    """The receipt, or `DeadlineExceeded`; the append goes on either way, and nobody waits for its end any more."""
    try:
        return await asyncio.wait_for(future, timeout)
    except TimeoutError as error:
        if isinstance(error, IthacaError):
            raise
        raise too_late(timeout) from None


def _looked_at(future: "asyncio.Future[Receipt]") -> None:
    """Nobody waits any more: what comes of it is no surprise to anybody."""
    if not future.cancelled():
        future.exception()


class FuturePending(awaited.Pending):
    """An append whose receipt is a future of the loop."""

    __slots__ = ("_future",)

    def __init__(self, future: "asyncio.Future[Receipt]") -> None:
        self._future = future

    async def result(self, timeout: Duration | None = None) -> Receipt:
        timeout_s = optional_seconds(timeout)
        try:
            return await within(asyncio.shield(self._future), timeout_s)
        except DeadlineExceeded:
            self._future.add_done_callback(_looked_at)
            raise

    def done(self) -> bool:
        return self._future.done()

    def add_done_callback(self, callback: Callable[[awaited.Pending], object]) -> None:
        function(callback, "callback")
        self._future.add_done_callback(lambda _: callback(self))


class FirstFailure:
    """Of what nobody waits for, the first failure since the last time that one was raised."""

    def __init__(self) -> None:
        self._error: BaseException | None = None

    def note(self, error: BaseException | None) -> None:
        """None: it went well."""
        if self._error is None:
            self._error = error

    def raise_once(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error


class Submitted:
    """What was submitted and is not done, and the first failure since the last flush."""

    def __init__(self) -> None:
        self._futures: set[asyncio.Future[Receipt]] = set()
        self._failure = FirstFailure()

    def add(self, future: "asyncio.Future[Receipt]") -> FuturePending:
        self._futures.add(future)
        future.add_done_callback(self._note)
        return FuturePending(future)

    def _note(self, future: "asyncio.Future[Receipt]") -> None:
        self._futures.discard(future)
        if not future.cancelled():
            self._failure.note(future.exception())

    async def flush(self, timeout: float | None) -> None:
        """Wait for all of them; raises the first failure."""
        if self._futures:
            _, late = await asyncio.wait(self._futures, timeout=timeout)
            if late:
                raise flush_too_late(timeout)
        self._failure.raise_once()


class Opening(Generic[LogT]):
    """A log about to be opened: `await` it, or enter it with `async with`."""

    def __init__(self, opener: Callable[[], Awaitable[LogT]]) -> None:
        self._opener = opener
        self._log: LogT | None = None

    async def _open(self) -> LogT:
        self._log = await self._opener()
        return self._log

    def __await__(self) -> Generator[Any, None, LogT]:
        return self._open().__await__()

    async def __aenter__(self) -> LogT:
        return await self._open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        assert self._log is not None
        await self._log.close()
