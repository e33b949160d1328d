"""What goes into `Placement.step`, and what comes out."""

from collections.abc import Mapping
from typing import NamedTuple

from ithaca.engines.belfast.speculation.reports import Ack
from ithaca.engines.belfast.speculation.windows import Share
from ithaca.model.positions import LaneId

# Events.


class Offered(NamedTuple):
    """A batch was accepted: place it, or keep it until there are slots."""

    batch: object
    """Opaque here."""
    records: int
    size: int
    """Its bytes."""


class GroupHanded(NamedTuple):
    """All that was placed goes to the disk together, now."""


class Acked(NamedTuple):
    """A replica, this one included, has synced the lane."""

    lane: LaneId
    ack: Ack


class Ordered(NamedTuple):
    """The lane is ordered up to this length, and so are the cuts that end there or before."""

    length: int


class WindowTold(NamedTuple):
    """The lane's part of a window that is ordered. Windows that do not list the lane are not told."""

    share: Share


class AskedToPass(NamedTuple):
    """The leader asks to pass every cut before this one: others are further, or somebody is in a hurry."""

    cut: int


class FreeTold(NamedTuple):
    """A free window follows all that were told."""


class FreeEnds(NamedTuple):
    """The free window ends: what is new waits for the next one."""


class Ticked(NamedTuple):
    now_us: int
    interval_us: int
    """The nominal time of a cut."""


class Speculators(NamedTuple):
    """So many streams are open here."""

    streams: int


class Members(NamedTuple):
    """Who belongs to the shard, by the disk that counts, and how many of them must have a record."""

    epoch: int
    disks: Mapping[int, int]
    copies: int


PlacingEvent = (
    Offered
    | GroupHanded
    | Acked
    | Ordered
    | WindowTold
    | AskedToPass
    | FreeTold
    | FreeEnds
    | Ticked
    | Speculators
    | Members
)


# Effects.


class Place(NamedTuple):
    """Write the batch at this LSN, behind an entry that says its position; 0: without one, in a free window.

    Both are written, sent, synced and truncated together.
    """

    batch: object
    lsn: int
    position: int


class OfferRefused(NamedTuple):
    """Too much waits for slots: `Overloaded`."""

    batch: object


class ReportDue(NamedTuple):
    """`Placement.report` says something new."""


class Watermark(NamedTuple):
    """Speculators are sent what is durable up to this length of the lane, then that every slot of the lane below this
    position is delivered or empty."""

    position: int
    durable: int


PlacingEffect = Place | OfferRefused | ReportDue | Watermark
