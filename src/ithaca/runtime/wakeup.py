"""A wake-up between threads that Ctrl-C cannot break.

`threading.Event` is written in Python: an interrupt inside `set` or `wait` can leave its inner lock locked, and
then whoever sets it next waits for ever, with all the locks that it holds. One lock, which is taken and released
in single steps, has no inside to be interrupted in.
"""

import threading
from contextlib import suppress


class Wakeup:
    """Given by anyone, any number of times; taken by the one who waits, all at once.

    >>> wakeup = Wakeup()
    >>> wakeup.give()
    >>> wakeup.give()
    >>> wakeup.wait(0), wakeup.wait(0)
    (True, False)
    """

    __slots__ = ("_none",)

    def __init__(self) -> None:
        self._none = threading.Lock()
        """Locked while there is none to take."""
        self._none.acquire()

    def give(self) -> None:
        if self._none.locked():
            with suppress(RuntimeError):  # another thread has just given one
                self._none.release()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for one and take it; False when the time is up."""
        return self._none.acquire(timeout=-1 if timeout_s is None else timeout_s)

    def clear(self) -> None:
        """Take one if there is one."""
        self._none.acquire(blocking=False)
