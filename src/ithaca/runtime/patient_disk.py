"""Whether a write may be waited for in the event loop.

A write and sync of a few kilobytes takes a good disk less time than waking a thread and being woken by it. So
while the disk is quick, small groups are written where they come up; a disk that was slow once is written by
its thread for a while.
"""

from ithaca.model.limits import INLINE_PAUSE_GROUPS, INLINE_SYNC_S_MAX


class Patience:
    """Remembers whether the disk was slow lately."""

    __slots__ = ("_pause_groups",)

    def __init__(self) -> None:
        self._pause_groups = 0

    @property
    def waits(self) -> bool:
        """Whether to wait for the next write."""
        return self._pause_groups == 0

    def took(self, seconds: float) -> None:
        """A write took so long, wherever it was done."""
        if seconds > INLINE_SYNC_S_MAX:
            self._pause_groups = INLINE_PAUSE_GROUPS
        elif self._pause_groups:
            self._pause_groups -= 1
