"""Ranges of records that were ordered and are gone (design §5 "Ordered, but gone").

What a shard has lost includes, as a rule, where its last records stood: positions are told by runs, which its replicas
keep and the ordering layer forgets. So a closed lane may end with records that are *unplaced*: they are lost, and all
that anybody can say of their positions is between which others they were.
"""

import msgspec

Ranges = tuple[tuple[int, int], ...]
"""Half-open, in order, apart from each other."""


class Unplaced(msgspec.Struct, frozen=True, array_like=True):
    """The end of a closed lane of which nobody knows the positions."""

    lsn: int
    """From here on."""
    end: int
    """The position behind the lane's last record."""


def merged(ranges: Ranges, start: int, stop: int) -> Ranges:
    """With one more range, which may overlap or touch others.

    >>> merged(((0, 2), (5, 7), (9, 10)), 2, 6)
    ((0, 7), (9, 10))
    """
    touching = [each for each in ranges if each[0] <= stop and start <= each[1]]
    apart = [each for each in ranges if each not in touching]
    joined = (min([start, *(each[0] for each in touching)]), max([stop, *(each[1] for each in touching)]))
    return tuple(sorted([*apart, joined]))
