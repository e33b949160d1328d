"""Which shard a key belongs to, so that few keys move when shards come and go (rendezvous hashing).

The hash space of `wire.keys` is cut into `SLOTS` equal ranges, and each range goes to the shard with the highest
weight for it. The weight depends on the slot and the shard alone: a shard that comes takes its share from all
others, one that goes leaves its own to all others, and no other key moves. All clients with the same view agree.

```
slot            hash_key(key) >> 52
weight          mix((slot << 32 | shard + 1) * GAMMA), with `mix` and GAMMA of `wire.keys`, modulo 2**64
```
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ithaca.wire.keys import hash_key, mixed

_SLOT_BITS: Final = 12
SLOTS: Final = 1 << _SLOT_BITS
_SHIFT: Final = 64 - _SLOT_BITS
_GAMMA: Final = np.uint64(0x9E3779B97F4A7C15)


def slot_of(key: bytes) -> int:
    """The range of the hash space that the key is in."""
    return hash_key(key) >> _SHIFT


class Placement:
    """The owner of every slot among some shards; what was computed for a shard is kept for the next time."""

    def __init__(self) -> None:
        self._weights: dict[int, NDArray[np.uint64]] = {}
        self._shards: tuple[int, ...] = ()
        self._owners: list[int] = []

    def shard_of(self, key: bytes, shards: Sequence[int]) -> int:
        """The shard of the key, of these, which are at least one and sorted.

        >>> placement = Placement()
        >>> [placement.shard_of(b"user-7", shards) for shards in ([0, 1, 2], [0, 1, 2, 3], [0, 2])]
        [1, 1, 0]
        """
        if self._shards != (now := tuple(shards)):
            self._shards = now
            self._weights = {shard: self._weights.get(shard, _weights(shard)) for shard in now}
            rows = np.stack([self._weights[shard] for shard in now])
            self._owners = np.array(now, np.int64)[rows.argmax(axis=0)].tolist()
        return self._owners[slot_of(key)]


def _weights(shard: int) -> NDArray[np.uint64]:
    slots = np.arange(SLOTS, dtype=np.uint64) << np.uint64(32)
    return mixed((slots | np.uint64(shard + 1)) * _GAMMA)
