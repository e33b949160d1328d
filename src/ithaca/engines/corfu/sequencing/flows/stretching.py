"""Reading many rows at once, where they are known to be complete.

A stretch lies within one range. Each of its sets is asked for its share, all at the same time, and what they have is
put together in the order of rows, up to the first row that one of them does not give. Who may say what a row holds is
as for a single one (`reading`): the last unit of its chain, or, below what was settled when a sequencer began, any unit
of the chain. What is there never changes. Nothing is waited for, completed or decided here, and that a row was not
given says nothing of it: whoever needs it reads it alone.
"""

from typing import NamedTuple

from ithaca.engines.corfu.sequencing.calls import ReadRows, RowsHold
from ithaca.engines.corfu.sequencing.entries import Entry
from ithaca.engines.corfu.sequencing.flows.flow import AskUnits, Steps
from ithaca.engines.corfu.sequencing.flows.knowledge import Knowledge
from ithaca.engines.corfu.sequencing.limits import STRETCH_ROWS_MAX
from ithaca.engines.corfu.sequencing.projection import Projection, Range


class Stretch(NamedTuple):
    """What complete rows hold, ascending. All others below `up_to` were trimmed, or are empty by the projection."""

    up_to: int
    rows: list[tuple[int, Entry]]


def stretched(knowledge: Knowledge, start: int, stop: int, bytes_max: int, parts: int = 1) -> Steps[Stretch]:
    """What the rows `[start, stop)` hold, as many of them as come at once; perhaps of none.

    They are asked for in about so many requests. What comes behind a part of which not all was given is for nothing.
    """
    projection = knowledge.projection
    each = projection.range_of(start)
    end = projection.stop_of(each)
    if not each.sets:
        assert end is not None, "the active range has sets"
        return Stretch(end, [])
    stop = stop if end is None else min(stop, end)
    if start < projection.settled:
        stop = min(stop, projection.settled)
    asked = _shares(projection, each, range(start, stop), bytes_max, parts)
    answers = yield AskUnits(tuple(asked))
    rows: list[tuple[int, Entry]] = []
    for (_, call), answer in zip(asked, answers, strict=True):
        if isinstance(answer, RowsHold) and _answers(answer, call):
            knowledge.saw(answer)
            rows += answer.rows
            if answer.up_to < call.stop:
                stop = min(stop, answer.up_to)
        else:
            stop = min(stop, call.start)
    rows.sort(key=lambda held: held[0])
    return Stretch(stop, [held for held in rows if held[0] < stop])


def _shares(
    projection: Projection, each: Range, wanted: range, bytes_max: int, parts: int
) -> list[tuple[int, ReadRows]]:
    """Whom to ask for what: of each set its rows of each part, and as many bytes of each."""
    sets = len(each.sets)
    rows_max = -(-len(wanted) // max(1, parts // sets))
    lows = range(wanted.start, wanted.stop, rows_max)
    share_bytes = max(1, bytes_max // (len(lows) * min(sets, rows_max)))
    asked: list[tuple[int, ReadRows]] = []
    for low in lows:
        stop = min(wanted.stop, low + rows_max)
        for first in range(low, min(stop, low + sets)):
            chain = each.chain(first)
            unit = chain[first // sets // STRETCH_ROWS_MAX % len(chain)] if first < projection.settled else chain[-1]
            asked.append((unit, ReadRows(projection.epoch, first, stop, sets, share_bytes)))
    return asked


def _answers(answer: RowsHold, call: ReadRows) -> bool:
    """Whether it is of the rows that were asked for."""
    wanted = range(call.start, answer.up_to, call.step)
    return answer.up_to <= call.stop and all(row in wanted for row, _ in answer.rows)
