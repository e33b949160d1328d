"""Appending without a sequencer: whoever writes the next row first has it (§2.3 of the paper).

In such an epoch a row is written only by those who know that the one before it is: so the rows of the active range have
no holes at the heads of their chains, and the highest row that any head has is the last one. Times rise for the same
reason: whoever writes a row knows the times of all before it.

Rows stay below the bound that Raft has granted, as with a sequencer; whoever comes to it has it raised.
"""

from typing import NamedTuple

from ithaca.engines.corfu.sequencing.calls import GetHighest, HighestIs, Known
from ithaca.engines.corfu.sequencing.commands import GetSession, Grant, SessionsAre, Void
from ithaca.engines.corfu.sequencing.flows.beginning import begun_without
from ithaca.engines.corfu.sequencing.flows.flow import AskRaft, NoAnswer, Pause, Steps
from ithaca.engines.corfu.sequencing.flows.knowledge import Knowledge, Reached, asked
from ithaca.engines.corfu.sequencing.limits import GRANT_ROWS, RETRY_MS
from ithaca.engines.corfu.sequencing.projection import Projection


class FreeRow(NamedTuple):
    """The row behind all that are written, and a time for it."""

    row: int
    time_us: int


def free_row(knowledge: Knowledge, projection: Projection) -> Steps[FreeRow | None]:
    """Where to write next, unless somebody else does first; None once there is a later epoch.

    What the handle has written itself may be old: then the row is taken, and the heads are asked.
    """
    reached = knowledge.reached
    if reached is None or reached.epoch != projection.epoch:
        reached = yield from highest(knowledge, projection)
        if reached is None:
            return None
    row = reached.row + 1
    if row >= knowledge.known.bound:
        outcome = yield AskRaft(Grant(projection.epoch, row + GRANT_ROWS))
        if isinstance(outcome, NoAnswer):
            yield Pause(RETRY_MS)
        knowledge.learn(outcome.known if isinstance(outcome, Void) else outcome)
        if knowledge.epoch != projection.epoch or not isinstance(outcome, Known):
            return None
    return FreeRow(row, max(reached.time_us + 1, knowledge.now_us()))


def highest(knowledge: Knowledge, projection: Projection) -> Steps[Reached | None]:
    """The last row that is written at the head of its chain; None once there is a later epoch."""
    if not (yield from begun_without(knowledge, projection)):
        return None
    row, time_us = projection.start - 1, knowledge.known.time_us
    for head in sorted({chain[0] for chain in projection.ranges[-1].sets}):
        answer = yield from asked(knowledge, projection, head, GetHighest(projection.epoch))
        if answer is None:
            return None
        assert isinstance(answer, HighestIs)
        row, time_us = max(row, answer.row), max(time_us, answer.time_us)
    return Reached(projection.epoch, row, time_us)


def is_fenced(producer: int, session_epoch: int) -> Steps[bool]:
    """Whether the session was opened again. Asked once in every epoch: there is no sequencer that would know.

    Whoever opens a session again in an epoch without a sequencer ends that epoch: so this answer holds for as long as
    anything can be written under it.
    """
    while isinstance(answer := (yield AskRaft(GetSession(producer))), NoAnswer):
        yield Pause(RETRY_MS)
    assert isinstance(answer, SessionsAre)
    return any(epoch > session_epoch for _, epoch in answer.fences)
