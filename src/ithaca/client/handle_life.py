"""Whether a handle can be used, and what its end means for those who wait."""

from ithaca.model.errors import DeadlineExceeded, ForkedHandle, LogClosed
from ithaca.runtime import forks


class HandleLife:
    """It ends when the handle is closed. In a forked child, which has no right to it, it never began."""

    def __init__(self, name: str) -> None:
        """`name` is of the log, for messages."""
        self._name = name
        self.is_closed = self._is_forked = False
        forks.watch(self)

    def forked(self) -> None:
        self._is_forked = True

    def check(self) -> None:
        """Raise unless the handle can be used."""
        if self._is_forked:
            raise ForkedHandle(f"the handle of {self._name} was inherited through a fork: connect again there")
        if self.is_closed:
            raise LogClosed(f"the handle of {self._name} was closed")

    def end(self) -> bool:
        """Close it, and say whether that is new: it was open until now, and is no child's."""
        if self.is_closed or self._is_forked:
            return False
        self.is_closed = True
        return True


def unacknowledged(timeout_s: float) -> DeadlineExceeded:
    """What those are told whose appends were under way when the handle was closed."""
    return DeadlineExceeded(
        f"the handle was closed and this was not acknowledged within {timeout_s:.3g} s: its outcome is unknown"
    )
