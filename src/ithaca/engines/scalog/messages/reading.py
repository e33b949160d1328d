"""Reads and subscriptions, by position and by time."""

from typing import Annotated

import msgspec
from msgspec import Meta

from ithaca.model.limits import READ_WAIT_MS_MAX
from ithaca.model.positions import LaneId
from ithaca.protocol.fields import Counted, Natural
from ithaca.protocol.filters import Filter


class Read(msgspec.Struct, frozen=True, array_like=True):
    """One record. The replica waits up to `wait_ms` for its order to reach the position."""

    position: Counted
    wait_ms: Annotated[int, Meta(ge=0, le=READ_WAIT_MS_MAX)] = 0


class Found(msgspec.Struct, frozen=True, array_like=True):
    """The batch in the payload is of this lane, and its first record is at `position`."""

    lane: LaneId
    position: Counted


class Elsewhere(msgspec.Struct, frozen=True, array_like=True):
    """The position is ordered, and not in this shard; or if it `may_be_lost`, nobody knows: records of the shard are
    gone, and so is where they stood."""

    may_be_lost: bool = False


class Behind(msgspec.Struct, frozen=True, array_like=True):
    """This replica's order ends at `tail`, before the position."""

    tail: Counted


class Subscribe(msgspec.Struct, frozen=True, array_like=True):
    """This shard's records of `[start, stop)`, for ever without a stop."""

    start: Counted
    stop: Counted | None = None
    where: Filter | None = None


class Delivered(msgspec.Struct, frozen=True, array_like=True):
    """One batch of the payload.

    Without `rows` it is the batch as stored: its first record is at `position`, and the records `[low, high)`
    are meant. With `rows` it was made of the matching records alone: these are their positions less
    `position`, as packed little-endian u32.

    Without a filter `follows` is where the record before these, in the whole order, ends; 0 stands for their own start.
    """

    lane: LaneId
    position: Counted
    low: Natural
    high: Natural
    rows: bytes | None = None
    follows: Natural = 0


class Deliver(msgspec.Struct, frozen=True, array_like=True):
    """The batches in the payload, one after the other; then this shard has nothing more below `up_to`.

    `view` is the version of the view that holds at `up_to`: records below it may be in any shard of that view.
    Between the positions that are `strewn` this shard has lost records, and nobody knows where they stood.
    """

    items: tuple[Delivered, ...]
    up_to: Counted
    view: Natural
    strewn: tuple[tuple[Counted, Counted], ...] = ()


class SeekTime(msgspec.Struct, frozen=True, array_like=True):
    """The first position of this shard that was ordered at this time or later, below `tail`."""

    time_us: int
    tail: Counted


class SeekBytes(msgspec.Struct, frozen=True, array_like=True):
    """The position before which records must go so that this shard takes at most so many bytes on this replica."""

    bytes_max: Natural


class KeptFrom(msgspec.Struct, frozen=True, array_like=True):
    """The first position that is left when nothing has to go."""

    position: Counted


class TimeIs(msgspec.Struct, frozen=True, array_like=True):
    """None when there is none below the tail that was asked about."""

    position: Counted | None
