"""Reading rows and the tail (§2.4 of the paper).

A row is read at the last unit of its chain, which has only what is complete. Below what was settled when a sequencer
began every unit has all of it: there any of them is asked, by turns. What is there never changes. That nothing
is there counts only if the epoch still holds afterwards, as Raft says: a unit that was removed does not know what its
successors have. That replaces the paper's leases; the same goes for the sequencer's tail.
"""

from ithaca.engines.corfu.sequencing.calls import (
    AwaitRow,
    GetTail,
    Read,
    RowHolds,
    RowTrimmed,
    RowUnwritten,
    TailReply,
    UnitAnswer,
)
from ithaca.engines.corfu.sequencing.flows.contending import highest
from ithaca.engines.corfu.sequencing.flows.flow import AskUnit, Steps
from ithaca.engines.corfu.sequencing.flows.knowledge import Knowledge, asked, asked_sequencer, holds
from ithaca.engines.corfu.sequencing.flows.settling import RowState
from ithaca.engines.corfu.sequencing.projection import Projection


def read(knowledge: Knowledge, row: int) -> Steps[RowState]:
    """What the row holds."""
    while True:
        projection = knowledge.projection
        chain = projection.chain(row)
        if not chain:
            return "empty"
        match (yield from _answer(knowledge, projection, Read(projection.epoch, row))):
            case RowHolds(entry):
                return entry
            case RowTrimmed():
                return "trimmed"
            case RowUnwritten() if (yield from holds(knowledge, projection)):
                return "unwritten"


def looked(knowledge: Knowledge, row: int, wait_ms: int = 0) -> Steps[RowState]:
    """What the row holds, as soon as it holds something; that it is "unwritten" may be old, and says nothing."""
    projection = knowledge.projection
    chain = projection.chain(row)
    if not chain:
        return "empty"
    call = AwaitRow(projection.epoch, row, wait_ms) if wait_ms else Read(projection.epoch, row)
    match (yield from _answer(knowledge, projection, call)):
        case RowHolds(entry):
            return entry
        case RowTrimmed():
            return "trimmed"
    return "unwritten"


def _answer(knowledge: Knowledge, projection: Projection, call: Read | AwaitRow) -> Steps[UnitAnswer | None]:
    """What a unit says of the row, which it has if it is complete; None once there is a later epoch."""
    row, chain = call.row, projection.chain(call.row)
    if row < projection.settled and len(chain) > 1:
        unit = chain[row // len(projection.range_of(row).sets) % len(chain)]
        answer = yield AskUnit(unit, call)
        if isinstance(answer, RowHolds | RowTrimmed):
            knowledge.saw(answer)
            return answer
    return (yield from asked(knowledge, projection, chain[-1], call))


def tail(knowledge: Knowledge, taken: int | None = None) -> Steps[int]:
    """The row that is given next: behind everything that was acknowledged before this began.

    Whoever asks whether the row `taken` is before it is answered with the first row that is seen behind that: rows that
    were taken stay so, whatever the epoch. Only that it was not taken has to be proved.
    """
    while True:
        projection = knowledge.projection
        if taken is not None and taken < projection.start:
            return projection.start
        if projection.sequencer:
            answer = yield from asked_sequencer(knowledge, projection, GetTail(projection.epoch))
            row = answer.row if isinstance(answer, TailReply) else None
        else:
            reached = yield from highest(knowledge, projection)
            row = None if reached is None else reached.row + 1
        if row is not None and taken is not None and taken < row:
            return row
        if row is not None and (yield from holds(knowledge, projection)):
            return row
