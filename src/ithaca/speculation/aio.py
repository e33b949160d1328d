"""Speculative tasks, awaited: the same names as `ithaca.speculation`. The functions of a task are coroutines."""

from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Any, Generic, Protocol, Self

from ithaca.model.arguments import function
from ithaca.model.interface.awaited import Speculation
from ithaca.model.records import KeyFilter, Record, Start
from ithaca.speculation.flow import Apply, Flow, Publish, Take, Undo, check_task, task_failed, task_flow, undo_flow
from ithaca.speculation.ledger import Applied, Ledger, State


class Speculating(Protocol):
    """A log that delivers records before their places are final."""

    def speculate(self, start: Start = "latest", *, where: KeyFilter | None = None) -> Speculation:
        """Records from `start` on as soon as they are durable, and later whether their places are final."""


class Results(AsyncIterator[tuple[Record, State]], Generic[State]):
    """Confirmed records, each with what `apply` returned for it; also a context manager, which undoes what is left.

    A record counts as published when the next one is asked for, and when the context is left without an error.
    """

    def __init__(
        self,
        speculation: Speculation,
        apply: Callable[[Record], Awaitable[State]],
        undo: Callable[[Record, State], Awaitable[object]],
        stop: int | None,
    ) -> None:
        self._speculation = speculation
        self._apply = apply
        self._undo = undo
        self._stop = stop
        self._begun: tuple[Ledger[State], Flow[State]] | None = None
        """From when it is known where the speculation begins."""
        self._closed = False

    @property
    def position(self) -> int:
        """Everything below was published, or holds nothing for this task: start here again."""
        return self._speculation.position if self._begun is None else self._begun[0].position

    async def __anext__(self) -> tuple[Record, State]:
        _, flow = await self._begin()
        found = await self._drive(flow)
        if found is None:
            raise StopAsyncIteration
        return found

    async def close(self, *, published: bool = True) -> None:
        """Undo what is not published, newest first, and stop. Idempotent.

        `published`: whether the record that was given last counts as such.
        """
        if self._closed:
            return
        self._closed = True
        try:
            if self._begun is not None:
                ledger, flow = self._begun
                flow.close()
                ledger.give_up(published=published)
                await self._drive(undo_flow(ledger))
        finally:
            await self._speculation.close()

    async def __aenter__(self) -> Self:
        await self._begin()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self.close(published=kind is None)

    async def _begin(self) -> tuple[Ledger[State], Flow[State]]:
        if self._begun is None:
            await self._speculation.__aenter__()
            ledger: Ledger[State] = Ledger(self._speculation.position)
            self._begun = ledger, task_flow(ledger, self._stop)
        return self._begun

    async def _drive(self, flow: Flow[State]) -> Applied[State] | None:
        """Do what the flow says, until something is to be published or it ends."""
        reply: Any = None
        while True:
            try:
                step = flow.send(reply)
            except StopIteration:
                return None
            match step:
                case Publish(applied):
                    return applied
                case Take():
                    reply = await self._speculation.take()
                case Apply(record):
                    reply = await self._do(step, self._apply, record)
                case Undo(applied):
                    reply = await self._do(step, self._undo, *applied)

    async def _do(self, step: Apply | Undo[State], function: Callable[..., Awaitable[Any]], *arguments: Any) -> Any:
        try:
            return await function(*arguments)
        except Exception as error:
            if isinstance(step, Undo) and self._begun is not None:
                self._begun[0].forget()
            await self.close(published=False)
            raise task_failed(step, self.position) from error


def results(
    log: Speculating,
    apply: Callable[[Record], Awaitable[State]],
    undo: Callable[[Record, State], Awaitable[object]],
    *,
    start: Start = "earliest",
    stop: int | None = None,
    where: KeyFilter | None = None,
) -> Results[State]:
    """Apply records as they are delivered, and iterate over those that are confirmed; enter its context first."""
    check_task(log, apply, undo, stop)
    return Results(log.speculate(start, where=where), apply, undo, stop)


async def run(
    log: Speculating,
    apply: Callable[[Record], Awaitable[State]],
    undo: Callable[[Record, State], Awaitable[object]],
    publish: Callable[[Record, State], Awaitable[object]],
    *,
    start: Start = "earliest",
    stop: int | None = None,
    where: KeyFilter | None = None,
) -> int:
    """Apply records as they are delivered, publish each once it is confirmed; returns where to start again."""
    function(publish, "publish")
    async with results(log, apply, undo, start=start, stop=stop, where=where) as confirmed:
        async for record, state in confirmed:
            try:
                await publish(record, state)
            except Exception as error:
                await confirmed.close(published=False)
                raise task_failed(Publish(Applied(record, state)), confirmed.position) from error
        return confirmed.position
