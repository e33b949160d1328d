"""Speculative tasks for callers that wait."""

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Generic, Protocol, Self

from ithaca.model.arguments import function
from ithaca.model.interface import Speculation
from ithaca.model.records import KeyFilter, Record, Start
from ithaca.speculation.flow import Apply, Flow, Publish, Take, Undo, check_task, task_failed, task_flow, undo_flow
from ithaca.speculation.ledger import Applied, Ledger, State


class Speculating(Protocol):
    """A log that delivers records before their places are final."""

    def speculate(self, start: Start = "latest", *, where: KeyFilter | None = None) -> Speculation:
        """Records from `start` on as soon as they are durable, and later whether their places are final."""


class Results(Iterator[tuple[Record, State]], Generic[State]):
    """Confirmed records, each with what `apply` returned for it; also a context manager, which undoes what is left.

    A record counts as published when the next one is asked for, and when the context is left without an error.
    """

    def __init__(
        self,
        speculation: Speculation,
        apply: Callable[[Record], State],
        undo: Callable[[Record, State], object],
        stop: int | None,
    ) -> None:
        self._speculation = speculation
        self._apply = apply
        self._undo = undo
        self._ledger: Ledger[State] = Ledger(speculation.position)
        self._flow: Flow[State] = task_flow(self._ledger, stop)
        self._closed = False

    @property
    def position(self) -> int:
        """Everything below was published, or holds nothing for this task: start here again."""
        return self._ledger.position

    def __next__(self) -> tuple[Record, State]:
        found = self._drive(self._flow)
        if found is None:
            raise StopIteration
        return found

    def close(self, *, published: bool = True) -> None:
        """Undo what is not published, newest first, and stop. Idempotent.

        `published`: whether the record that was given last counts as such.
        """
        if self._closed:
            return
        self._closed = True
        self._flow.close()
        self._ledger.give_up(published=published)
        try:
            self._drive(undo_flow(self._ledger))
        finally:
            self._speculation.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close(published=kind is None)

    def _drive(self, flow: Flow[State]) -> Applied[State] | None:
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
                    reply = self._speculation.take()
                case Apply(record):
                    reply = self._do(step, self._apply, record)
                case Undo(applied):
                    reply = self._do(step, self._undo, *applied)

    def _do(self, step: Apply | Undo[State], function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except Exception as error:
            if isinstance(step, Undo):
                self._ledger.forget()
            self.close(published=False)
            raise task_failed(step, self.position) from error


def results(
    log: Speculating,
    apply: Callable[[Record], State],
    undo: Callable[[Record, State], object],
    *,
    start: Start = "earliest",
    stop: int | None = None,
    where: KeyFilter | None = None,
) -> Results[State]:
    """Apply records as they are delivered, and iterate over those that are confirmed.

    `apply(record)` gives what `undo(record, state)` needs to take it back. With `stop` the iteration ends when all
    below that position is confirmed; without, it goes on for ever.

    >>> def shown(log: Speculating, balances: dict[bytes | None, int]) -> None:
    ...     def apply(record: Record) -> int:
    ...         before = balances.get(record.key, 0)
    ...         balances[record.key] = before + int(record.value)
    ...         return before
    ...
    ...     def undo(record: Record, before: int) -> None:
    ...         balances[record.key] = before
    ...
    ...     with results(log, apply, undo) as confirmed:
    ...         for record, before in confirmed:
    ...             print(record.key, before, record.value)
    """
    check_task(log, apply, undo, stop)
    return Results(log.speculate(start, where=where), apply, undo, stop)


def run(
    log: Speculating,
    apply: Callable[[Record], State],
    undo: Callable[[Record, State], object],
    publish: Callable[[Record, State], object],
    *,
    start: Start = "earliest",
    stop: int | None = None,
    where: KeyFilter | None = None,
) -> int:
    """Apply records as they are delivered, publish each once it is confirmed; returns where to start again.

    `publish(record, state)` is called in the order of positions, once for each record. When one of the functions
    raises, everything that was not published is undone, and `TaskFailed` says where to start again; `UndoFailed` when
    it is the undo. It returns at `stop`. A handle that is closed meanwhile raises `LogClosed`, and what was not
    published is undone.

    >>> def copied(log: Speculating, rows: list[Record]) -> int:
    ...     def undo(record: Record, at: int) -> None:
    ...         del rows[at]
    ...
    ...     def apply(record: Record) -> int:
    ...         rows.append(record)
    ...         return len(rows) - 1
    ...
    ...     return run(log, apply, undo, lambda record, at: print("final:", record.position), stop=log.tail())
    """
    function(publish, "publish")
    with results(log, apply, undo, start=start, stop=stop, where=where) as confirmed:
        for record, state in confirmed:
            try:
                publish(record, state)
            except Exception as error:
                confirmed.close(published=False)
                raise task_failed(Publish(Applied(record, state)), confirmed.position) from error
        return confirmed.position
