"""What a new sequencer does before it answers: it settles everything below its start, and learns whom to fence.

From then on closed ranges change by trims alone, and no row of theirs is anybody's to write. Raft notes that it begins:
a server that is started again in the same epoch has forgotten which rows it gave away, and ends that epoch first.
"""

from ithaca.engines.corfu.sequencing.calls import ListMissing, MissingRows
from ithaca.engines.corfu.sequencing.commands import GetSessions, SessionsAre, Settled, Void
from ithaca.engines.corfu.sequencing.flows.flow import AskRaft, NoAnswer, Pause, Steps
from ithaca.engines.corfu.sequencing.flows.knowledge import Knowledge, asked
from ithaca.engines.corfu.sequencing.flows.reconfiguring import installed, reconfigured
from ithaca.engines.corfu.sequencing.flows.settling import settled
from ithaca.engines.corfu.sequencing.limits import RETRY_MS
from ithaca.engines.corfu.sequencing.projection import Projection, Range
from ithaca.engines.corfu.sequencing.sequencer import Began


def begun(knowledge: Knowledge, number: int) -> Steps[Began | None]:
    """How this server begins in the epoch that is known now; None once that is over, or if another one hands out
    rows.
    """
    projection = knowledge.projection
    if projection.sequencer != number:
        return None
    if projection.is_begun:  # by this very server, before it was started again
        yield from reconfigured(knowledge, projection)
        return None
    if not (yield from _settled_below(knowledge, projection)):
        return None
    while isinstance(decided := (yield AskRaft(Settled(projection.epoch))), NoAnswer):
        yield Pause(RETRY_MS)
    while isinstance(sessions := (yield AskRaft(GetSessions())), NoAnswer):
        yield Pause(RETRY_MS)
    if isinstance(decided, Void):
        knowledge.learn(decided.known)
        return None
    knowledge.learn(decided)
    if knowledge.epoch != projection.epoch:
        return None
    assert isinstance(sessions, SessionsAre)
    return Began(projection.epoch, projection.start, knowledge.known.bound, sessions.fences, knowledge.known.time_us)


def begun_without(knowledge: Knowledge, projection: Projection) -> Steps[bool]:
    """Whether what precedes an epoch without a sequencer is settled: whoever comes first sees to it, and says so.

    False once there is a later epoch.
    """
    if projection.is_begun:
        return True
    if not (yield from _settled_below(knowledge, projection)):
        return False
    while isinstance(decided := (yield AskRaft(Settled(projection.epoch))), NoAnswer):
        yield Pause(RETRY_MS)
    knowledge.learn(decided.known if isinstance(decided, Void) else decided)
    return knowledge.epoch == projection.epoch


def _settled_below(knowledge: Knowledge, projection: Projection) -> Steps[bool]:
    """Settle everything below the active range; False once there is a later epoch."""
    yield from installed(projection)
    for each in projection.ranges[:-1]:
        stop = projection.stop_of(each)
        assert stop is not None
        if (
            each.sets
            and stop > projection.settled
            and not (yield from _settled_range(knowledge, projection, each, stop))
        ):
            return False
    return True


def _settled_range(knowledge: Knowledge, projection: Projection, each: Range, stop: int) -> Steps[bool]:
    """Settle every row that the last unit of its chain lacks; False once there is a later epoch."""
    for offset, chain in enumerate(each.sets):
        row = each.start + offset
        while row < stop:
            call = ListMissing(projection.epoch, row, stop, len(each.sets))
            answer = yield from asked(knowledge, projection, chain[-1], call)
            if answer is None:
                return False
            assert isinstance(answer, MissingRows)
            for missing in answer.rows:
                yield from settled(knowledge, missing)
                if knowledge.epoch != projection.epoch:
                    return False
            row = answer.next
    return True
