"""Rebuilding: units that took the places of others get the rows that those had in closed ranges (§2.5 of the paper).

A closed range that is settled changes by trims alone. So its rows are copied while everything goes on, and what was
trimmed, with the sessions' last batches, is copied last, under the seal of the epoch that ends with it
(`reconfiguring`). From the next epoch on the unit belongs to the chain of that range.
"""

from ithaca.engines.corfu.sequencing.calls import ListMissing, MissingRows, Read, RowHolds, RowUnwritten, Write
from ithaca.engines.corfu.sequencing.commands import Joined
from ithaca.engines.corfu.sequencing.flows.flow import Steps
from ithaca.engines.corfu.sequencing.flows.knowledge import Knowledge, asked
from ithaca.engines.corfu.sequencing.flows.reconfiguring import reconfigured
from ithaca.engines.corfu.sequencing.projection import Projection, Range


def rebuilt(knowledge: Knowledge) -> Steps[bool]:
    """Do what is next for chains that are shorter than they should be; says whether there was something.

    First a spare comes into the active range, then what it lacks of closed ones is copied.
    """
    projection, sizes = knowledge.projection, knowledge.known.sizes
    if not projection.is_begun:
        return False
    active = projection.ranges[-1].sets
    used = {unit for chain in projection.chains() for unit in chain}
    is_short = any(len(chain) < size for chain, size in zip(active, sizes, strict=True))
    if is_short and any(unit.number not in used for unit in projection.units):
        yield from reconfigured(knowledge, projection)
        return True
    joined: list[Joined] = []
    for each in projection.ranges[:-1]:
        for number, chain in enumerate(each.sets):
            lacking = [unit for unit in active[number] if unit not in chain]
            if lacking and len(chain) < sizes[number]:
                if not (yield from _copied(knowledge, projection, each, number, lacking[0])):
                    return False
                joined.append(Joined(each.start, number, lacking[0]))
    if joined:
        yield from reconfigured(knowledge, projection, joined=tuple(joined))
    return bool(joined)


def _copied(knowledge: Knowledge, projection: Projection, each: Range, number: int, target: int) -> Steps[bool]:
    """Whether a unit has all rows of a set that are left, under this epoch."""
    source, row, stop = each.sets[number][-1], each.start + number, projection.stop_of(each)
    assert stop is not None
    while row < stop:
        call = ListMissing(projection.epoch, row, stop, len(each.sets))
        answer = yield from asked(knowledge, projection, target, call)
        if answer is None:
            return False
        assert isinstance(answer, MissingRows)
        for missing in answer.rows:
            found = yield from asked(knowledge, projection, source, Read(projection.epoch, missing))
            if found is None or isinstance(found, RowUnwritten):
                return False
            if isinstance(found, RowHolds):
                written = yield from asked(knowledge, projection, target, Write(projection.epoch, missing, found.entry))
                if written is None:
                    return False
        row = answer.next
    return True
