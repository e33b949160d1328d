"""A cluster that answers flows as it is told."""

from typing import Any
from uuid import UUID

from tests.engines.corfu.test_projection_state import MEMBERS

from ithaca.engines.corfu.sequencing.calls import Install, RowWritten, Seal, UnitInstalled, UnitSealed
from ithaca.engines.corfu.sequencing.commands import FoundLog, NextEpoch
from ithaca.engines.corfu.sequencing.entries import Entry, Stamp
from ithaca.engines.corfu.sequencing.flows.flow import (
    NO_ANSWER,
    AskRaft,
    AskSequencer,
    AskUnit,
    AskUnits,
    Flow,
    NoAnswer,
    Pause,
    Steps,
)
from ithaca.engines.corfu.sequencing.flows.knowledge import Knowledge
from ithaca.engines.corfu.sequencing.state import ProjectionState

REFUSED = NoAnswer(is_refused=True)
ENTRY = Entry(Stamp(7, 1, 1, 1, 9), 5)


class Played:
    """A cluster that answers as it is told, and how long the flow has waited."""

    def __init__(self, units: dict[int, Any] | None = None, sequencer: Any = NO_ANSWER) -> None:
        self.raft = ProjectionState()
        self.raft.apply(1, FoundLog(UUID(int=9), MEMBERS, ((1, 2), (3, 4)), 1, 100))
        known = self.raft.known
        assert known is not None
        self.knowledge = Knowledge(known, sequencers=(1, 2))
        self.units = units or {}
        self.sequencer = sequencer
        self.waited_ms = 0
        self.effects: list[Any] = []

    def run(self, steps: Steps[Any]) -> Any:
        """What comes of it."""
        flow, event = Flow(steps), None
        while True:
            effect: Any = flow.step(event)[0]
            if flow.is_done:
                return effect.result
            self.effects.append(effect)
            event = self._event(effect)

    def _event(self, effect: Any) -> Any:
        match effect:
            case Pause(ms):
                self.waited_ms += ms
                return None
            case AskUnit(unit, call):
                return self._unit(unit, call)
            case AskUnits(calls):
                return tuple(self._unit(unit, call) for unit, call in calls)
            case AskSequencer():
                return self.sequencer
            case AskRaft(NextEpoch() as command):
                return self.raft.apply(self.raft.index + 1, command)
            case _:
                return self.raft.known

    def _unit(self, unit: int, call: Any) -> Any:
        told = self.units.get(unit)
        if told is not None:
            return told(self) if callable(told) else told
        if isinstance(call, Seal):
            return UnitSealed(call.epoch, 3, 5)
        return UnitInstalled() if isinstance(call, Install) else RowWritten()
