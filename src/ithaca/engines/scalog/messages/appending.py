"""Appends, and what a client asks about them; parts of prepared appends, too."""

import msgspec

from ithaca.engines.scalog.ordering.prepared.outcomes import StagedPart
from ithaca.model.parts import Token
from ithaca.model.positions import LaneId
from ithaca.protocol.fields import Counted, Natural


class Append(msgspec.Struct, frozen=True, array_like=True):
    """Append the batch in the payload to this lane, which the receiver must be the primary of.

    The batch's `producer_id` is a session whose home is this lane.
    """

    lane: LaneId


class Acks(msgspec.Struct, frozen=True, array_like=True):
    """These requests' batches are durable and ordered: (correlation, position of the first record).

    `leaving` is 0, or the version of a view in which the shard takes nothing new: clients look for another.
    """

    items: tuple[tuple[Natural, Counted], ...]
    leaving: Natural = 0


class GetNextSeq(msgspec.Struct, frozen=True, array_like=True):
    """The number that continues a session, asked of its home."""

    lane: LaneId
    producer_id: Counted
    epoch: Counted


class NextSeqIs(msgspec.Struct, frozen=True, array_like=True):
    next_seq: Counted


class GetSessionTail(msgspec.Struct, frozen=True, array_like=True):
    """What a closed lane holds of a session, asked of any replica that has the lane up to its length."""

    lane: LaneId
    producer_id: Counted


class SessionTailReply(msgspec.Struct, frozen=True, array_like=True):
    """The session's last batches there: (first number, records, position or 0); empty when it has none."""

    placed: tuple[tuple[Counted, Counted, Natural], ...]


class AppendPart(msgspec.Struct, frozen=True, array_like=True):
    """Write the batch in the payload to this part, which the receiver writes, from record `lsn` of it on.

    One that is there already is answered like the first time.
    """

    lane: LaneId
    token: Token
    lsn: Natural


class PartSynced(msgspec.Struct, frozen=True, array_like=True):
    """The part is on the disk of the replica that writes it, up to this length."""

    length: Natural


class FinishPart(msgspec.Struct, frozen=True, array_like=True):
    """Seal the part at this length, as soon as it is durable."""

    lane: LaneId
    token: Token
    length: Natural


class GetPart(msgspec.Struct, frozen=True, array_like=True):
    """Linearizable: whether the part is neither published nor gone."""

    lane: LaneId
    token: Token


class PartIs(msgspec.Struct, frozen=True, array_like=True):
    """None for one that is published or gone."""

    part: StagedPart | None
