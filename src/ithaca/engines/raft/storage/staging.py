"""Batches of ranges on their way to the disk, by the entries of the Raft log that name them.

The loop puts them here before the entry is believed, and the disk's thread takes them away when they are in the lane:
until then whoever sends the range to others gets its bytes from here. An entry is what its index and its term say it
is, so nothing can be taken for something else.
"""

from collections.abc import Callable

from ithaca.wire.batch import Batch

Key = tuple[int, int]
"""Index and term of an entry."""


class Staging:
    """Put and forgotten by the loop, taken by the disk's thread."""

    def __init__(self) -> None:
        self._batches: dict[Key, list[Batch]] = {}

    def __len__(self) -> int:
        return len(self._batches)

    def put(self, index: int, term: int, batches: list[Batch]) -> None:
        self._batches[index, term] = batches

    def get(self, index: int, term: int) -> list[Batch] | None:
        return self._batches.get((index, term))

    def written(self, index: int, term: int) -> None:
        """They are in the lane."""
        self._batches.pop((index, term), None)

    def keep(self, is_wanted: Callable[[int, int], bool]) -> None:
        """Forget what belongs to no entry any more."""
        for key in [key for key in list(self._batches) if not is_wanted(*key)]:
            self._batches.pop(key, None)
