"""Rows for all batches of a handle: while one request is under way, those who come wait, and go together in the next.

So a handle that has many batches under way asks in groups, as many as have come meanwhile, and one that has a single
batch asks at once.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from ithaca.engines.corfu.sequencing.calls import TakeTokens, Tokens, Want
from ithaca.engines.corfu.sequencing.limits import TOKENS_MAX
from ithaca.model.errors import ProtocolError
from ithaca.model.view import Address

Ask = Callable[[Address, TakeTokens], Awaitable[object]]

_Key = tuple[Address, int]
"""The sequencer, and the epoch that it is asked in."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    wants: Sequence[Want]
    answer: asyncio.Future[object]


class TokenRequests:
    """The requests of one handle."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._waiting: dict[_Key, list[_Waiting]] = {}
        """Who came while a request was under way; where there is no entry, none is."""
        self._tasks: set[asyncio.Task[None]] = set()

    async def take(self, address: Address, call: TakeTokens) -> object:
        """What the sequencer answers to these wants; what goes wrong is told to all that wait for it."""
        key = (address, call.epoch)
        waiting = self._waiting.get(key)
        if waiting is not None:
            answer: asyncio.Future[object] = asyncio.get_running_loop().create_future()
            waiting.append(_Waiting(call.wants, answer))
            return await answer
        self._waiting[key] = []
        try:
            tokens = await self._ask(address, call)
        except asyncio.CancelledError:
            self._go_on(key)
            raise
        except Exception as error:
            self._fail(self._waiting.pop(key), error)
            raise
        self._go_on(key)
        return tokens

    def _go_on(self, key: _Key) -> None:
        """Ask for those who have come meanwhile."""
        waiting = [each for each in self._waiting.pop(key) if not each.answer.done()]
        if waiting:
            self._waiting[key] = waiting
            task = asyncio.create_task(self._ask_together(key))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _ask_together(self, key: _Key) -> None:
        together, self._waiting[key] = _first(self._waiting[key])
        address, epoch = key
        try:
            call = TakeTokens(epoch, tuple(want for each in together for want in each.wants))
            _hand_out(await self._ask(address, call), together)
        except Exception as error:
            self._fail(together + self._waiting.pop(key), error)
        else:
            self._go_on(key)

    def _fail(self, waiting: Sequence[_Waiting], error: Exception) -> None:
        """Whoever is not reached by one request is not by the next: nobody waits for the same time-out once more."""
        for each in waiting:
            if not each.answer.done():
                each.answer.set_exception(error)


def _first(waiting: list[_Waiting]) -> tuple[list[_Waiting], list[_Waiting]]:
    """As many as fit into one request, and the others."""
    count = 0
    for place, each in enumerate(waiting):
        count += len(each.wants)
        if count > TOKENS_MAX:
            return waiting[:place], waiting[place:]
    return waiting, []


def _hand_out(answer: object, together: Sequence[_Waiting]) -> None:
    """To each its own tokens; anything else that a sequencer says is said to all."""
    count = sum(len(each.wants) for each in together)
    if isinstance(answer, Tokens) and len(answer.tokens) != count:
        raise ProtocolError(f"the sequencer answered {count} wants with {len(answer.tokens)} rows")
    first = 0
    for each in together:
        last = first + len(each.wants)
        if not each.answer.done():
            each.answer.set_result(Tokens(answer.tokens[first:last]) if isinstance(answer, Tokens) else answer)
        first = last
