"""The loop of the synchronous twin: one thread per process, started on first use, shared by all handles.

A call is carried out on the loop and waited for in the calling thread, where Ctrl-C ends the wait at once:
the call is cancelled, and its outcome is unknown. A forked child gets a portal of its own; handles that it
inherited refuse.
"""

import asyncio
import atexit
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

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
        call: _Call[Result] = _Call(self.loop, begin)
        self.loop.call_soon_threadsafe(call.start)
        try:
            return call.wait()
        except asyncio.CancelledError:
            self.check()
            raise
        except KeyboardInterrupt:
            self.loop.call_soon_threadsafe(call.cancel)
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
            raise ForkedHandle("this handle was inherited through a fork: connect again in the child")
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


class _Call(Generic[Result]):
    """One coroutine on the loop, and the thread that waits for it.

    The loop never takes a lock that the thread holds: Ctrl-C can come between any two steps of a `with`, and a
    lock that is left behind locked, as that of a `concurrent.futures.Future` may be, would stop the loop for good.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, begin: Callable[[], Coroutine[Any, Any, Result]]) -> None:
        self._loop = loop
        self._begin = begin
        self._task: asyncio.Task[Result] | None = None
        self._error: Exception | None = None
        self._done = threading.Lock()
        self._done.acquire()

    def wait(self) -> Result:
        """The result, in the thread; a call that was cancelled raises `CancelledError`."""
        self._done.acquire()
        if self._error is not None:
            raise self._error
        assert self._task is not None
        return self._task.result()

    # On the loop

    def start(self) -> None:
        try:
            self._task = self._loop.create_task(self._begin())
        except Exception as error:
            self._error = error
            self._done.release()
        else:
            self._task.add_done_callback(self._finish)

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _finish(self, task: "asyncio.Task[Result]") -> None:
        if not task.cancelled():
            task.exception()  # looked at: nobody may wait any more
        self._done.release()


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
