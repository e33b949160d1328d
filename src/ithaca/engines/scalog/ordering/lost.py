"""Ranges of records that were ordered and are gone (design §5 "Ordered, but gone")."""

Ranges = tuple[tuple[int, int], ...]
"""Half-open, in order, apart from each other."""


def merged(ranges: Ranges, start: int, stop: int) -> Ranges:
    """With one more range, which may overlap or touch others.

    >>> merged(((0, 2), (5, 7), (9, 10)), 2, 6)
    ((0, 7), (9, 10))
    """
    touching = [each for each in ranges if each[0] <= stop and start <= each[1]]
    apart = [each for each in ranges if each not in touching]
    joined = (min([start, *(each[0] for each in touching)]), max([stop, *(each[1] for each in touching)]))
    return tuple(sorted([*apart, joined]))
