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
    SequencerAnswer,
    SequencerCall,
    UnitAnswer,
    UnitCall,
)
from ithaca.engines.corfu.sequencing.flows.flow import LOST, AskRaft, AskSequencer, AskUnit, Pause, Steps
from ithaca.engines.corfu.sequencing.flows.reconfiguring import reconfigured
from ithaca.engines.corfu.sequencing.limits import PATIENCE_MS, RETRY_MS
from ithaca.engines.corfu.sequencing.projection import Projection


class Knowledge:
    """Shared by all flows of a handle. It may be old, and says so by being refused."""

    def __init__(self, known: Known, *, sequencers: tuple[int, ...], patience: int = PATIENCE_MS // RETRY_MS) -> None:
        self.known = known
        self.sequencers = sequencers
        """The servers that can hand out rows."""
        self.patience = patience
        """How often something is tried before the epoch is ended for it."""

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

    def sequencer_after(self, sequencer: int) -> int:
        """The one that takes over from this one."""
        later = [each for each in self.sequencers if each > sequencer]
        return min(later or self.sequencers)


def fetched(knowledge: Knowledge) -> Steps[None]:
    """Learn what Raft says now."""
    while (answer := (yield AskRaft(GetProjection()))) is LOST:
        yield Pause(RETRY_MS)
    knowledge.learn(answer)


def holds(knowledge: Knowledge, projection: Projection) -> Steps[bool]:
    """Whether this is still the epoch. What a unit or a sequencer lacked before this counts only then (invariant 3)."""
    yield from fetched(knowledge)
    return knowledge.epoch == projection.epoch


def followed(knowledge: Knowledge, projection: Projection) -> Steps[None]:
    """The epoch is sealed: learn the next one, and have it decided if whoever sealed does not."""
    tries = 0
    while True:
        yield from fetched(knowledge)
        if knowledge.epoch > projection.epoch:
            return
        tries += 1
        if tries >= knowledge.patience:
            yield from reconfigured(knowledge, projection)
        else:
            yield Pause(RETRY_MS)


def asked(knowledge: Knowledge, projection: Projection, unit: int, call: UnitCall) -> Steps[UnitAnswer | None]:
    """What the unit answers under this epoch; None once there is a later one."""
    tries = 0
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
        if answer is not LOST and not isinstance(answer, OtherIdentity):
            return answer  # type: ignore[no-any-return]
        tries += 1
        if tries >= knowledge.patience:
            yield from reconfigured(knowledge, projection, without=frozenset({unit}))
        else:
            yield Pause(RETRY_MS)
            yield from fetched(knowledge)
    return None


def asked_sequencer(knowledge: Knowledge, projection: Projection, call: SequencerCall) -> Steps[SequencerAnswer | None]:
    """What the sequencer answers under this epoch; None once there is a later one."""
    tries = 0
    while knowledge.epoch == projection.epoch:
        answer = yield AskSequencer(projection.sequencer, call)
        match answer:
            case EpochIs(epoch) if epoch > projection.epoch:
                yield from followed(knowledge, projection)
                continue
            case EpochIs() | NotReady():
                tries = 0  # it is there, and settles what precedes
            case _ if answer is LOST:
                tries += 1
            case _:
                return answer  # type: ignore[no-any-return]
        if tries >= knowledge.patience:
            successor = knowledge.sequencer_after(projection.sequencer)
            yield from reconfigured(knowledge, projection, sequencer=successor)
        else:
            yield Pause(RETRY_MS)
            yield from fetched(knowledge)
    return None
