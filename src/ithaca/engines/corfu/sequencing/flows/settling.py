"""Settling a row: complete what the head of its chain has, else make it junk (§2.4 of the paper, `FILL` in Figure
4).
"""

from typing import Literal

from ithaca.engines.corfu.sequencing.calls import (
    GetSessionTail,
    Read,
    RowHolds,
    RowTrimmed,
    RowUnwritten,
    RowWritten,
    SessionTailReply,
    UnitAnswer,
    Write,
)
from ithaca.engines.corfu.sequencing.entries import JUNK, Entry
from ithaca.engines.corfu.sequencing.flows.flow import Steps
from ithaca.engines.corfu.sequencing.flows.knowledge import Knowledge, asked
from ithaca.engines.corfu.sequencing.projection import Projection
from ithaca.engines.corfu.sequencing.rows import row_of

RowState = Entry | Literal["empty", "trimmed", "unwritten"]
"""What a row holds, or: it is empty by the projection, was trimmed, or nothing is there yet."""


def settled(knowledge: Knowledge, row: int, *, own: Entry | None = None, may_junk: bool = True) -> Steps[RowState]:
    """Have the row complete on its whole chain; what it holds then, for ever (invariant 6).

    `own` is what the caller has tried to write there: if it was, and was trimmed since, that is what the row held.
    Without `may_junk` a row that not even the head has stays as it is: "unwritten".
    """
    while True:
        projection = knowledge.projection
        if not projection.chain(row):
            if own is None or row >= row_of(knowledge.known.trim):
                return "empty"
            state = yield from _remembered(knowledge, projection, row, own)
            if state is not None:
                return state
            continue
        head: UnitAnswer | None = None
        if not may_junk:
            head = yield from asked(knowledge, projection, projection.chain(row)[0], Read(projection.epoch, row))
            if isinstance(head, RowUnwritten):
                return "unwritten"
            if head is None:
                continue
        state = yield from _passed(knowledge, projection, row, own, head)
        if state is not None:
            return state


def _remembered(knowledge: Knowledge, projection: Projection, row: int, own: Entry) -> Steps[RowState | None]:
    """Whether this was in a row of which no unit is left, as it was trimmed: what became of sessions stays known.

    None once there is a later epoch.
    """
    assert own.stamp is not None
    call = GetSessionTail(projection.epoch, own.stamp.producer)
    for unit in sorted({chain[-1] for chain in projection.chains()}):
        answer = yield from asked(knowledge, projection, unit, call)
        if answer is None:
            return None
        assert isinstance(answer, SessionTailReply)
        if any(batch.row == row and batch.first_seq == own.stamp.first_seq for batch in answer.batches):
            return own
    return "trimmed"


def _passed(
    knowledge: Knowledge, projection: Projection, row: int, own: Entry | None, head: UnitAnswer | None
) -> Steps[RowState | None]:
    """Along the chain, under one epoch; None once there is a later one. `head` is what the first unit said of the row,
    if it was asked: then it is not asked again.
    """
    entry, state, is_decided = JUNK, "trimmed", False  # type: tuple[Entry, RowState, bool]
    chain = projection.chain(row)
    for at, unit in enumerate(chain):
        answer = head if at == 0 else None
        if answer is None:
            answer = yield from asked(knowledge, projection, unit, Write(projection.epoch, row, entry))
        match answer:
            case RowHolds(found) if is_decided and found != entry:
                # Somebody was told by the unit before that the row is trimmed, after it had answered here, and made
                # junk of it where the trim has not come to yet. No unit further on has anything else.
                before = yield from asked(
                    knowledge, projection, projection.chain(row)[at - 1], Read(projection.epoch, row)
                )
                if before is None:
                    return None
                assert isinstance(before, RowTrimmed), f"the units of row {row} have {entry} and {found}"
                entry, state = found, "trimmed"
            case RowHolds(found):
                entry, state, is_decided = found, found, True
            case RowWritten():
                state, is_decided = entry, True
            case RowTrimmed():
                state = "trimmed"
            case None:
                return None
    if state == "trimmed" and own is not None:
        answer = yield from asked(knowledge, projection, chain[-1], Write(projection.epoch, row, own))
        if answer is None:
            return None
        if isinstance(answer, RowWritten):
            return own
    return state
