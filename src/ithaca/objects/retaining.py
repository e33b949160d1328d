"""Up to where a log may be trimmed, from what its objects say. Pure.

The log is one for all objects that stand on it, and so the one that needs most decides: an object that was opened and
says nothing keeps everything behind its opening.
"""

from collections.abc import Iterable

from ithaca.model.errors import Trimmed
from ithaca.objects.entries import CatalogueEntry, Opened, Snapshotted


def trim_point(entries: Iterable[tuple[int, CatalogueEntry]]) -> int:
    """What is below is needed by no object; 1 when nothing may go. `entries` are at their positions, in order.

    >>> trim_point([(1, Opened(1, "bank", "Bank", 1)), (9, Snapshotted(1, "bank", "a", 7, ("a",)))])
    7
    >>> trim_point([(1, Opened(1, "bank", "Bank", 1)), (9, Snapshotted(1, "bank", "a", 7, ("a", "b")))])
    1
    """
    opened: dict[str, int] = {}
    retain: dict[str, tuple[str, ...]] = {}
    reached: dict[tuple[str, str], int] = {}
    for position, entry in entries:
        opened.setdefault(entry.object, position)
        if isinstance(entry, Snapshotted):
            key = (entry.object, entry.replica)
            reached[key] = max(reached.get(key, 0), entry.position)
            retain[entry.object] = entry.retain
        elif isinstance(entry, Opened):
            retain.setdefault(entry.object, ())
    points = [_needed(name, retain[name], reached, at) for name, at in opened.items()]
    return max(1, min(points, default=1))


def beginning_trimmed(name: str, first: int) -> Trimmed:
    """What an object is told whose commands are not all there any more."""
    return Trimmed(
        f"commands of {name!r} below position {first} were trimmed: start from a snapshot of another replica, or "
        'have replicas keep them in the log (snapshots="log")',
        first=first,
    )


def _needed(name: str, retain: tuple[str, ...], reached: dict[tuple[str, str], int], opened: int) -> int:
    if not retain:
        return opened
    return min(reached.get((name, replica), 1) for replica in retain)
