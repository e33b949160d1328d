"""Looks over the shoulders of units and sequencers: what can be judged only in the moment of a call."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from ithaca.engines.corfu.sequencing.calls import TakeTokens, Token, Tokens, UnitSealed, Write
from ithaca.engines.corfu.sequencing.rows import NONE
from ithaca.engines.corfu.sequencing.sequencer import Asked as SequencerAsked
from ithaca.engines.corfu.sequencing.sequencer import Reply as SequencerReply
from ithaca.engines.corfu.sequencing.sequencer import Sequencer
from ithaca.engines.corfu.sequencing.unit import Asked, Change, EpochChange, Persist, Reply, RowChange, Unit
from ithaca.engines.corfu.storage.unit_store import UnitStore
from ithaca.sim.corfu.invariants import Invariants
from ithaca.sim.corfu.row_times import RowTimes
from ithaca.sim.corfu.rows import AllRows
from ithaca.sim.rules.witness import seen
from ithaca.sim.violation import Violation
from ithaca.sim.world import World

_WHOEVER = -1
"""In the place of a producer: all who name a row themselves get it, and the head decides."""


class Witness:
    """What was seen of units and sequencers in one run."""

    def __init__(self, world: World, rows: AllRows, times: RowTimes, invariants: Invariants) -> None:
        self._world = world
        self._rows = rows
        self._times = times
        self._invariants = invariants
        self._given: dict[int, tuple[int, int]] = {}
        """Whom each row was given to: producer, and epoch of the sequencer."""

    def watched(self) -> AbstractContextManager[None]:
        """Look on while this lasts."""
        return seen(
            [
                (UnitStore, "noted", self.noted),
                (Unit, "step", self.unit_steps),
                (Sequencer, "step", self.sequencer_steps),
            ]
        )

    def noted(
        self, original: Callable[..., None], store: UnitStore, changes: Sequence[Change], lsns: Sequence[int]
    ) -> None:
        """A unit's changes are on its disk."""
        original(store, changes, lsns)
        projection = self._invariants.projection

        def look() -> None:
            for change in changes:
                if isinstance(change, RowChange) and change.entry.stamp is not None:
                    self._times.wrote_first(change.row, change.entry.time_us)
                if isinstance(change, EpochChange) and change.is_sealed:
                    self._invariants.sealed(change.epoch)
                self._rows.noted(store.identity, change, projection)

        self._judged(look)

    def unit_steps(self, original: Callable[..., Sequence[Any]], unit: Unit[Any], event: Any) -> Sequence[Any]:
        """Nothing of an epoch is accepted once it is sealed, and a seal is answered when all before it is synced."""
        was_sealed, epoch = unit.is_sealed, unit.epoch
        effects = original(unit, event)
        for effect in effects:
            match effect:
                case Persist(_, RowChange(row)):
                    call = event.call if isinstance(event, Asked) else None
                    if not isinstance(call, Write) or call.epoch != epoch or was_sealed:
                        self._world.accuse("sealed", f"row {row} is written in epoch {epoch} by {call}")
                case Reply(_, UnitSealed(sealed, highest)):
                    has = max(self._rows.unit(unit.identity).rows, default=NONE)
                    if unit.writes and unit.epoch == sealed:
                        self._world.accuse("sealed", f"epoch {sealed} is said to be sealed, and a row is still written")
                    if highest < has:
                        self._world.accuse("sealed", f"{highest} is said to be the highest row, and {has} is there")
        return effects

    def sequencer_steps(
        self, original: Callable[..., Sequence[Any]], sequencer: Sequencer[Any], event: Any
    ) -> Sequence[Any]:
        """No row is given twice."""
        calls = {id(asked.caller): asked.call for asked in sequencer.kept.values()}
        if isinstance(event, SequencerAsked):
            calls[id(event.caller)] = event.call
        effects = original(sequencer, event)
        for effect in effects:
            if isinstance(effect, SequencerReply) and isinstance(effect.answer, Tokens):
                self._gave_all(effect.answer.tokens, calls[id(effect.caller)])
        return effects

    def _gave_all(self, tokens: Sequence[Token], call: Any) -> None:
        wants = call.wants if isinstance(call, TakeTokens) else ()
        producers = [want.producer for want in wants] or [_WHOEVER]
        for token, producer in zip(tokens, producers, strict=True):
            if token.row != NONE:
                self._gave(token.row, token.time_us, producer, call.epoch)

    def _gave(self, row: int, time_us: int, producer: int, epoch: int) -> None:
        known = self._given.get(row)
        if known is None:
            self._given[row] = producer, epoch
            self._times.gave(row, time_us)
        elif known != (producer, epoch):
            self._world.accuse("once-given", f"row {row} is given to {known}, and to {(producer, epoch)}")

    def _judged(self, look: Callable[[], None]) -> None:
        """What is wrong ends the run, and not the process that is looked at."""
        try:
            look()
        except Violation as violation:
            self._world.accuse(violation.rule, str(violation))
