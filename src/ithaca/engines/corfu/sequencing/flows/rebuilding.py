"""Rebuilding: units that took the places of others get the rows that those had in closed ranges (§2.5 of the paper).

A closed range that is settled changes by trims alone. So its rows are copied while everything goes on, and what was
trimmed, with the sessions' last batches, is copied last, under the seal of the epoch that ends with it
(`reconfiguring`). From the next epoch on the unit belongs to the chain of that range, and whoever has left the active
range leaves this one, too.
"""

from dataclasses import dataclass

from ithaca.engines.corfu.sequencing.calls import ListMissing, MissingRows, Read, RowHolds, RowUnwritten, Write
from ithaca.engines.corfu.sequencing.commands import Joined
from ithaca.engines.corfu.sequencing.flows.flow import Steps
from ithaca.engines.corfu.sequencing.flows.knowledge import Knowledge, asked
from ithaca.engines.corfu.sequencing.flows.reconfiguring import reconfigured
from ithaca.engines.corfu.sequencing.projection import Projection, Range
from ithaca.engines.corfu.sequencing.rows import row_of


@dataclass(slots=True)
class Copying:
    """How far a copy is; for people."""

    unit: int = 0
    """The one that copies; 0 while none does."""
    source: int = 0
    start: int = 0
    row: int = 0
    """Up to which row of the range it is."""
    stop: int = 0
    copied: int = 0
    """Rows that were copied, of all units since the server was started."""

    @property
    def told(self) -> "dict[str, float] | None":
        """As a status says it; None while nothing is copied."""
        done = (self.row - self.start) / max(1, self.stop - self.start)
        return {"unit": self.unit, "source": self.source, "done": round(done, 4)} if self.unit else None


def rebuilt(knowledge: Knowledge, copying: Copying | None = None) -> Steps[bool]:
    """Do what is next for chains that are not as they should be; says whether there was something.

    First a spare comes into the active range, then what it lacks of closed ones is copied. Ranges that were trimmed as
    a whole go with any epoch; this one ends for it if that frees units.
    """
    projection, sizes = knowledge.projection, knowledge.known.sizes
    copying = Copying() if copying is None else copying
    if not projection.is_begun:
        return False
    active = projection.ranges[-1].sets
    used = {unit for chain in projection.chains() for unit in chain}
    is_short = any(len(chain) < size for chain, size in zip(active, sizes, strict=True))
    has_spares = any(unit.number not in used for unit in projection.units)
    if (is_short and has_spares) or _freed(projection, row_of(knowledge.known.trim)):
        yield from reconfigured(knowledge, projection)
        return True
    joined: list[Joined] = []
    for each in projection.ranges[:-1]:
        for number, chain in enumerate(each.sets):
            lacking = [unit for unit in active[number] if unit not in chain]
            leaving = [unit for unit in chain if unit not in active[number]]
            is_full = len(chain) >= sizes[number]
            if not lacking or (is_full and not leaving):
                continue
            if not (yield from _copied(knowledge, projection, each, number, lacking[0], copying)):
                copying.unit = 0
                return False
            joined.append(Joined(each.start, number, lacking[0], leaving[0] if is_full else 0))
    copying.unit = 0
    if joined:
        yield from reconfigured(knowledge, projection, joined=tuple(joined))
    return bool(joined)


def _freed(projection: Projection, finished: int) -> set[int]:
    """The units that only ranges have which were trimmed up to this row."""
    over: set[int] = set()
    kept: set[int] = set()
    for each in projection.ranges:
        stop = projection.stop_of(each)
        is_over = stop is not None and stop <= finished
        (over if is_over else kept).update(unit for chain in each.sets for unit in chain)
    return over - kept


def _copied(
    knowledge: Knowledge, projection: Projection, each: Range, number: int, target: int, copying: Copying
) -> Steps[bool]:
    """Whether a unit has all rows of a set that are left, under this epoch."""
    source, row, stop = each.sets[number][-1], each.start + number, projection.stop_of(each)
    assert stop is not None
    copying.unit, copying.source, copying.start, copying.stop = target, source, row, stop
    while row < stop:
        copying.row = row
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
                copying.copied += 1
        row = answer.next
    return True
