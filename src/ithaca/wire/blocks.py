"""Memory that bytes are received into, used again once nobody has a view of it any more.

New memory costs a fault for each of its pages, and those of large frames would be new for each frame: what many
connections of a thread have let go of is kept for whichever receives next, up to a bound.
"""

import sys
import threading
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ithaca.model.limits import SPARE_BLOCK_BYTES_MAX

Block = NDArray[np.uint8]
_GRAIN_BYTES: Final = 64 * 1024
"""Sizes are multiples of this, so that frames of nearly the same length use the same blocks."""


class _Spare(threading.local):
    """Blocks that were let go of, the oldest first; payloads in them may still be in use."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.bytes = 0


_spare = _Spare()
_lone = [np.empty(1, np.uint8)]
_UNUSED: Final = sys.getrefcount(_lone[0])
"""What is counted of an array that only a list knows: views hold it as well, each memoryview and each slice of one."""


def take_block(size: int) -> Block:
    """At least so many bytes, of any content."""
    size = -(-size // _GRAIN_BYTES) * _GRAIN_BYTES
    blocks = _spare.blocks
    for at in range(len(blocks)):
        if size <= len(blocks[at]) <= 2 * size and sys.getrefcount(blocks[at]) == _UNUSED:
            _spare.bytes -= len(blocks[at])
            return blocks.pop(at)
    return np.empty(size, np.uint8)


def give_block(block: Block) -> None:
    """Nothing more is received into it; it is used again when nothing is left of what was."""
    _spare.blocks.append(block)
    _spare.bytes += len(block)
    while _spare.bytes > SPARE_BLOCK_BYTES_MAX:
        _spare.bytes -= len(_spare.blocks.pop(0))
