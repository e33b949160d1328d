"""The loop of the synchronous twin: one thread per process, started on first use, shared by all handles.

A call is carried out on the loop and waited for in the calling thread, where Ctrl-C ends the wait at once:
the call is cancelled, and its outcome is unknown. A forked child gets a portal of its own; handles that it
inherited refuse.
"""

import asyncio
import atexit
import concurrent.futures
import os
import threading
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

import uvloop

from ithaca.model.errors import ForkedHandle, InvalidInput, LogClosed
from ithaca.model.limits import PORTAL_END_S

Result = TypeVar("Result")


class Portal:
    """A loop in a thread of its own, and the way in. The loop is private: no policy is installed."""

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
        self.forked = False
        """Whether this is the parent's, seen from a child: its thread is not there, and nothing would be done."""
        self.ended = False
        self._end = asyncio.Event()
        self._thread = threading.Thread(target=self._live, name="ithaca-portal", daemon=True)
        self._thread.start()

    def run(self, begin: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """What the coroutine that `begin` gives on the loop returns or raises."""
        self.check_may_wait()
        future: concurrent.futures.Future[Result] = concurrent.futures.Future()
        tasks: list[asyncio.Task[Result]] = []

        def start() -> None:
            try:
                tasks.append(self.loop.create_task(begin()))
            except Exception as error:
                future.set_exception(error)
            else:
                tasks[0].add_done_callback(partial(_finish, future))

        def cancel() -> None:
            for task in tasks:
                task.cancel()

        self.loop.call_soon_threadsafe(start)
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            self.check()
            raise
        except KeyboardInterrupt:
            self.loop.call_soon_threadsafe(cancel)
            raise

    def call(self, function: Callable[[], Result]) -> Result:
        """What a plain function returns or raises when it is called on the loop."""

        async def call() -> Result:
            return function()

        return self.run(call)

    @property
    def is_current(self) -> bool:
        """Whether the caller runs on the loop, where waiting for the loop would never end."""
        return threading.get_ident() == self._thread.ident

    def check(self) -> None:
        """Raise where nothing would be done any more."""
        if self.forked:
            raise ForkedHandle("this handle was inherited through a fork: connect anew in the child")
        if self.ended:
            if threading.current_thread() is not threading.main_thread():
                threading.Event().wait()  # a daemon, since all others have ended before: it ends unheard
            raise LogClosed("the process is ending, and with it the loop that this handle needs")

    def check_may_wait(self) -> None:
        """Raise where a wait would never end."""
        self.check()
        if self.is_current:
            raise InvalidInput(
                "a callback may not wait for the log, which waits for the callback: submit, or wait in another thread"
            )

    def end(self) -> None:
        """Cancel what is under way and end the thread; a callback that never returns is left behind."""
        self.ended = True
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self._end.set)
        self._thread.join(PORTAL_END_S)

    def _live(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self.loop) as runner:
            runner.run(self._until_end())

    async def _until_end(self) -> None:
        await self._end.wait()


def _finish(future: "concurrent.futures.Future[Result]", task: "asyncio.Task[Result]") -> None:
    if task.cancelled():
        future.cancel()
    elif (error := task.exception()) is not None:
        future.set_exception(error)
    else:
        future.set_result(task.result())


_portal: Portal | None = None
_starting = threading.Lock()
_inherited: list[Portal] = []  # kept, since a loop that runs must not be collected, not even in a child


def portal() -> Portal:
    """The portal of this process."""
    global _portal
    with _starting:
        if _portal is None:
            _portal = Portal()
        return _portal


def _in_child() -> None:
    global _portal, _starting
    _starting = threading.Lock()  # another thread of the parent may have held it
    if _portal is not None:
        _portal.forked = True
        _inherited.append(_portal)
        _portal = None


def _at_exit() -> None:
    if _portal is not None:
        _portal.end()


os.register_at_fork(after_in_child=_in_child)
atexit.register(_at_exit)
