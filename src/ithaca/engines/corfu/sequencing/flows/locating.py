"""Where the rows of a range lie in the lanes of units, for a reader on their machine.

What the last unit of a chain has is complete, and so is what was settled when a sequencer began, as for whoever reads
row by row (`reading`). If the last unit is on another machine, it says how far its rows go, and another one of the
chain where they lie. What is there never changes; what was trimmed counts only if the epoch still holds afterwards.
Nothing is waited for, completed or decided here: where something is not as it should be reading by files ends, and
whoever reads row by row goes on.
"""

from typing import NamedTuple

from ithaca.engines.corfu.sequencing.calls import LocateRows, RowLocations
from ithaca.engines.corfu.sequencing.flows.flow import AskUnit, Steps
from ithaca.engines.corfu.sequencing.flows.knowledge import Knowledge, holds
from ithaca.engines.corfu.sequencing.projection import Chain, Projection


class LaneRows(NamedTuple):
    """Complete rows of one set below `up_to`, ascending, and where they are in a unit's lane: all but trimmed ones."""

    up_to: int
    place: tuple[str, int, int]
    """The lane's directory, with device and inode."""
    rows: list[int]
    lsns: list[int]


class LocatedRows(NamedTuple):
    """All rows of a range below `up_to`, by their sets."""

    up_to: int
    lanes: list[tuple[int, LaneRows]]


def located(knowledge: Knowledge, start: int, stop: int, machine: str) -> Steps[LocatedRows]:
    """Where the rows `[start, stop)` lie, as far as units of this machine have them one after the other."""
    projection = knowledge.projection
    lanes: list[tuple[int, LaneRows]] = []
    for each in projection.ranges:
        low, end = max(start, each.start), projection.stop_of(each)
        high = stop if end is None else end
        for shard, chain in enumerate(each.sets):
            first = low + (shard - (low - each.start)) % len(each.sets)
            wanted = range(first, min(high, stop), len(each.sets))
            found = (yield from _of_chain(knowledge, projection, chain, wanted, machine)) if wanted else None
            if found is not None:
                stop = min(stop, found.up_to)
                lanes.append((shard, found))
            elif wanted:
                stop = first
    if stop > start and not (yield from holds(knowledge, projection)):
        return LocatedRows(start, [])
    return LocatedRows(stop, lanes)


def _of_chain(
    knowledge: Knowledge, projection: Projection, chain: Chain, wanted: range, machine: str
) -> Steps[LaneRows | None]:
    """What one unit of the chain says of these rows, all of which are complete; None if no unit is on the machine."""
    complete = projection.settled
    for unit in reversed(chain):
        is_last = unit == chain[-1]
        rows = wanted if is_last else range(wanted.start, min(wanted.stop, complete), wanted.step)
        found = (yield from _asked(knowledge, projection, unit, rows, machine)) if rows else None
        if found is not None and found.place[0]:
            return found
        if found is not None and is_last:
            complete = max(complete, found.up_to)
    return None


def _asked(
    knowledge: Knowledge, projection: Projection, unit: int, wanted: range, machine: str
) -> Steps[LaneRows | None]:
    """What the unit says of these rows, one answer after the other; None if it says nothing."""
    place: tuple[str, int, int] | None = None
    rows: list[int] = []
    lsns: list[int] = []
    at = wanted.start
    while at < wanted.stop:
        answer = yield AskUnit(unit, LocateRows(projection.epoch, machine, at, wanted.stop, wanted.step))
        if not isinstance(answer, RowLocations):
            return None
        knowledge.saw(answer)
        said = (answer.directory, answer.device, answer.inode)
        if place not in (None, said) or len(answer.rows) != len(answer.lsns):
            return None
        place = said
        rows += answer.rows
        lsns += answer.lsns
        if answer.up_to <= at:
            break
        at = answer.up_to
    assert place is not None, "something was asked for"
    return LaneRows(min(at, wanted.stop), place, rows, lsns)
