"""What goes into `SlotCore.step`, and what comes out, beside the events and effects of scalog's core."""

from typing import NamedTuple

from ithaca.engines.belfast.leading.lane_slots import LaneSlots
from ithaca.engines.belfast.speculation.acks import Ack
from ithaca.engines.belfast.speculation.reports import LaneReport
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


SlotEvent = SlotsTold | PassAsked | PeerSynced | TurnEnded | SpeculatorsAre

# Effects.


class SendLaneReport(NamedTuple):
    report: LaneReport


class SendAck(NamedTuple):
    """Tell the primary of the lane how much of it is synced here."""

    lane: LaneId
    ack: Ack


class Speculate(NamedTuple):
    """Send speculators what is durable up to this length, then that all slots below this position are passed."""

    lane: LaneId
    position: int
    durable: int


class Placed(NamedTuple):
    """The batch that is written next ends at this length of the own lane, and begins at this position; 0: unknown."""

    stop: int
    position: int


SlotEffect = SendLaneReport | SendAck | Speculate | Placed
