"""What goes into `SlotCore.step`, and what comes out, beside the events and effects of scalog's core."""

from typing import NamedTuple

from ithaca.engines.belfast.leading.lane_slots import LaneSlots
from ithaca.engines.belfast.speculation.places import PlacedRun
from ithaca.engines.belfast.speculation.reports import Ack, LaneReport
from ithaca.engines.belfast.speculation.takeover import PromiseAsked, PromiseSynced, SyncPromise
from ithaca.engines.scalog.ordering.reports import Report
from ithaca.model.positions import LaneId

# Events.


class SlotsTold(NamedTuple):
    """The leader says which slots the own lane has."""

    slots: LaneSlots


class PassAsked(NamedTuple):
    """The leader asks the own lane to pass every cut before this one."""

    lane: LaneId
    cut: int


class PeerSynced(NamedTuple):
    """A follower has synced its copy of the own lane."""

    lane: LaneId
    ack: Ack


class TurnEnded(NamedTuple):
    """All that was written in this turn goes to the disk together."""


class SpeculatorsAre(NamedTuple):
    """So many streams of speculators are open here."""

    streams: int


class CopyAsked(NamedTuple):
    """A leader that takes over a lane has its copy here completed from another replica's, up to this length."""

    lane: LaneId
    source: int
    length: int


SlotEvent = SlotsTold | PassAsked | PeerSynced | TurnEnded | SpeculatorsAre | PromiseAsked | PromiseSynced | CopyAsked

# Effects.


class SendLaneReport(NamedTuple):
    report: LaneReport
    synced: Report | None = None
    """What is to be reported beside it, of all lanes: one message for both."""


class SendAck(NamedTuple):
    """Tell the primary of the lane how much of it is synced here."""

    lane: LaneId
    ack: Ack


class Speculate(NamedTuple):
    """Send speculators what is durable up to this length, then that all slots below this position are passed."""

    lane: LaneId
    position: int
    durable: int


class SendPromise(NamedTuple):
    """Tell the leader that nothing more of the lane is acknowledged here, and how much of it is synced."""

    lane: LaneId
    ack: Ack


class SendCopied(NamedTuple):
    """Tell the leader that so much of the lane is synced here, and where that is placed which may not be ordered."""

    lane: LaneId
    ack: Ack
    placed: tuple[PlacedRun, ...]


SlotEffect = SendLaneReport | SendAck | Speculate | SyncPromise | SendPromise | SendCopied
