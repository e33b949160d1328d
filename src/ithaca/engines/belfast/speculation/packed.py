"""The order of slots in a snapshot: what `order.SlotOrder` is made from again, and how many bytes that takes.

Lanes are columns of keys, 8 bytes each, as everywhere in snapshots of the ordering layer.
"""

from typing import Annotated, Literal

import msgspec
import numpy as np
from msgspec import Meta

from ithaca.engines.belfast.limits import QUOTA_SLOTS_MAX, WINDOW_ROUNDS_MAX, WINDOWS_AHEAD_MAX
from ithaca.engines.belfast.speculation.outcomes import LaneEnded
from ithaca.engines.belfast.speculation.windows import Layout, Window
from ithaca.model.cut import LaneLengths, lane_key, lane_of, pack, shard_numbers, unpack
from ithaca.model.errors import InvalidInput
from ithaca.model.positions import LaneId

Mode = Literal["free", "ending", "fixed"]

_Natural = Annotated[int, Meta(ge=0, lt=1 << 62)]
_Counted = Annotated[int, Meta(ge=1, lt=1 << 62)]
_Quota = Annotated[int, Meta(ge=1, le=QUOTA_SLOTS_MAX)]

HEAD_BYTES = 128
WINDOW_BYTES = 48
SPAN_BYTES = 24
LAYOUT_BYTES = 24
LAYOUT_LANE_BYTES = 8
LAYOUT_QUOTA_BYTES = 5
RESERVED_BYTES = 20
END_BYTES = 28
ENDED_BYTES = 48
"""What one of each takes at most; a test fills them with the largest that there can be."""


class PackedLayout(msgspec.Struct, frozen=True, array_like=True):
    groups: _Counted
    keys: bytes
    quotas: list[_Quota]

    def __post_init__(self) -> None:
        keys = unpack(self.keys)
        LaneLengths(keys, np.zeros_like(keys)).check()
        if not len(keys) or len(self.quotas) not in {1, len(keys)} or self.groups > len(keys):
            raise InvalidInput(f"{len(keys)} lanes have {len(self.quotas)} quotas, in {self.groups} groups")
        if len(keys) > 1 and not bool((np.diff(shard_numbers(keys)) > 0).all()):
            raise InvalidInput("a shard has slots for two lanes at once")

    @classmethod
    def of(cls, layout: Layout) -> "PackedLayout":
        keys = np.fromiter(map(lane_key, layout.lanes), np.int64, len(layout.lanes))
        return cls(layout.groups, pack(keys), list(layout.quotas))

    @property
    def slots(self) -> int:
        """Of one round."""
        return sum(self.quotas) * (1 if len(self.quotas) > 1 else len(self.keys) // 8)

    def unpacked(self) -> Layout:
        return Layout(self.groups, tuple(map(lane_of, unpack(self.keys).tolist())), tuple(self.quotas))


class PackedWindow(msgspec.Struct, frozen=True, array_like=True):
    number: _Counted
    base: _Counted
    rounds: Annotated[int, Meta(ge=1, le=WINDOW_ROUNDS_MAX)]
    layout: PackedLayout
    attempt: _Counted
    first_cut: _Natural

    @classmethod
    def of(cls, window: Window) -> "PackedWindow":
        layout = PackedLayout.of(window.layout)
        return cls(window.number, window.base, window.rounds, layout, window.attempt, window.first_cut)

    @property
    def end(self) -> int:
        return self.base + self.rounds * self.layout.slots

    def unpacked(self) -> Window:
        return Window(self.number, self.base, self.rounds, self.layout.unpacked(), self.attempt, self.first_cut)


class PackedSlots(msgspec.Struct, frozen=True, array_like=True):
    """All of it."""

    mode: Mode
    number: _Natural
    attempt: _Counted
    tail: _Counted
    end: _Counted
    cut: _Natural
    is_free_next: bool
    windows: Annotated[list[PackedWindow], Meta(max_length=WINDOWS_AHEAD_MAX)]
    reserved: list[tuple[_Counted, _Natural]]
    kept: list[tuple[_Counted, _Counted, PackedLayout]]
    ends: list[tuple[LaneId, _Counted]]
    ended: list[LaneEnded]

    def __post_init__(self) -> None:
        places = [place for window in self.windows for place in (window.base, window.end)]
        spans = [place for base, end, _ in self.kept for place in (base, end)]
        if places != sorted(places) or spans != sorted(spans) or self.reserved != sorted(self.reserved):
            raise InvalidInput("windows, or publications, are not one behind the other")
        if self.mode != "fixed" and (self.windows or self.reserved or self.is_free_next):
            raise InvalidInput(f"an order that is {self.mode} has slots")


def layout_bytes(layout: Layout) -> int:
    """A bound on what it takes."""
    return LAYOUT_BYTES + LAYOUT_LANE_BYTES * len(layout.lanes) + LAYOUT_QUOTA_BYTES * len(layout.quotas)
