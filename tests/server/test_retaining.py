"""The leader's retention: what a clock said while the shards were asked must still hold when they have answered.

What a leader finds too old when it begins has to wait.
"""

from collections.abc import Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ithaca.engines.scalog.messages.reading import SeekTime, TimeIs
from ithaca.engines.scalog.ordering.entries import TrimTo
from ithaca.engines.scalog.ordering.state import OrderingState
from ithaca.engines.scalog.server.orderer.retention import OrderRetention
from ithaca.engines.scalog.server.orderer.time import OrderTime
from ithaca.model.records import Retention
from ithaca.model.view import Shard
from ithaca.protocol.codec import Message

_NOW_US = 1_000_000_000


class _Clock:
    """Shows one time after the other."""

    def __init__(self, *shown_us: int) -> None:
        self._shown_us: Iterator[int] = iter(shown_us)

    def agreed_us(self) -> int:
        return next(self._shown_us)

    def read(self) -> int:
        return next(self._shown_us)


@pytest.mark.parametrize(("shown_us", "trimmed"), [(_NOW_US, [TrimTo(5)]), (_NOW_US - 60_000_000, [])])
async def test_retaining_clock_set_back(shown_us: int, trimmed: list[TrimTo], monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer(self: OrderRetention, shard: Shard, question: SeekTime) -> Message:
        return TimeIs(5)

    monkeypatch.setattr(OrderRetention, "_ask", answer)
    submitted: list[object] = []
    state = SimpleNamespace(first=0, tail=0, shards=SimpleNamespace(by_number={0: None}))
    retaining = OrderRetention(
        Retention(age=timedelta(seconds=10)),
        cast(OrderingState, state),
        cast(Any, None),
        lambda entry, *_: submitted.append(entry),
        cast(OrderTime, _Clock(_NOW_US, shown_us)),
    )
    state.tail = 10  # what was empty when the leader began has records by now
    await retaining._look()
    assert submitted == trimmed


async def test_a_leader_that_begins_trims_nothing_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However little it is, and without a warning for that: the order's time may have leapt under the leader before."""

    async def answer(self: OrderRetention, shard: Shard, question: SeekTime) -> Message:
        return TimeIs(5)

    monkeypatch.setattr(OrderRetention, "_ask", answer)
    submitted: list[object] = []
    state = SimpleNamespace(first=0, tail=1000, shards=SimpleNamespace(by_number={0: None}))
    retaining = OrderRetention(
        Retention(age=timedelta(seconds=10)),
        cast(OrderingState, state),
        cast(Any, None),
        lambda entry, *_: submitted.append(entry),
        cast(OrderTime, _Clock(_NOW_US, _NOW_US, _NOW_US)),
    )
    await retaining._look()
    assert submitted == []
    assert retaining.announced is None
    assert retaining._pace is not None
    assert retaining._pace.announced is not None, "it waits"
