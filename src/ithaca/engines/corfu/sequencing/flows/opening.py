"""Opening a session: fence its older handles, settle what they may still write, and learn how far it is.

Raft raises the session's epoch first. The sequencer then gives older handles nothing more, and names the one row that
they may still write; once that is settled, what the units hold of the session is all that there will be of the past.
After a sequencer's death the seal has fenced, and the new one began behind a settled log. Where there is none, opening
a session again ends the epoch: older handles look whether they are fenced before they write in the next one.
"""

from dataclasses import dataclass

from ithaca.engines.corfu.sequencing.calls import Fence, GetSessionTail, SessionFence, SessionTailReply
from ithaca.engines.corfu.sequencing.commands import OpenSession, SessionIs, Void
from ithaca.engines.corfu.sequencing.flows.appending import Writer
from ithaca.engines.corfu.sequencing.flows.beginning import begun_without
from ithaca.engines.corfu.sequencing.flows.flow import AskRaft, NoAnswer, Pause, Steps
from ithaca.engines.corfu.sequencing.flows.knowledge import Knowledge, asked, asked_sequencer, holds
from ithaca.engines.corfu.sequencing.flows.reconfiguring import reconfigured
from ithaca.engines.corfu.sequencing.flows.settling import settled
from ithaca.engines.corfu.sequencing.limits import RETRY_MS
from ithaca.engines.corfu.sequencing.placed import PlacedBatch
from ithaca.engines.corfu.sequencing.projection import Projection
from ithaca.engines.corfu.sequencing.rows import NONE
from ithaca.model.limits import SESSION_BATCHES_MAX


@dataclass(frozen=True, slots=True)
class OpenedSession:
    """A handle of the session, and the last batches that older ones appended, in the order of their numbers."""

    writer: Writer
    placed: tuple[PlacedBatch, ...]
    is_forgotten: bool = False
    """Whether nothing is known and units have forgotten sessions: there may have been batches."""

    @property
    def next_seq(self) -> int:
        return self.placed[-1].first_seq + self.placed[-1].count if self.placed else 1


def opened(knowledge: Knowledge, name: str) -> Steps[OpenedSession | Void]:
    """A new handle of the session; `Void` when there is no room for another one."""
    while isinstance(answer := (yield AskRaft(OpenSession(name))), NoAnswer):
        yield Pause(RETRY_MS)
    if isinstance(answer, Void):
        return answer
    assert isinstance(answer, SessionIs)
    knowledge.learn(answer.known)
    writer = Writer(answer.producer, answer.epoch)
    if answer.epoch == 1:
        return OpenedSession(writer, ())
    raised_in = answer.known.projection.epoch
    while True:
        projection = knowledge.projection
        if projection.sequencer:
            is_fenced = yield from _fenced(knowledge, projection, writer)
        elif projection.epoch == raised_in:  # older handles may have looked before: only the next epoch fences
            yield from reconfigured(knowledge, projection)
            is_fenced = False
        else:
            is_fenced = yield from begun_without(knowledge, projection)
        if not is_fenced:
            continue
        found = yield from _placed(knowledge, projection, writer)
        if found is not None and (yield from holds(knowledge, projection)):
            return found


def _fenced(knowledge: Knowledge, projection: Projection, writer: Writer) -> Steps[bool]:
    """Whether older handles can write nothing more, under this epoch."""
    call = Fence(projection.epoch, writer.producer, writer.epoch)
    answer = yield from asked_sequencer(knowledge, projection, call)
    if answer is None:
        return False
    assert isinstance(answer, SessionFence)
    if answer.is_forgotten:  # it cannot name the row: only the next epoch fences
        yield from reconfigured(knowledge, projection)
        return False
    if answer.open_row != NONE:
        yield from settled(knowledge, answer.open_row)
    return knowledge.epoch == projection.epoch


def _placed(knowledge: Knowledge, projection: Projection, writer: Writer) -> Steps[OpenedSession | None]:
    """The session's last batches, from the last unit of every chain; None once there is a later epoch."""
    found: set[PlacedBatch] = set()
    is_forgetful = False
    for unit in sorted({chain[-1] for chain in projection.chains()}):
        answer = yield from asked(knowledge, projection, unit, GetSessionTail(projection.epoch, writer.producer))
        if answer is None:
            return None
        assert isinstance(answer, SessionTailReply)
        found.update(answer.batches)
        is_forgetful = is_forgetful or answer.is_forgetful
    placed = tuple(sorted(found, key=lambda batch: batch.row)[-SESSION_BATCHES_MAX:])
    return OpenedSession(writer, placed, is_forgotten=is_forgetful and not placed)
