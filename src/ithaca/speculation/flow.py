"""The loop of a speculative task, written once: it says what to do next, and whoever drives it does so.

`tasks` drives it by calling, `aio` by awaiting.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, Generic

from ithaca.model.arguments import function, is_integer
from ithaca.model.errors import InvalidInput, TaskFailed, UndoFailed
from ithaca.model.records import Record
from ithaca.model.speculation import Confirmed, Delivered, Failed, SpeculativeEvent
from ithaca.speculation.ledger import Applied, Ledger, State


@dataclass(frozen=True, slots=True)
class Take:
    """Wait for events, and send them back; none: it is over."""


@dataclass(frozen=True, slots=True)
class Apply:
    """Apply the record, and send back what undoes it."""

    record: Record


@dataclass(frozen=True, slots=True)
class Undo(Generic[State]):
    """Take back what was applied."""

    applied: Applied[State]


@dataclass(frozen=True, slots=True)
class Publish(Generic[State]):
    """Hand out what is final; go on when it is published."""

    applied: Applied[State]


Step = Take | Apply | Undo[State] | Publish[State]
Flow = Generator[Step[State], Any, None]


def task_flow(ledger: Ledger[State], stop: int | None) -> Flow[State]:
    """What a task does, until everything below `stop` is published or no more events come."""
    while stop is None or ledger.position < stop:
        events: Sequence[SpeculativeEvent] = yield Take()
        if not events:
            return
        for event in events:
            match event:
                case Delivered(record, _):
                    if stop is None or record.position < stop:
                        ledger.add(record, (yield Apply(record)))
                case Confirmed(up_to):
                    ledger.confirm(up_to)
                    while (ready := ledger.ready()) is not None:
                        yield Publish(ready)
                        ledger.publish()
                case Failed(after):
                    ledger.fail(after)
                    yield from undo_flow(ledger)


def undo_flow(ledger: Ledger[State]) -> Flow[State]:
    """Take back what failed, newest first."""
    while (taken := ledger.take_undone()) is not None:
        yield Undo(taken)


def task_failed(step: Apply | Undo[State] | Publish[State], position: int) -> TaskFailed:
    """What to raise when the function for this step did, and where to start again."""
    if isinstance(step, Undo):
        at = step.applied.record.position
        return UndoFailed(
            f"undo raised for the record at position {at}: the task's state holds changes that were never confirmed; "
            f"build it again from what was published, everything below {position}",
            position=position,
            step="undo",
        )
    name, record = ("apply", step.record) if isinstance(step, Apply) else ("publish", step.applied.record)
    return TaskFailed(
        f"{name} raised for the record at position {record.position}; what was not published is undone: "
        f"start again at {position}",
        position=position,
        step=name,
    )


def check_task(log: object, apply: object, undo: object, stop: int | None) -> None:
    """Raise unless a task can be made of these."""
    if not callable(getattr(log, "speculate", None)):
        raise InvalidInput(f"log is {log!r}: use a log of connect, of a cluster whose engine delivers before")
    function(apply, "apply")
    function(undo, "undo")
    check_stop(stop)


def check_stop(stop: int | None) -> None:
    """Raise unless this can be the end of a task."""
    if stop is not None and not (is_integer(stop) and stop >= 1):
        raise InvalidInput(f"a task cannot stop at {stop!r}: give a position from 1 on, or None to go on for ever")
