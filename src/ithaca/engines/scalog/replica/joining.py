"""What a replica that joins the order is told of its shard's lanes, and of the sessions in them."""

from collections.abc import Mapping

from ithaca.engines.scalog.ordering import lost
from ithaca.engines.scalog.ordering.prepared.outcomes import StagedPart
from ithaca.engines.scalog.ordering.state import ShardSummary
from ithaca.engines.scalog.replica.events import ListSessions
from ithaca.engines.scalog.replica.lanes import LaneCopy
from ithaca.engines.scalog.replica.settled import SettledCopies
from ithaca.model.positions import LaneId


def list_lanes(
    summary: ShardSummary,
    lanes: dict[LaneId, LaneCopy],
    settled: SettledCopies,
    lost_of_settled: dict[LaneId, lost.Ranges],
) -> list[StagedPart]:
    """Note of every lane how far it is ordered, and which are open; says which parts are being written."""
    ranges = dict(summary.lost)
    for lane, length in summary.lengths:
        if lane in settled:
            assert settled.length(lane) == length, f"lane {lane} is settled, and {length} of it are ordered"
            if lane in ranges:
                lost_of_settled[lane] = ranges[lane]
            continue
        copy = lanes.get(lane)
        if copy is None:
            copy = lanes[lane] = LaneCopy(lane)
        copy.ordered = length
        copy.lost = ranges.get(lane, ())
        copy.waiting.clear()  # the cuts that are told now say the same, or peers do
    for lane in summary.shard.open_lanes():
        assert lane not in settled, f"lane {lane} is open, and settled here"
        lanes[lane].is_open = True
    for part in summary.parts:
        copy = lanes.setdefault(part.lane, LaneCopy(part.lane))
        copy.is_open = part.length is None
        copy.sealed = part.length or 0
    return [part for part in summary.parts if part.length is None]


def listed_lanes(summary: ShardSummary) -> tuple[set[LaneId], set[LaneId]]:
    """Every lane that there is, and those that may grow."""
    listed = {lane for lane, _ in summary.lengths} | {part.lane for part in summary.parts}
    return listed, {*summary.shard.open_lanes(), *(part.lane for part in summary.parts if part.length is None)}


def list_sessions(summary: ShardSummary, lanes: Mapping[LaneId, LaneCopy]) -> list[ListSessions]:
    """Who is at home in lanes that are not complete: what is still to be written may hold sessions that are gone."""
    effects: list[ListSessions] = []
    for lane, length in summary.lengths:
        copy = lanes.get(lane)
        if copy is not None and length and not lane.is_part and not copy.is_settled:
            at_home = frozenset(each.producer_id for each in summary.sessions if each.home == lane)
            effects.append(ListSessions(lane, at_home, length))
    return effects
