"""Whether a write may be waited for in the event loop.

A write and sync of a few kilobytes takes a good disk less time than waking a thread and being woken by it. So
while the disk is quick on average, small groups are written where they come up, and else by its thread. A single
slow write among many quick ones changes nothing: most disks have those.
"""

from ithaca.model.limits import INLINE_AVERAGED_GROUPS, INLINE_SYNC_S_MAX


class InlineWrites:
    """Remembers how quick the disk was lately."""

    __slots__ = ("_average_s",)

    def __init__(self) -> None:
        self._average_s = 0.0

    @property
    def are_quick(self) -> bool:
        """Whether to write the next group in the loop."""
        return self._average_s <= INLINE_SYNC_S_MAX

    def took(self, seconds: float) -> None:
        """A write took so long, wherever it was done."""
        self._average_s += (seconds - self._average_s) / INLINE_AVERAGED_GROUPS
