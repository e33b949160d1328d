"""What became of prepared parts: told to the replicas of their shard, and to whoever proposed it."""

from typing import Annotated

import msgspec
from msgspec import Meta

from ithaca.model.consumers import ConsumerRefused
from ithaca.model.limits import LANE_RECORDS_MAX
from ithaca.model.parts import Published, Token
from ithaca.model.positions import LaneId


class StagedPart(msgspec.Struct, frozen=True, array_like=True):
    """A part that is neither published nor gone."""

    lane: LaneId
    token: Token
    home: LaneId
    """The lane of the start of the replica that writes it: with that lane it ends, unless it was sealed before."""
    until_us: Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
    """The order's time from which on it expires."""
    length: Annotated[int, Meta(ge=0, le=LANE_RECORDS_MAX)] | None = None
    """Its records, once it is sealed."""


class PartOpened(msgspec.Struct, frozen=True, array_like=True, tag="part-opened"):
    part: StagedPart


class _OfPart(msgspec.Struct, frozen=True, array_like=True):
    lane: LaneId


class PartSealed(_OfPart, frozen=True, array_like=True, tag="part-sealed"):
    """The part is durable, with this length: every holder cuts its copy to it, or fetches the rest from a peer."""

    length: int


class PartDropped(_OfPart, frozen=True, array_like=True, tag="part-dropped"):
    """The part is never published: nobody need keep it."""


class PartsPublished(msgspec.Struct, frozen=True, array_like=True, tag="parts-published"):
    """What this key of its writer published, now or before."""

    published: Published


class PublishConflicts(msgspec.Struct, frozen=True, array_like=True, tag="publish-conflicts"):
    """Nothing was published: the writer's newest key is a later one, or is the same and belongs to another owner."""

    published: Published


class PartsUnfit(msgspec.Struct, frozen=True, array_like=True, tag="parts-unfit"):
    """Nothing was published: these parts are gone, or are not finished."""

    gone: tuple[LaneId, ...]
    unfinished: tuple[LaneId, ...]


class ConsumptionRefused(msgspec.Struct, frozen=True, array_like=True, tag="consumption-refused"):
    """Nothing was published: what was consumed cannot be committed."""

    refused: ConsumerRefused


class PartsRenewed(msgspec.Struct, frozen=True, array_like=True, tag="parts-renewed"):
    """Those that are there expire later; these are published or gone."""

    gone: tuple[LaneId, ...]


class WriterForgotten(msgspec.Struct, frozen=True, array_like=True, tag="writer-forgotten"):
    """The writer's newest publication was this one, of which nothing is known from here on."""

    published: Published


PartOutcome = (
    PartOpened
    | PartsRenewed
    | PartSealed
    | PartDropped
    | PartsPublished
    | PublishConflicts
    | PartsUnfit
    | ConsumptionRefused
    | WriterForgotten
)
