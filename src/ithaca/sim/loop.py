"""The event loop of one simulated process: asyncio's interface over virtual time.

The servers and the client run on it unchanged. What other loops leave to the kernel or to threads is drawn from
the process's seeded chance: how long a job in a thread takes, and when bytes arrive.
"""

import asyncio
import inspect
from asyncio import events
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Executor
from contextlib import suppress
from contextvars import Context
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple, Unpack
from weakref import WeakSet

from ithaca.sim.scheduler import NS_PER_S, Planned

if TYPE_CHECKING:
    from ithaca.sim.process import Process

_CLOSES_MAX = 20
"""What waits again while it is closed has to be closed again."""

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class _Timer(asyncio.TimerHandle):
    """A handle that also takes its plan back."""

    __slots__ = ("planned",)

    planned: Planned

    def cancel(self) -> None:
        self.planned.cancel()
        super().cancel()


class SimLoop(asyncio.AbstractEventLoop):
    """The loop of one process, for as long as that lives."""

    def __init__(self, process: "Process") -> None:
        self._process = process
        self._scheduler = process.scheduler
        self._handlers: dict[int, Callable[[], object]] = {}
        self._main: Coroutine[Any, Any, Any] | None = None
        self._tasks: WeakSet[asyncio.Task[Any]] = WeakSet()

    # Time and callbacks

    def time(self) -> float:
        return self._process.machine.monotonic_ns() / NS_PER_S

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._scheduler.plan(0, self._process, lambda: self._run(handle))
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        handle = _Timer(when, callback, args, self, context)
        delay_ns = self._process.machine.true_delay_ns(int((when - self.time()) * NS_PER_S))
        handle.planned = self._scheduler.plan(delay_ns, self._process, lambda: self._run(handle))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        pass

    def _run(self, handle: asyncio.Handle) -> None:
        if not handle.cancelled():
            events._set_running_loop(self)
            try:
                handle._run()
            finally:
                events._set_running_loop(None)

    # Tasks, futures, threads

    def create_future(self) -> "asyncio.Future[Any]":
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: "Coroutine[Any, Any, T] | Generator[Any, None, T]",
        *,
        name: str | None = None,
        context: Context | None = None,
    ) -> "asyncio.Task[T]":
        task = asyncio.Task(coro, loop=self, name=name, context=context)
        self._tasks.add(task)
        return task

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> "asyncio.Future[T]":
        """The job is done at once when its time comes, and its result is told a little later, as by a thread."""
        future: asyncio.Future[T] = self.create_future()

        def work() -> None:
            try:
                result = func(*args)
            except Exception as error:
                self._process.plan_told(lambda told=error: _fail(future, told))  # type: ignore[misc]
            else:
                self._process.plan_told(lambda: _give(future, result))

        self._process.plan_job(work)
        return future

    async def shutdown_asyncgens(self) -> None:
        pass

    async def shutdown_default_executor(self) -> None:
        pass

    # Network

    async def create_connection(
        self, protocol_factory: Callable[[], Any], host: Any = None, port: Any = None, **_: Any
    ) -> Any:
        return await self._process.network.connect(self._process, protocol_factory, host, port)

    async def create_server(
        self, protocol_factory: Callable[[], Any], host: Any = None, port: Any = None, **_: Any
    ) -> Any:
        return self._process.network.listen(self._process, protocol_factory, host, port)

    # Signals

    def add_signal_handler(self, sig: int, callback: Callable[[Unpack[Ts]], object], *args: *Ts) -> None:
        self._handlers[sig] = lambda: callback(*args)

    def signal(self, number: int) -> None:
        """Send the process a signal, if it takes it."""
        if number in self._handlers:
            self.call_soon(self._handlers[number])

    # What asyncio asks of any loop

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return self._process.is_alive

    def is_closed(self) -> bool:
        return not self._process.is_alive

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self._process.unhandled(context)

    def spawn(self, main: Coroutine[Any, Any, Any]) -> None:
        """Run a coroutine as the process's main task."""
        self._main = main
        self.call_soon(lambda: self.create_task(main))

    def end(self) -> None:
        """The process is no more: what it had not begun never begins, and that is nobody's mistake."""
        unbegun = [self._main, *(task.get_coro() for task in self._tasks)]
        for coroutine in unbegun:
            if inspect.iscoroutine(coroutine) and inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED:
                coroutine.close()
        self._main = None

    def close_suspended(self) -> None:
        """Its world is over: close what still waits, and nobody hears what it says.

        Each task from its outermost coroutine on. The collector begins with any of those that wait for one another, and
        Python 3.11 crashes if what that one lets go of on its way ends the task around it.
        """
        for task in list(self._tasks):
            coroutine = task.get_coro()
            for _ in range(_CLOSES_MAX):
                if not inspect.iscoroutine(coroutine) or inspect.getcoroutinestate(coroutine) != inspect.CORO_SUSPENDED:
                    break
                with suppress(Exception, asyncio.CancelledError):
                    coroutine.close()


def _give(future: "asyncio.Future[T]", result: T) -> None:
    if not future.done():
        future.set_result(result)


def _fail(future: "asyncio.Future[Any]", error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
