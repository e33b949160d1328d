"""For how long servers are waited for that are silent, and those that are gone."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.engines.corfu.played import ENTRY, REFUSED, Played

from ithaca.engines.corfu.client.driving import Driver
from ithaca.engines.corfu.client.links import Links
from ithaca.engines.corfu.sequencing.calls import GetTail, Known, RowWritten, UnitSealed, Write
from ithaca.engines.corfu.sequencing.flows.flow import NO_ANSWER, AskSequencer, NoAnswer, Steps
from ithaca.engines.corfu.sequencing.flows.knowledge import Knowledge, asked, asked_sequencer
from ithaca.engines.corfu.sequencing.limits import PATIENCE_MS, UNIT_GONE_MS
from ithaca.model.view import Address


def test_a_sequencer_whose_process_is_gone_is_replaced_at_once() -> None:
    played = Played(sequencer=REFUSED)
    assert played.run(asked_sequencer(played.knowledge, played.knowledge.projection, GetTail(1))) is None
    assert (played.knowledge.epoch, played.knowledge.projection.sequencer) == (2, 2)
    assert played.waited_ms == 0


def test_a_silent_sequencer_is_waited_for() -> None:
    played = Played(sequencer=NO_ANSWER)
    assert played.run(asked_sequencer(played.knowledge, played.knowledge.projection, GetTail(1))) is None
    assert PATIENCE_MS * 0.9 <= played.waited_ms <= PATIENCE_MS


@pytest.mark.parametrize(("lost", "patience_ms"), [(REFUSED, UNIT_GONE_MS), (NO_ANSWER, PATIENCE_MS)])
def test_a_unit_whose_process_is_gone_may_be_started_again(lost: NoAnswer, patience_ms: int) -> None:
    played = Played({1: lost})
    assert played.run(asked(played.knowledge, played.knowledge.projection, 1, Write(1, 0, ENTRY))) is None
    assert [unit.number for unit in played.knowledge.projection.units] == [2, 3, 4]
    assert patience_ms * 0.6 <= played.waited_ms <= patience_ms


def test_a_unit_that_comes_back_in_time_stays() -> None:
    played = Played({1: lambda it: REFUSED if it.waited_ms < UNIT_GONE_MS / 2 else RowWritten()})
    answer = played.run(asked(played.knowledge, played.knowledge.projection, 1, Write(1, 0, ENTRY)))
    assert (answer, played.knowledge.epoch) == (RowWritten(), 1)


def sealed_after(ms: int) -> Callable[[Played], Any]:
    return lambda it: REFUSED if it.waited_ms < ms else UnitSealed(1, 3, 5)


@pytest.mark.parametrize(("back_ms", "units"), [(UNIT_GONE_MS / 2, [1, 2, 3, 4]), (UNIT_GONE_MS * 2, [1, 2, 3])])
def test_whoever_ends_an_epoch_waits_for_units_that_are_being_started(back_ms: int, units: list[int]) -> None:
    played = Played({4: sealed_after(back_ms)}, sequencer=REFUSED)
    played.run(asked_sequencer(played.knowledge, played.knowledge.projection, GetTail(1)))
    assert [unit.number for unit in played.knowledge.projection.units] == units


def test_a_silent_unit_holds_up_nobody_who_ends_an_epoch() -> None:
    played = Played({4: NO_ANSWER}, sequencer=REFUSED)
    played.run(asked_sequencer(played.knowledge, played.knowledge.projection, GetTail(1)))
    assert [unit.number for unit in played.knowledge.projection.units] == [1, 2, 3]
    assert played.waited_ms == 0


def test_a_refused_connection_is_told_from_silence(unused_tcp_port: int) -> None:
    async def run() -> object:
        address = Address("127.0.0.1", unused_tcp_port)
        known = Played().knowledge.known
        links = Links([address])
        driver = Driver(links, Knowledge(_at(known, address), sequencers=(1,)))
        try:
            return await driver.run(_asking(1))
        finally:
            links.close()

    found = asyncio.run(run())
    assert isinstance(found, NoAnswer)
    assert found.is_refused


def _at(known: Known, address: Address) -> Known:
    return Known(known.projection, known.bound, known.trim, sequencers=((1, address),))


def _asking(sequencer: int) -> Steps[object]:
    answer: object = yield AskSequencer(sequencer, GetTail(1))
    return answer
