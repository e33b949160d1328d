"""What a handle knows of the cluster, and how it asks under one epoch.

A flow works under one projection until it is told that this one is over; then it begins again under the next. `asked`
has that in one place: whoever gets None from it looks at `knowledge.projection` again.
"""

from collections.abc import Callable
from typing import NamedTuple

from ithaca.engines.corfu.sequencing.calls import (
    CallRefused,
    EpochIs,
    GetProjection,
    Install,
    Known,
    NotReady,
    OtherIdentity,
    RowHolds,
    RowLocations,
    RowsHold,
    RowTrimmed,
    SequencerAnswer,
    SequencerCall,
    UnitAnswer,
    UnitCall,
)
from ithaca.engines.corfu.sequencing.flows.flow import NO_ANSWER, AskRaft, AskSequencer, AskUnit, NoAnswer, Pause, Steps
from ithaca.engines.corfu.sequencing.flows.patience import Patience
from ithaca.engines.corfu.sequencing.flows.reconfiguring import reconfigured
from ithaca.engines.corfu.sequencing.limits import PATIENCE_MS, RETRY_MS, SEQUENCER_GONE_MS, UNIT_GONE_MS
from ithaca.engines.corfu.sequencing.projection import Projection


class Reached(NamedTuple):
    """A row that is written, as all before it in its epoch are, and the highest time of them."""

    epoch: int
    row: int
    time_us: int


class Knowledge:
    """Shared by all flows of a handle. It may be old, and says so by being refused."""

    def __init__(
        self,
        known: Known,
        *,
        sequencers: tuple[int, ...],
        patience_ms: int | None = None,
        now_us: Callable[[], int] = lambda: 0,
    ) -> None:
        self.known = known
        self.now_us = now_us
        """The clock, for times of rows that no sequencer gives."""
        self.reached: Reached | None = None
        """The last row that this handle knows of, in an epoch without a sequencer."""
        self.sequencers = sequencers
        """The servers that can hand out rows."""
        self.first = known.trim
        """The first position that was not trimmed, as far as anybody has said."""
        self.highest = -1
        """The highest row that a unit has shown to be written: it and all before it were taken."""
        self.patience_ms = PATIENCE_MS if patience_ms is None else patience_ms
        """For how long something is tried before the epoch is ended for it."""

    @property
    def projection(self) -> Projection:
        return self.known.projection

    @property
    def epoch(self) -> int:
        return self.known.projection.epoch

    def learn(self, answer: object) -> None:
        """Take in what Raft has answered, unless it is older."""
        if isinstance(answer, Known) and answer.projection.epoch >= self.epoch:
            self.known = answer
            self.first = max(self.first, answer.trim)

    def saw(self, answer: UnitAnswer) -> None:
        """Take in what a unit's answer says beside what it was asked for."""
        if isinstance(answer, RowHolds | RowsHold | RowTrimmed | RowLocations):
            self.first = max(self.first, answer.first)
        if isinstance(answer, RowHolds | RowsHold):
            self.highest = max(self.highest, answer.highest)

    def sequencer_after(self, sequencer: int) -> int:
        """The one that takes over from this one."""
        later = [each for each in self.sequencers if each > sequencer]
        return min(later or self.sequencers)


def fetched(knowledge: Knowledge) -> Steps[None]:
    """Learn what Raft says now."""
    while isinstance(answer := (yield AskRaft(GetProjection())), NoAnswer):
        yield Pause(RETRY_MS)
    knowledge.learn(answer)


def holds(knowledge: Knowledge, projection: Projection) -> Steps[bool]:
    """Whether this is still the epoch. What a unit or a sequencer lacked before this counts only then (invariant 3)."""
    yield from fetched(knowledge)
    return knowledge.epoch == projection.epoch


def followed(knowledge: Knowledge, projection: Projection) -> Steps[None]:
    """The epoch is sealed: learn the next one, and have it decided if whoever sealed does not."""
    patience = Patience(knowledge.patience_ms, knowledge.patience_ms)
    while True:
        yield from fetched(knowledge)
        if knowledge.epoch > projection.epoch:
            return
        pause = patience.pause(NO_ANSWER)
        if patience.is_over:
            yield from reconfigured(knowledge, projection)
        if knowledge.epoch == projection.epoch:
            yield pause


def asked(knowledge: Knowledge, projection: Projection, unit: int, call: UnitCall) -> Steps[UnitAnswer | None]:
    """What the unit answers under this epoch; None once there is a later one."""
    patience = Patience(knowledge.patience_ms, UNIT_GONE_MS)
    while knowledge.epoch == projection.epoch:
        answer = yield AskUnit(unit, call)
        match answer:
            case EpochIs(epoch, _) if epoch < projection.epoch:
                member = projection.member(unit)
                assert member is not None
                answer = yield AskUnit(unit, Install(projection.epoch, member.identity))
                if not isinstance(answer, OtherIdentity):
                    continue
            case EpochIs():
                yield from followed(knowledge, projection)
                continue
            case CallRefused():
                yield Pause(RETRY_MS)
                yield from fetched(knowledge)  # perhaps it is no longer this unit that is needed
                continue
        if not isinstance(answer, NoAnswer | OtherIdentity):
            knowledge.saw(answer)
            return answer  # type: ignore[no-any-return]
        # One that has lost its disk does not come back: nothing is waited for.
        pause = patience.pause(answer if isinstance(answer, NoAnswer) else NoAnswer(knowledge.patience_ms))
        if patience.is_over:
            yield from reconfigured(knowledge, projection, without=frozenset({unit}))
        if knowledge.epoch == projection.epoch:  # else there is nothing to wait for any more
            yield pause
            yield from fetched(knowledge)
    return None


def asked_sequencer(knowledge: Knowledge, projection: Projection, call: SequencerCall) -> Steps[SequencerAnswer | None]:
    """What the sequencer answers under this epoch; None once there is a later one."""
    patience = Patience(knowledge.patience_ms, SEQUENCER_GONE_MS)
    while knowledge.epoch == projection.epoch:
        answer = yield AskSequencer(projection.sequencer, call)
        match answer:
            case EpochIs(epoch) if epoch > projection.epoch:
                yield from followed(knowledge, projection)
                continue
            case EpochIs() | NotReady():
                patience = Patience(knowledge.patience_ms, SEQUENCER_GONE_MS)  # it is there, and settles what precedes
                pause = Pause(RETRY_MS)
            case NoAnswer() as unanswered:
                pause = patience.pause(unanswered)
            case _:
                return answer  # type: ignore[no-any-return]
        if patience.is_over:
            successor = knowledge.sequencer_after(projection.sequencer)
            yield from reconfigured(knowledge, projection, sequencer=successor)
        if knowledge.epoch == projection.epoch:
            yield pause
            yield from fetched(knowledge)
    return None
