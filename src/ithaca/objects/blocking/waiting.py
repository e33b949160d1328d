"""What waits, in a thread: the twin of `awaited.waiting`, and the only module here that is not generated."""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar, cast

from ithaca.model.errors import DeadlineExceeded
from ithaca.model.limits import CLOSE_TIMEOUT_S

T = TypeVar("T")

Lock = threading.Lock


class Promise(Generic[T]):
    """A result to come; given or failed once, by whoever comes first."""

    __slots__ = ("_came", "_error", "_given", "_value")

    def __init__(self) -> None:
        self._came = threading.Lock()
        self._came.acquire()
        self._given = False
        self._value: T | None = None
        self._error: BaseException | None = None

    def give(self, value: T) -> None:
        if not self._given:
            self._given = True
            self._value = value
            self._came.release()

    def fail(self, error: BaseException) -> None:
        if not self._given:
            self._given = True
            self._error = error
            self._came.release()

    def done(self) -> bool:
        return self._given

    def came(self, timeout: float) -> bool:
        """Whether it comes within so many seconds."""
        if self._came.locked() and self._came.acquire(timeout=max(0.0, timeout)):
            self._came.release()
        return self._given

    def wait(self, timeout: float | None, what: str) -> T:
        """The result; `DeadlineExceeded` says for what it was waited."""
        if self._came.locked():
            if not self._came.acquire(timeout=-1 if timeout is None else max(0.0, timeout)):
                raise DeadlineExceeded(f"{what} took longer than {timeout:.3g} s")
            self._came.release()
        if self._error is not None:
            raise self._error
        return cast(T, self._value)


class Worker:
    """A job in the background."""

    def __init__(self, name: str, run: Callable[[], None]) -> None:
        self._thread = threading.Thread(target=run, name=name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Once whatever it waits for was ended, so that it ends by itself."""
        if self._thread is not threading.current_thread():
            self._thread.join(CLOSE_TIMEOUT_S)


class Bell:
    """Wakes one who pauses."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def ring(self) -> None:
        self._event.set()

    def pause(self, seconds: float) -> None:
        """So long, or until the bell rings."""
        self._event.wait(seconds)


def in_thread(function: Callable[[], T]) -> T:
    """What takes the disk's time: this thread may."""
    return function()
