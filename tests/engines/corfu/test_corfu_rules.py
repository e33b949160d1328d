"""Each rule of the protocol is needed: without it the model finds a run that breaks what must hold.

The rules marked † are those of the design that repaired one which broke.
"""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tests.engines.corfu.model import Model
from tests.engines.corfu.scripts import appender, filler, opener, reader, sealer, tail_reader

from ithaca.engines.corfu.sequencing import state, unit
from ithaca.engines.corfu.sequencing.calls import Read, RowHolds, Token, UnitSealed, Write
from ithaca.engines.corfu.sequencing.commands import Settled
from ithaca.engines.corfu.sequencing.entries import JUNK
from ithaca.engines.corfu.sequencing.flows import appending, beginning, opening, reading, settling
from ithaca.engines.corfu.sequencing.flows.flow import Steps
from ithaca.engines.corfu.sequencing.flows.knowledge import asked
from ithaca.engines.corfu.sequencing.rows import NONE
from ithaca.engines.corfu.sequencing.sequencer import Sequencer
from ithaca.engines.corfu.sequencing.unit import Unit

Patch = pytest.MonkeyPatch


def _always(value: Any) -> Callable[..., Steps[Any]]:
    """A flow that says this without asking anybody."""

    def flow(*_: Any, **__: Any) -> Steps[Any]:
        return value
        yield

    return flow


def takes_a_new_row_after_a_seal_at_once(patch: Patch) -> Model:
    """† The old row is settled under the new epoch first, and compared."""
    patch.setattr(appending, "settled", _always("unwritten"))
    return Model([appender(1), filler(0), sealer()])


def takes_a_settled_row_for_its_own(patch: Patch) -> Model:
    """† …and compared: what the row holds may be junk."""
    settled = settling.settled

    def blind(knowledge: Any, row: int, *, own: Any = None) -> Steps[Any]:
        yield from settled(knowledge, row, own=own)
        return own

    patch.setattr(appending, "settled", blind)
    return Model([appender(1), filler(0)])


def new_sequencer_starts_behind_the_highest_row(patch: Patch) -> Model:
    """† A new sequencer starts at the bound: rows that the old one gave away are not given again."""
    followed = state._followed
    patch.setattr(
        state, "_followed", lambda projection, command, bound: followed(projection, command, command.highest + 1)
    )
    return Model(
        [appender(1), tail_reader, tail_reader, sealer(sequencer=2)], sequencers=(1, 2), cut=frozenset({(0, 1)})
    )


def sequencer_answers_before_all_is_settled(patch: Patch) -> Model:
    """† A new sequencer answers nothing until everything below its start is settled."""
    patch.setattr(beginning, "_settled_range", _always(True))
    return Model(
        [appender(1), opener("s"), sealer(sequencer=2)], sessions=("s",), producers={0: (1, 1)}, sequencers=(1, 2)
    )


def sequencer_forgets_whom_to_fence(patch: Patch) -> Model:
    """A new sequencer knows from Raft which handles are fenced."""
    patch.setattr(Sequencer, "_begin", _without_fences(Sequencer._begin))
    return Model(
        [appender(1), opener("s"), sealer(sequencer=2)], sessions=("s",), producers={0: (1, 1)}, sequencers=(1, 2)
    )


def _without_fences(begin: Any) -> Any:
    def forgetful(self: Any, began: Any) -> Any:
        effects = begin(self, began)
        self._fences.clear()
        return effects

    return forgetful


def sequencer_goes_on_in_its_epoch_after_a_restart(patch: Patch) -> Model:
    """† Rows are never given twice: a sequencer begins once in an epoch."""
    apply = state.ProjectionState.apply

    def unaware(self: Any, index: int, command: Any) -> Any:
        outcome = apply(self, index, command)
        if self.projection is not None:
            self.projection = msgspec.structs.replace(self.projection, is_begun=False)
        return self.known if isinstance(command, Settled) else outcome

    patch.setattr(state.ProjectionState, "apply", unaware)
    return Model([appender(1), tail_reader], restarts=1)


def unwritten_is_believed(patch: Patch) -> Model:
    """(3) What a unit lacks counts only if Raft still has its epoch."""
    patch.setattr(reading, "holds", _always(True))
    return Model([appender(1), reader(8), sealer(2)], cut=frozenset({(2, 2)}))


def tail_is_believed(patch: Patch) -> Model:
    """(5) The same for the sequencer's tail."""
    patch.setattr(reading, "holds", _always(True))
    return Model([appender(1), tail_reader, sealer(sequencer=2)], sequencers=(1, 2))


def fills_from_the_end(patch: Patch) -> Model:
    """(1) A row's bytes are decided at the head of its chain."""

    def reversed_chain(knowledge: Any, projection: Any, row: int, own: Any, head: Any) -> Steps[Any]:
        entry: Any = JUNK
        for number in reversed(projection.chain(row)):
            answer = yield from asked(knowledge, projection, number, Write(projection.epoch, row, entry))
            if answer is None:
                return None
            if isinstance(answer, RowHolds):
                entry = answer.entry
        return entry

    patch.setattr(settling, "_passed", reversed_chain)
    return Model([appender(1), filler(0)])


def acknowledges_behind_the_head(patch: Patch) -> Model:
    """(2) Complete means on the whole chain."""

    def hasty(knowledge: Any, projection: Any, row: int, entry: Any) -> Steps[Any]:
        yield from asked(knowledge, projection, projection.chain(row)[0], Write(projection.epoch, row, entry))
        return entry

    patch.setattr(appending, "written", hasty)
    return Model([appender(1), reader(0)])


def reads_at_the_head(patch: Patch) -> Model:
    """(2) Only what is complete is read: what the head alone has goes with it."""

    def early(knowledge: Any, row: int) -> Steps[Any]:
        projection = knowledge.projection
        answer = yield from asked(knowledge, projection, projection.chain(row)[0], Read(projection.epoch, row))
        return answer.entry if isinstance(answer, RowHolds) else "unwritten"

    patch.setattr("tests.engines.corfu.scripts.read", early)
    return Model([appender(1), reader(0), sealer(1)], cut=frozenset({(2, 1)}))


def units_take_any_epoch(patch: Patch) -> Model:
    """(3) Nothing of an epoch is written once it is sealed."""
    answer = Unit._answer

    def careless(self: Any, caller: Any, call: Any) -> Any:
        if not isinstance(call, Write | Read):
            return answer(self, caller, call)
        epoch, is_sealed = self.epoch, self.is_sealed
        self.epoch, self.is_sealed = call.epoch, False
        effects = answer(self, caller, call)
        self.epoch, self.is_sealed = epoch, is_sealed
        return effects

    patch.setattr(Unit, "_answer", careless)
    return Model([appender(1), appender(1), sealer(sequencer=2)], sequencers=(1, 2))


def seal_does_not_tell_the_highest_row(patch: Patch) -> Model:
    """(2) What is complete lies at or below the highest row that was sealed."""
    patch.setattr(
        Unit, "_sealed_now", lambda self, effect: unit.Reply(effect.caller, UnitSealed(effect.answer.epoch, NONE, 0))
    )
    return Model([appender(1), reader(0), sealer()])


def raft_takes_every_projection(patch: Patch) -> Model:
    """(4) Each projection follows one."""
    following = state.ProjectionState._next

    def any_epoch(self: Any, projection: Any, command: Any) -> Any:
        return following(self, projection, msgspec.structs.replace(command, epoch=projection.epoch))

    patch.setattr(state.ProjectionState, "_next", any_epoch)
    return Model([appender(1), sealer(), sealer()], atomic=frozenset({1}))


def filler_does_not_look_who_won(patch: Patch) -> Model:
    """(6) A fill or the late writer: one of them wins, everywhere."""

    def blind(knowledge: Any, projection: Any, row: int, own: Any, head: Any) -> Steps[Any]:
        for number in projection.chain(row):
            answer = yield from asked(knowledge, projection, number, Write(projection.epoch, row, JUNK))
            if answer is None:
                return None
        return JUNK

    patch.setattr(settling, "_passed", blind)
    return Model([appender(1), filler(0)])


def units_overwrite(patch: Patch) -> Model:
    """(6) Rows are written once."""
    write = Unit._write

    def again(self: Any, caller: Any, call: Any) -> Any:
        self._held.pop(call.row, None)
        return write(self, caller, call)

    patch.setattr(Unit, "_write", again)
    return Model([appender(1), filler(0)])


def fence_does_not_hold(patch: Patch) -> Model:
    """(7) An older handle gets no more rows."""
    token = Sequencer._token

    def generous(self: Any, want: Any, now_us: int) -> Token:
        self._fences.clear()
        if want.producer in self._sessions:
            self._sessions[want.producer].epoch = 0
        return token(self, want, now_us)

    patch.setattr(Sequencer, "_token", generous)
    return Model([appender(1), opener("s")], sessions=("s",), producers={0: (1, 1)})


def open_row_is_not_settled(patch: Patch) -> Model:
    """(7) …and the one that it may still write is settled."""
    patch.setattr(opening, "settled", _always("unwritten"))
    return Model([appender(1), opener("s")], sessions=("s",), producers={0: (1, 1)})


def others_batch_is_taken_for_ours(patch: Patch) -> Model:
    """(7) A row that somebody else has is not ours."""

    def trusting(knowledge: Any, projection: Any, row: int, entry: Any) -> Steps[Any]:
        for number in projection.chain(row):
            answer = yield from asked(knowledge, projection, number, Write(projection.epoch, row, entry))
            if answer is None:
                return (yield from settling.settled(knowledge, row, own=entry))
        return entry

    patch.setattr(appending, "written", trusting)
    return Model([appender(1), filler(0)])


RULES = [
    takes_a_new_row_after_a_seal_at_once,
    takes_a_settled_row_for_its_own,
    new_sequencer_starts_behind_the_highest_row,
    sequencer_answers_before_all_is_settled,
    sequencer_forgets_whom_to_fence,
    sequencer_goes_on_in_its_epoch_after_a_restart,
    unwritten_is_believed,
    tail_is_believed,
    fills_from_the_end,
    acknowledges_behind_the_head,
    reads_at_the_head,
    units_take_any_epoch,
    seal_does_not_tell_the_highest_row,
    raft_takes_every_projection,
    filler_does_not_look_who_won,
    units_overwrite,
    fence_does_not_hold,
    open_row_is_not_settled,
    others_batch_is_taken_for_ours,
]


@pytest.mark.parametrize("without", RULES, ids=lambda rule: rule.__name__)
def test_without_this_rule_something_breaks(without: Callable[[Patch], Model], monkeypatch: Patch) -> None:
    model = without(monkeypatch)
    with pytest.raises(AssertionError, match=r"row|tail|units"):
        model.explore()
