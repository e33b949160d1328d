"""Machines without a log: records that were never appended, for the pure core."""

from typing import Any

import msgspec

from ithaca.model.records import Record
from ithaca.objects.encoding import encoded
from ithaca.objects.entries import Command, encode
from ithaca.objects.kind import Kind, State
from ithaca.objects.machine import Answer, Arrived, Effect, Machine, Pace
from ithaca.objects.names import command_key


class Counter:
    """The smallest state."""

    def __init__(self) -> None:
        self.value = 0
        self.seen: list[str] = []

    def add(self, amount: int) -> int:
        self.value += amount
        return self.value

    def note(self, word: str) -> None:
        self.seen.append(word)

    def fail(self, why: str) -> None:
        self.value += 100
        raise LookupError(why)


def kind_of(of: type[State], version: int = 1, accepts: tuple[int, ...] = ()) -> Kind[State]:
    return Kind(of, of, name=of.__name__, version=version, accepts=accepts)


def machine_of(
    of: type[State], origin: int = 1, *, checks: int = 0, snapshots: int = 0, version: int = 1
) -> Machine[State]:
    pace = Pace(checks, snapshots)
    return Machine(kind_of(of, version), "it", origin=origin, replica=f"replica-{origin}", pace=pace)


def record(position: int, value: bytes, time_us: int = 0) -> Record:
    return Record(position, value, command_key("it"), time_us, 0)


def command(
    position: int,
    of: type,
    method: str,
    *arguments: Any,
    origin: int = 1,
    number: int = 0,
    version: int = 1,
    time_us: int = 0,
) -> Record:
    """A command as it stands in the log."""
    raw = msgspec.Raw(encoded(arguments, "arguments"))
    return record(position, encode(Command(of.__name__, version, origin, number, method, raw)), time_us)


def play(machine: Machine[Any], *records: Record, live: bool = True) -> list[Effect]:
    covered = records[-1].position + 1 if records else machine.position
    return machine.step(Arrived(records, covered, live))


def answers(effects: list[Effect]) -> list[Any]:
    return [effect.outcome.error or effect.outcome.value for effect in effects if isinstance(effect, Answer)]
