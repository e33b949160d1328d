"""What a handle knows of the cluster, and how it asks under one epoch.

A flow works under one projection until it is told that this one is over; then it begins again under the next. `asked`
has that in one place: whoever gets None from it looks at `knowledge.projection` again.
"""

from ithaca.engines.corfu.sequencing.calls import (
    EpochIs,
    GetProjection,
    Install,
    Known,
    NotReady,
    OtherIdentity,
    Refused,
    RowHolds,
    RowTrimmed,
    SequencerAnswer,
    SequencerCall,
    UnitAnswer,
    UnitCall,
)
from ithaca.engines.corfu.sequencing.flows.flow import AskRaft, AskSequencer, AskUnit, Lost, Pause, Steps
from ithaca.engines.corfu.sequencing.flows.reconfiguring import reconfigured
from ithaca.engines.corfu.sequencing.limits import PATIENCE_MS, RETRY_MS
from ithaca.engines.corfu.sequencing.projection import Projection


class Knowledge:
    """Shared by all flows of a handle. It may be old, and says so by being refused."""

    def __init__(self, known: Known, *, sequencers: tuple[int, ...], patience_ms: int | None = None) -> None:
        self.known = known
        self.sequencers = sequencers
        """The servers that can hand out rows."""
        self.first = known.trim
        """The first position that was not trimmed, as far as anybody has said."""
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
        if isinstance(answer, RowHolds | RowTrimmed):
            self.first = max(self.first, answer.first)

    def sequencer_after(self, sequencer: int) -> int:
        """The one that takes over from this one."""
        later = [each for each in self.sequencers if each > sequencer]
        return min(later or self.sequencers)


def fetched(knowledge: Knowledge) -> Steps[None]:
    """Learn what Raft says now."""
    while isinstance(answer := (yield AskRaft(GetProjection())), Lost):
        yield Pause(RETRY_MS)
    knowledge.learn(answer)


def holds(knowledge: Knowledge, projection: Projection) -> Steps[bool]:
    """Whether this is still the epoch. What a unit or a sequencer lacked before this counts only then (invariant 3)."""
    yield from fetched(knowledge)
    return knowledge.epoch == projection.epoch


def followed(knowledge: Knowledge, projection: Projection) -> Steps[None]:
    """The epoch is sealed: learn the next one, and have it decided if whoever sealed does not."""
    waited_ms = 0
    while True:
        yield from fetched(knowledge)
        if knowledge.epoch > projection.epoch:
            return
        waited_ms += RETRY_MS
        if waited_ms >= knowledge.patience_ms:
            yield from reconfigured(knowledge, projection)
        else:
            yield Pause(RETRY_MS)


def asked(knowledge: Knowledge, projection: Projection, unit: int, call: UnitCall) -> Steps[UnitAnswer | None]:
    """What the unit answers under this epoch; None once there is a later one."""
    waited_ms = 0
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
            case Refused():
                yield Pause(RETRY_MS)
                continue
        if not isinstance(answer, Lost | OtherIdentity):
            knowledge.saw(answer)
            return answer  # type: ignore[no-any-return]
        waited_ms += RETRY_MS + (answer.ms if isinstance(answer, Lost) else 0)
        if waited_ms >= knowledge.patience_ms:
            yield from reconfigured(knowledge, projection, without=frozenset({unit}))
        else:
            yield Pause(RETRY_MS)
            yield from fetched(knowledge)
    return None


def asked_sequencer(knowledge: Knowledge, projection: Projection, call: SequencerCall) -> Steps[SequencerAnswer | None]:
    """What the sequencer answers under this epoch; None once there is a later one."""
    waited_ms = 0
    while knowledge.epoch == projection.epoch:
        answer = yield AskSequencer(projection.sequencer, call)
        match answer:
            case EpochIs(epoch) if epoch > projection.epoch:
                yield from followed(knowledge, projection)
                continue
            case EpochIs() | NotReady():
                waited_ms = 0  # it is there, and settles what precedes
            case Lost(ms):
                waited_ms += RETRY_MS + ms
            case _:
                return answer  # type: ignore[no-any-return]
        if waited_ms >= knowledge.patience_ms:
            successor = knowledge.sequencer_after(projection.sequencer)
            yield from reconfigured(knowledge, projection, sequencer=successor)
        else:
            yield Pause(RETRY_MS)
            yield from fetched(knowledge)
    return None
