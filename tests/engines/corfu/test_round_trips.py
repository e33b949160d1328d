"""What is not asked, since the answer is known."""

import pytest
from msgspec import structs
from tests.engines.corfu.played import ENTRY, REFUSED, Played

from ithaca.engines.corfu.sequencing.calls import (
    GetTail,
    GetTrims,
    Read,
    RowHolds,
    RowsTrimmed,
    RowTrimmed,
    RowUnwritten,
    TailReply,
    TakeTrims,
    TrimsAre,
    UnitSealed,
    Write,
)
from ithaca.engines.corfu.sequencing.commands import Joined
from ithaca.engines.corfu.sequencing.entries import JUNK
from ithaca.engines.corfu.sequencing.flows.flow import AskRaft, AskSequencer, AskUnit
from ithaca.engines.corfu.sequencing.flows.knowledge import asked_sequencer
from ithaca.engines.corfu.sequencing.flows.reading import tail
from ithaca.engines.corfu.sequencing.flows.reconfiguring import reconfigured
from ithaca.engines.corfu.sequencing.flows.settling import settled
from ithaca.engines.corfu.sequencing.placed import PlacedBatch


def test_that_a_row_was_taken_needs_no_proof() -> None:
    played = Played(sequencer=TailReply(5))
    assert played.run(tail(played.knowledge, 4)) == 5
    assert played.effects == [AskSequencer(1, GetTail(1))]
    played.effects.clear()
    assert played.run(tail(played.knowledge, 5)) == 5
    assert [type(each) for each in played.effects] == [AskSequencer, AskRaft]


def test_rows_of_closed_ranges_were_taken() -> None:
    played = Played(sequencer=REFUSED)
    played.run(asked_sequencer(played.knowledge, played.knowledge.projection, GetTail(1)))
    played.effects.clear()
    assert played.run(tail(played.knowledge, 4)) == played.knowledge.projection.start
    assert played.effects == []


def test_a_row_that_is_trimmed_while_it_is_settled_is_trimmed() -> None:
    """Somebody else met the trim first, and made junk of the row at the last unit, which had not heard of the trim."""

    def head(played: Played) -> object:
        asked = [each for each in played.effects if isinstance(each, AskUnit) and each.unit == 1]
        return RowHolds(ENTRY) if len(asked) == 1 else RowTrimmed(5)

    played = Played({1: head, 2: RowHolds(JUNK)})
    assert played.run(settled(played.knowledge, 0)) == "trimmed"
    assert played.effects == [
        AskUnit(1, Write(1, 0, JUNK)),
        AskUnit(2, Write(1, 0, ENTRY)),
        AskUnit(1, Read(1, 0)),
    ]
    played = Played({1: RowHolds(ENTRY), 2: RowHolds(JUNK)})
    with pytest.raises(AssertionError, match="the units of row 0"):
        played.run(settled(played.knowledge, 0))


def test_a_head_that_was_read_is_not_asked_again() -> None:
    played = Played({1: RowHolds(ENTRY)})
    assert played.run(settled(played.knowledge, 0, may_junk=False)) == ENTRY
    assert played.effects == [AskUnit(1, Read(1, 0)), AskUnit(2, Write(1, 0, ENTRY))]
    played = Played({1: RowUnwritten()})
    assert played.run(settled(played.knowledge, 0, may_junk=False)) == "unwritten"


def test_a_unit_is_told_of_batches_in_rows_that_are_settled_alone() -> None:
    """In others its source may be the head of their chain: when that dies, they become junk."""
    batches = tuple(PlacedBatch(number, 1, row, 1, 9) for number, row in enumerate((2, 3, 4, 5), 1))

    def answer(played: Played) -> object:
        match played.effects[-1]:
            case AskUnit(call=GetTrims()):
                return TrimsAre(0, (), 0, ((7, batches), (8, batches[2:])))
            case AskUnit(call=TakeTrims()):
                return RowsTrimmed()
        return UnitSealed(1, 5, 5)

    played = Played(dict.fromkeys((1, 2, 3, 4), answer))
    projection = structs.replace(played.knowledge.projection, settled=4)
    played.run(reconfigured(played.knowledge, projection, joined=(Joined(0, 0, 3, 0),)))
    told = [each.call for each in played.effects if isinstance(each, AskUnit) and isinstance(each.call, TakeTrims)]
    assert [each.placed for each in told] == [((7, batches[:2]),)]
