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
from ithaca.engines.corfu.sequencing.flows.contending import free_row, is_fenced
from ithaca.engines.corfu.sequencing.flows.flow import Steps
from ithaca.engines.corfu.sequencing.flows.knowledge import Knowledge, Reached, asked, asked_sequencer
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
    checked_epoch: int = 0
    """The last epoch without a sequencer in which the session was seen not to be opened again."""


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
        take = _taken if projection.sequencer else _contended
        token = yield from take(knowledge, projection, writer)
        if token is None:
            continue
        if token.row == NONE:
            return None
        entry = Entry(stamp, token.time_us, batch)
        found = yield from written(knowledge, projection, token.row, entry)
        writer.settled_row = token.row
        knowledge.reached = None
        if found == entry:
            if not projection.sequencer:
                knowledge.reached = Reached(projection.epoch, token.row, token.time_us)
            return Appended(token.row, token.time_us, knowledge.epoch)


def _contended(knowledge: Knowledge, projection: Projection, writer: Writer) -> Steps[Token | None]:
    """As a sequencer would give it, but perhaps to several."""
    if writer.checked_epoch != projection.epoch:
        if (yield from is_fenced(writer.producer, writer.epoch)):
            return Token(NONE, 0)
        writer.checked_epoch = projection.epoch
    free = yield from free_row(knowledge, projection)
    return None if free is None else Token(free.row, free.time_us)


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
