"""Appending: take a row, write the batch along its chain, and go on with another row if somebody else has it (Figure
4).

Whatever leaves the outcome open (a seal, a unit that is gone) is answered in one way: settle the row under the epoch
that holds by then, and look whose it is. Only when it certainly is not ours is another row taken; so a batch is in the
log once (invariant 7).
"""

from dataclasses import dataclass

from ithaca.engines.corfu.sequencing.calls import (
    RowHolds,
    RowTrimmed,
    TakeTokens,
    Token,
    Tokens,
    UnitAnswer,
    Want,
    Write,
)
from ithaca.engines.corfu.sequencing.entries import Entry, Stamp
from ithaca.engines.corfu.sequencing.flows.flow import Steps
from ithaca.engines.corfu.sequencing.flows.knowledge import Knowledge, asked, asked_sequencer
from ithaca.engines.corfu.sequencing.flows.settling import RowState, settled
from ithaca.engines.corfu.sequencing.projection import Projection
from ithaca.engines.corfu.sequencing.rows import NONE
from ithaca.wire.batch import Batch


@dataclass(slots=True)
class Writer:
    """A handle of a session. One batch of it is under way at a time."""

    producer: int
    epoch: int
    settled_row: int = NONE
    """The last row that this handle got and that is settled, whatever it holds."""


@dataclass(frozen=True, slots=True)
class Appended:
    """Complete on the whole chain."""

    row: int
    time_us: int
    epoch: int
    """Of the projection under which it was found to be."""


def appended(knowledge: Knowledge, writer: Writer, stamp: Stamp, batch: Batch | None = None) -> Steps[Appended | None]:
    """Where the batch is; None when the session was opened again: then it is nowhere, unless that one found it."""
    while True:
        projection = knowledge.projection
        token = yield from _taken(knowledge, projection, writer)
        if token is None:
            continue
        if token.row == NONE:
            return None
        entry = Entry(stamp, token.time_us, batch)
        found = yield from written(knowledge, projection, token.row, entry)
        writer.settled_row = token.row
        if found == entry:
            return Appended(token.row, token.time_us, knowledge.epoch)


def _taken(knowledge: Knowledge, projection: Projection, writer: Writer) -> Steps[Token | None]:
    want = Want(writer.producer, writer.epoch, writer.settled_row)
    answer = yield from asked_sequencer(knowledge, projection, TakeTokens(projection.epoch, (want,)))
    assert answer is None or isinstance(answer, Tokens)
    return answer.tokens[0] if answer is not None else None


def written(knowledge: Knowledge, projection: Projection, row: int, entry: Entry) -> Steps[RowState]:
    """Write along the chain of this projection, head first; what the row holds then."""
    answer: UnitAnswer | None = None
    for unit in projection.chain(row):
        answer = yield from asked(knowledge, projection, unit, Write(projection.epoch, row, entry))
        if answer is None or (isinstance(answer, RowHolds) and answer.entry != entry):
            return (yield from settled(knowledge, row, own=entry))
    # A unit whose row was trimmed says whether this very batch was there before; the last one decides.
    return "trimmed" if isinstance(answer, RowTrimmed) else entry
