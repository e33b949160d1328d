"""Rows are asked for together, by a handle that has many batches under way."""

import asyncio
from collections.abc import Sequence

import pytest

from ithaca.engines.corfu.client.tokens import TokenRequests
from ithaca.engines.corfu.sequencing.calls import NotReady, TakeTokens, Token, Tokens, Want
from ithaca.engines.corfu.sequencing.limits import TOKENS_MAX
from ithaca.engines.corfu.sequencing.rows import NONE
from ithaca.engines.corfu.sequencing.sequencer import Asked, Began, Reply, Sequencer
from ithaca.model.errors import ProtocolError, Unavailable
from ithaca.model.view import Address

EPOCH = 2
AT = Address("127.0.0.1", 1)


class Desk:
    """A sequencer that answers when it is let."""

    def __init__(self) -> None:
        self.sequencer: Sequencer[str] = Sequencer()
        self.sequencer.step(Began(EPOCH, 100, 1 << 16, (), 0))
        self.calls: list[TakeTokens] = []
        self.says: Exception | object | None = None
        self._lets: asyncio.Semaphore = asyncio.Semaphore(0)
        self.requests = TokenRequests(self.ask)

    async def ask(self, address: Address, call: TakeTokens) -> object:
        assert address == AT
        self.calls.append(call)
        await self._lets.acquire()
        if isinstance(self.says, Exception):
            raise self.says
        if self.says is not None:
            return self.says
        return next(each.answer for each in self.sequencer.step(Asked("c", call, 0)) if isinstance(each, Reply))

    def take(self, producer: int, count: int = 1, epoch: int = EPOCH) -> "asyncio.Task[object]":
        wants = tuple(Want(producer + place, 1, NONE) for place in range(count))
        return asyncio.ensure_future(self.requests.take(AT, TakeTokens(epoch, wants)))

    async def let(self, count: int = 1) -> None:
        """Answer so many requests, and have everybody hear it."""
        for _ in range(count):
            self._lets.release()
            for _ in range(10):
                await asyncio.sleep(0)

    @property
    def groups(self) -> Sequence[int]:
        return [len(call.wants) for call in self.calls]


def rows(answers: Sequence[object]) -> list[int]:
    assert all(isinstance(each, Tokens) for each in answers)
    return [token.row for each in answers if isinstance(each, Tokens) for token in each.tokens]


async def test_who_comes_while_a_request_is_under_way_goes_together_with_others() -> None:
    desk = Desk()
    takes = [desk.take(producer) for producer in range(5)]
    await asyncio.sleep(0)
    assert desk.groups == [1], "nobody waits for others to come"
    await desk.let(2)
    assert desk.groups == [1, 4]
    assert rows([take.result() for take in takes]) == [100, 101, 102, 103, 104]
    late = desk.take(9)
    await desk.let()
    assert rows([late.result()]) == [105]
    assert desk.groups == [1, 4, 1]


async def test_who_is_cancelled_harms_nobody() -> None:
    desk = Desk()
    first, second, third = (desk.take(producer) for producer in range(3))
    await asyncio.sleep(0)
    first.cancel()
    second.cancel()
    await desk.let()
    assert first.cancelled()
    assert second.cancelled()
    assert rows([third.result()]) == [100]
    assert desk.groups == [1, 1]


async def test_what_goes_wrong_is_told_to_all_that_wait() -> None:
    desk = Desk()
    takes = [desk.take(producer) for producer in range(3)]
    await asyncio.sleep(0)
    desk.says = Unavailable("nobody answers")
    await desk.let()
    for take in takes:
        with pytest.raises(Unavailable):
            take.result()
    assert desk.groups == [1], "they do not wait for the same once more"
    desk.says = None
    again = desk.take(1)
    await desk.let()
    assert rows([again.result()]) == [100]


async def test_what_is_said_instead_of_rows_is_said_to_all() -> None:
    desk = Desk()
    takes = [desk.take(producer) for producer in range(3)]
    await asyncio.sleep(0)
    desk.says = NotReady()
    await desk.let(2)
    assert [take.result() for take in takes] == [NotReady()] * 3


async def test_too_few_rows_are_an_error() -> None:
    desk = Desk()
    takes = [desk.take(producer) for producer in range(3)]
    await asyncio.sleep(0)
    desk.says = Tokens((Token(7, 0),))
    await desk.let(2)
    assert takes[0].result() == desk.says
    for take in takes[1:]:
        with pytest.raises(ProtocolError, match="2 wants with 1 rows"):
            take.result()


async def test_a_request_has_no_more_than_a_sequencer_takes() -> None:
    desk = Desk()
    takes = [desk.take(0), *(desk.take(1 + 400 * place, 400) for place in range(4))]
    await asyncio.sleep(0)
    await desk.let(3)
    assert desk.groups == [1, 800, 800]
    assert max(desk.groups) <= TOKENS_MAX
    assert len(set(rows([take.result() for take in takes]))) == 1601


async def test_epochs_are_asked_in_apart() -> None:
    desk = Desk()
    one, other = desk.take(1), desk.take(2, epoch=EPOCH + 1)
    await asyncio.sleep(0)
    assert [call.epoch for call in desk.calls] == [EPOCH, EPOCH + 1]
    one.cancel()
    other.cancel()
