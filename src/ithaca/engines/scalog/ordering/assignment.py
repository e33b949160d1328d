"""Which aggregator a shard reports through: rendezvous hashing over those that are there.

An aggregator that comes takes its share from all others, one that goes leaves its own to all others, and no other
shard moves. All replicas of a shard get the same one, unless one of them suspects it.
"""

import hashlib
from collections.abc import Collection
from typing import Final

_PERSON: Final = b"158"
"""Any would do; with this one the first few shards are spread evenly over two, three and four aggregators."""


def chosen(of: int, aggregators: Collection[int]) -> int | None:
    """The number of the aggregator for a shard, or for another aggregator; None when there is none to choose from.

    >>> [chosen(shard, [1, 2]) for shard in range(6)], [chosen(shard, [1, 2, 3]) for shard in range(6)]
    ([2, 1, 2, 1, 1, 2], [3, 1, 2, 3, 1, 2])
    """
    return max(aggregators, key=lambda number: (_weight(of, number), number), default=None)


def _weight(of: int, aggregator: int) -> bytes:
    return hashlib.blake2b(b"%d %d" % (of, aggregator), digest_size=8, person=_PERSON).digest()
