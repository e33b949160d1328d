"""What `belfast` agrees on beside the entries of `scalog`: each a msgpack array, its tag, then its fields.

| tag           | fields                                                                                             |
|---------------|----------------------------------------------------------------------------------------------------|
| `open-window` | number, base, rounds, groups, q, lanes, attempt, lengths                                           |
| `cut-range`   | attempt, start, stop, used: [cut, [lane, length]], time, forget                                    |
| `fail-lane`   | lane                                                                                               |
| `take-lane`   | lane, length, time                                                                                 |
| `end-free`    | number, attempt                                                                                    |
| `note-disk`   | shard, replica, disk                                                                               |

An entry that lost a race is void as a whole: none carries anything that is true without the rest of it.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from ithaca.engines.belfast.limits import CUTS_TOGETHER_MAX, QUOTA_SLOTS_MAX, WINDOW_ROUNDS_MAX
from ithaca.engines.belfast.speculation.windows import Layout
from ithaca.engines.scalog.ordering.entries import TAGS, OrderingEntry, decode_tagged
from ithaca.engines.scalog.ordering.entries import encode_entry as encode_ordering_entry
from ithaca.model.cut import lane_key
from ithaca.model.errors import InvalidInput
from ithaca.model.limits import (
    BOOT_MAX,
    LANE_RECORDS_MAX,
    ORDERING_FORGET_CUTS_MAX,
    REPLICA_NUMBER_MAX,
    SHARD_NUMBER_MAX,
)
from ithaca.model.positions import LaneId

_Natural = Annotated[int, Meta(ge=0, lt=1 << 62)]
_Counted = Annotated[int, Meta(ge=1, lt=1 << 62)]
_Quota = Annotated[int, Meta(ge=1, le=QUOTA_SLOTS_MAX)]
_Length = Annotated[int, Meta(ge=0, le=LANE_RECORDS_MAX)]

LaneLength = tuple[LaneId, _Length]
UsedCut = tuple[_Natural, tuple[LaneLength, ...]]
"""A cut, and the lanes that have records in it, in order, with their absolute lengths behind it."""


class OpenWindow(msgspec.Struct, frozen=True, array_like=True, tag="open-window"):
    """The window behind all that is ordered so far. One without rounds is free: plain `scalog`.

    Lanes that have no slots in it, stragglers and those that leave, are not listed.
    """

    number: _Counted
    base: _Natural
    """Where it begins; 0 behind a free window, for wherever the tail is then."""
    rounds: Annotated[int, Meta(ge=0, le=WINDOW_ROUNDS_MAX)]
    groups: _Counted
    q: tuple[_Quota, ...]
    """Slots of each lane in each of its cuts; one number if all have the same."""
    lanes: tuple[LaneId, ...]
    attempt: _Counted
    lengths: tuple[LaneLength, ...] = ()
    """Behind a free window: every open lane, and all that it wrote there."""

    def __post_init__(self) -> None:
        for lane in self.lanes:
            lane_key(lane)
        shards = [lane.shard for lane in self.lanes]
        if shards != sorted(set(shards)):
            raise InvalidInput(f"the lanes of window {self.number} are not in order, one for each shard")
        if bool(self.rounds) != bool(self.lanes) or len(self.q) not in {len(self.lanes), min(1, len(self.lanes))}:
            raise InvalidInput(f"window {self.number} has {self.rounds} rounds, {len(self.q)} quotas and {shards}")
        if self.groups > max(1, len(self.lanes)):
            raise InvalidInput(f"window {self.number} has {self.groups} groups for {len(self.lanes)} lanes")

    @property
    def is_free(self) -> bool:
        return not self.rounds

    @property
    def layout(self) -> Layout:
        return Layout(self.groups, self.lanes, self.q)


class CutRange(msgspec.Struct, frozen=True, array_like=True, tag="cut-range"):
    """The real cuts `[start, stop)`: done for every lane that has slots in them."""

    attempt: _Counted
    start: _Natural
    stop: _Counted
    used: Annotated[tuple[UsedCut, ...], Meta(max_length=CUTS_TOGETHER_MAX)] = ()
    """Those in which a slot is used, in order."""
    time_us: _Natural = 0
    forget: Annotated[tuple[int, ...], Meta(max_length=ORDERING_FORGET_CUTS_MAX)] = ()

    def __post_init__(self) -> None:
        cuts = [cut for cut, _ in self.used]
        if self.start >= self.stop or cuts != sorted(set(cuts)):
            raise InvalidInput(f"the cuts [{self.start}, {self.stop}) are none, or {cuts} are not in order")
        if cuts and not (self.start <= cuts[0] and cuts[-1] < self.stop):
            raise InvalidInput(f"cuts {cuts} are not all in [{self.start}, {self.stop})")
        for cut, lanes in self.used:
            keys = [lane_key(lane) for lane, _ in lanes]
            if not keys or keys != sorted(set(keys)):
                raise InvalidInput(f"the lanes of cut {cut} are not in order, each once")


class FailLane(msgspec.Struct, frozen=True, array_like=True, tag="fail-lane"):
    """The lane is closed where it is ordered, and what it promised beyond that fails: the attempt rises."""

    lane: LaneId

    def __post_init__(self) -> None:
        lane_key(self.lane)


class TakeLane(msgspec.Struct, frozen=True, array_like=True, tag="take-lane"):
    """All that may have been delivered of the lane is ordered, up to this length: it closes, and nothing fails."""

    lane: LaneId
    length: _Length
    time_us: _Natural = 0

    def __post_init__(self) -> None:
        lane_key(self.lane)


class EndFree(msgspec.Struct, frozen=True, array_like=True, tag="end-free"):
    """Lanes queue what is new from here on, so that the free window can end."""

    number: _Natural
    """Of the window that ends."""
    attempt: _Counted


class NoteDisk(msgspec.Struct, frozen=True, array_like=True, tag="note-disk"):
    """The replica is back with this disk: what it acknowledges and promises counts (`disks`)."""

    shard: Annotated[int, Meta(ge=0, le=SHARD_NUMBER_MAX)]
    replica: Annotated[int, Meta(ge=0, le=REPLICA_NUMBER_MAX)]
    disk: Annotated[int, Meta(ge=1, le=BOOT_MAX)]
    """The number of the first start of its directory."""


SlotEntry = OpenWindow | CutRange | FailLane | TakeLane | EndFree
BelfastEntry = OrderingEntry | SlotEntry | NoteDisk

SLOT_TAGS = frozenset(str(kind.__struct_config__.tag) for kind in (*SlotEntry.__args__, NoteDisk))

_encode = msgspec.msgpack.Encoder().encode
_decoder: msgspec.msgpack.Decoder[BelfastEntry] = msgspec.msgpack.Decoder(BelfastEntry)


def encode_entry(entry: BelfastEntry) -> bytes:
    """The payload of an entry, which can be decoded: one that cannot would stop every orderer for ever."""
    if not isinstance(entry, SlotEntry | NoteDisk):
        return encode_ordering_entry(entry)
    data = _encode(entry)
    decode_entry(data)
    return data


def decode_entry(data: bytes) -> BelfastEntry:
    """The entry of a Raft payload; `VersionMismatch` names an unknown tag, `ProtocolError` what is malformed."""
    return decode_tagged(data, _decoder, TAGS | SLOT_TAGS)
