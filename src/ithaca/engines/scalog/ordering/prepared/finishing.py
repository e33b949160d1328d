"""What is to be done about a part that its maker has finished: it is sealed at that length when it is durable."""

from ithaca.engines.scalog.ordering.leader import CutProposer
from ithaca.engines.scalog.ordering.prepared.entries import SealPart
from ithaca.engines.scalog.ordering.prepared.outcomes import PartSealed
from ithaca.engines.scalog.ordering.state import OrderingState
from ithaca.model.errors import IthacaError, PartGone
from ithaca.model.positions import LaneId


def finish(
    state: OrderingState, leader: CutProposer | None, lane: LaneId, token: bytes, length: int
) -> SealPart | PartSealed | IthacaError | None:
    """The entry that seals it, that it is sealed, why it cannot be; None while too few replicas have synced it."""
    part = state.parts.find((lane, token))
    if part is None:
        return PartGone(f"part {lane} was aborted, has expired or was never made")
    if part.length == length:
        return PartSealed(part.lane, part.length)
    if leader is None:
        return None
    try:
        return leader.seal(part, length)
    except IthacaError as error:
        return error
