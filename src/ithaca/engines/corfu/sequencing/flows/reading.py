"""Reading rows and the tail (§2.4 of the paper).

A row is read at the last unit of its chain, which has only what is complete. What is there never changes. That nothing
is there counts only if the epoch still holds afterwards, as Raft says: a unit that was removed does not know what its
successors have. That replaces the paper's leases; the same goes for the sequencer's tail.
"""

from ithaca.engines.corfu.sequencing.calls import GetTail, Read, RowHolds, RowTrimmed, RowUnwritten, TailIs
from ithaca.engines.corfu.sequencing.flows.flow import Steps
from ithaca.engines.corfu.sequencing.flows.knowledge import Knowledge, asked, asked_sequencer, holds
from ithaca.engines.corfu.sequencing.flows.settling import RowState


def read(knowledge: Knowledge, row: int) -> Steps[RowState]:
    """What the row holds."""
    while True:
        projection = knowledge.projection
        chain = projection.chain(row)
        if not chain:
            return "empty"
        match (yield from asked(knowledge, projection, chain[-1], Read(projection.epoch, row))):
            case RowHolds(entry):
                return entry
            case RowTrimmed():
                return "trimmed"
            case RowUnwritten() if (yield from holds(knowledge, projection)):
                return "unwritten"


def looked(knowledge: Knowledge, row: int) -> Steps[RowState]:
    """What the row holds, for whoever waits for it: that it is "unwritten" may be old, and says nothing."""
    projection = knowledge.projection
    chain = projection.chain(row)
    if not chain:
        return "empty"
    match (yield from asked(knowledge, projection, chain[-1], Read(projection.epoch, row))):
        case RowHolds(entry):
            return entry
        case RowTrimmed():
            return "trimmed"
    return "unwritten"


def tail(knowledge: Knowledge) -> Steps[int]:
    """The row that is given next: behind everything that was acknowledged before this began."""
    while True:
        projection = knowledge.projection
        answer = yield from asked_sequencer(knowledge, projection, GetTail(projection.epoch))
        if isinstance(answer, TailIs) and (yield from holds(knowledge, projection)):
            return answer.row
