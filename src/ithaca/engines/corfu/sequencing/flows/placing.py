"""Writing a row of one's own choice, for those who bring their own order."""

from ithaca.engines.corfu.sequencing.calls import TailReply, TakeRow, Tokens
from ithaca.engines.corfu.sequencing.entries import Entry, Stamp
from ithaca.engines.corfu.sequencing.flows.appending import written
from ithaca.engines.corfu.sequencing.flows.contending import FreeRow, free_row
from ithaca.engines.corfu.sequencing.flows.flow import Steps
from ithaca.engines.corfu.sequencing.flows.knowledge import Knowledge, asked_sequencer
from ithaca.engines.corfu.sequencing.flows.reading import read
from ithaca.engines.corfu.sequencing.flows.settling import RowState, settled
from ithaca.engines.corfu.sequencing.projection import Projection
from ithaca.wire.batch import Batch


def placed_at(knowledge: Knowledge, row: int, stamp: Stamp, batch: Batch | None = None) -> Steps[RowState | TailReply]:
    """What the row holds then: this batch, or what keeps it out; "unwritten" where the row is somebody else's.

    With a sequencer the row may lie beyond the tail, and those before it stay free; without one it must be the next.
    The tail, where the row is too far behind it.
    """
    entry = Entry(stamp, 0, batch)
    while True:
        projection = knowledge.projection
        if row < projection.start:
            return (yield from settled(knowledge, row, own=entry))
        free = yield from (_chosen if projection.sequencer else _next)(knowledge, projection, row)
        if isinstance(free, TailReply):
            return free
        if free is not None and free.row != row:
            return (yield from (read(knowledge, row) if projection.sequencer else settled(knowledge, row, own=entry)))
        if free is not None:
            entry = Entry(stamp, free.time_us, batch)
            knowledge.reached = None
            return (yield from written(knowledge, projection, row, entry))


def _chosen(knowledge: Knowledge, projection: Projection, row: int) -> Steps[FreeRow | TailReply | None]:
    """The row with its time, if it is nobody's; None once there is a later epoch."""
    answer = yield from asked_sequencer(knowledge, projection, TakeRow(projection.epoch, row))
    if isinstance(answer, Tokens):
        token = answer.tokens[0]
        return FreeRow(token.row, token.time_us)
    assert answer is None or isinstance(answer, TailReply)
    return answer


def _next(knowledge: Knowledge, projection: Projection, row: int) -> Steps[FreeRow | TailReply | None]:
    """The next row, if it is this one or a later one."""
    knowledge.reached = None  # whoever names a row knows nothing of what this handle wrote
    free = yield from free_row(knowledge, projection)
    return TailReply(free.row) if free is not None and free.row < row else free
