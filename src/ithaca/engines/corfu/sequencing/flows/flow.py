"""Flows: what they may want, and how they are driven."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from ithaca.engines.corfu.sequencing.calls import GetProjection, SequencerCall, UnitCall
from ithaca.engines.corfu.sequencing.commands import Command, GetSession, GetSessions

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AskUnit:
    """Wants the answer of a unit, or `NoAnswer`."""

    unit: int
    call: UnitCall


@dataclass(frozen=True, slots=True)
class AskUnits:
    """Wants the answers of several at once: a tuple in this order, with `NoAnswer` for those that are late."""

    asked: tuple[tuple[int, UnitCall], ...]


@dataclass(frozen=True, slots=True)
class AskSequencer:
    sequencer: int
    call: SequencerCall


@dataclass(frozen=True, slots=True)
class AskRaft:
    """Wants an entry applied, or a read behind everything that was decided."""

    call: Command | GetProjection | GetSession | GetSessions


@dataclass(frozen=True, slots=True)
class Pause:
    """Wants to go on after a while; the event is None."""

    ms: int


@dataclass(frozen=True, slots=True)
class Done(Generic[T]):
    """The flow has come to its end."""

    result: T


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """No answer: whoever was asked may have done it or not."""

    ms: int = 0
    """How long it was waited for."""
    is_refused: bool = False
    """Whether nobody listens there: no process does, at the moment."""


NO_ANSWER: Final = NoAnswer()

Effect = AskUnit | AskUnits | AskSequencer | AskRaft | Pause
Steps = Generator[Effect, Any, T]
"""Yields an effect, is sent the event that answers it."""


class Flow(Generic[T]):
    """One flow under way: one effect is outstanding at a time."""

    def __init__(self, steps: Steps[T]) -> None:
        self.steps = steps
        self.is_done = False

    def step(self, event: object = None) -> Sequence[Effect | Done[T]]:
        """What it wants next; the first event is None."""
        assert not self.is_done, "the flow has come to its end"
        try:
            return [self.steps.send(event)]
        except StopIteration as stop:
            self.is_done = True
            return [Done(stop.value)]
