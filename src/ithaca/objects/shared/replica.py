"""The commands and queries of a replica: numbered, answered, and asked of the state that `machine` keeps."""

import logging
from collections.abc import Callable, Sequence
from threading import get_ident
from typing import Any, Generic, TypeVar

import msgspec

from ithaca.model.errors import Diverged, LogClosed, Overloaded, RecordTooLarge
from ithaca.model.limits import RECORD_BYTES_MAX
from ithaca.model.records import Record
from ithaca.objects.encoding import detached
from ithaca.objects.entries import Command, encode
from ithaca.objects.kind import Kind, State
from ithaca.objects.limits import OBJECT_PROPOSALS_MAX
from ithaca.objects.machine import Answer, Arrived, Effect, Fail, Machine, Outcome, Pace, ReadBack
from ithaca.objects.names import command_key
from ithaca.objects.settings import Settings
from ithaca.objects.shared.following import Following, Waiter
from ithaca.objects.snapshot import Snapshot
from ithaca.runtime.machine import rng

Returned = TypeVar("Returned")

_log = logging.getLogger("ithaca.objects")


class ReplicaBase(Following[Effect], Generic[State]):
    """One replica of an object, as far as nothing is waited for."""

    def _set_up(self, kind: Kind[State], settings: Settings, scratch: Kind[State] | None) -> None:
        """`scratch` makes the states of `as_of`, where the kind's own are kept somewhere."""
        self.timeout = settings.timeout_s
        self._settings = settings
        self._kind = kind
        self._scratch = scratch or kind
        self._key = command_key(self.name)
        self._origin = rng().getrandbits(63)
        self._number = 0
        self._answers: dict[int, Waiter[Outcome]] = {}
        replica = settings.replica or f"{self._origin:x}"
        self._machine: Machine[State] = Machine(
            kind, self.name, origin=self._origin, replica=replica, pace=settings.pace
        )

    def __repr__(self) -> str:
        state = "failed" if self.failure is not None else "open" if self.is_open else "not open"
        return f"<Replica {self.name!r} of {self._kind.name}, {state}, at position {self._machine.position}>"

    @property
    def position(self) -> int:
        """Everything below was applied here."""
        return self._machine.position

    @property
    def time_us(self) -> int:
        """When the last command that was applied here was proposed; 0 before the first."""
        return self._machine.time_us

    def local(self, query: Callable[[State], Returned]) -> Returned:
        """What the query returns for the state as it is here, which may be behind others. It must change nothing."""
        # As `_query`, in place: a call more would be a third of the time.
        if self.failure is not None or not self.is_open or self._holder:
            self.check()
        with self.lock:
            self._holder = get_ident()
            try:
                value: Returned = detached(query(self._machine.state))
                return value
            finally:
                self._holder = 0

    def look(self, query: Callable[[State], Returned]) -> Returned:
        """`local` without a copy, for a query that gives away nothing of the state that can change."""
        return self._query(lambda: query(self._machine.state))

    def forget(self, number: int) -> None:
        """Nobody waits for this command any more."""
        with self.lock:
            self._answers.pop(number, None)

    def _prepared(
        self, waiter: Waiter[Outcome], method: Any, arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[int, bytes]:
        """A command with its number; `waiter` is given what comes of it."""
        self.check()
        found = self._kind.method(method)
        data = msgspec.Raw(found.encode(arguments, named))
        with self.lock:
            if len(self._answers) >= OBJECT_PROPOSALS_MAX:
                raise Overloaded(
                    f"{OBJECT_PROPOSALS_MAX} commands of {self.name} wait for their results: wait for some"
                )
            self._number = number = self._number + 1
            self._answers[number] = waiter
        value = encode(Command(self._kind.name, self._kind.version, self._origin, number, found.name, data))
        if len(value) + len(self._key) > RECORD_BYTES_MAX:
            self.forget(number)
            raise RecordTooLarge(
                f"the arguments of {self._kind.name}.{found.name} take {len(data)} bytes, and a command has at most "
                f"{RECORD_BYTES_MAX}: split it, or append the large part and propose its position"
            )
        return number, value

    def _past_machine(self) -> Machine[State]:
        """For the state as it was once: nobody is answered, and nothing is kept."""
        return Machine(self._scratch, self.name, origin=0, replica="", pace=Pace())

    def _restore(self, machine: Machine[State], snapshot: Snapshot, state: State | None = None) -> None:
        snapshot.check_of(self.name, self._kind.name, f"the snapshot at position {snapshot.head.position}")
        machine.restore(snapshot, state)

    # What the machine says

    def _take(self, records: Sequence[Record], covered: int, live: bool) -> list[Effect]:
        chores: list[Effect] = []
        for effect in self._machine.step(Arrived(records, covered, live and not self._settings.read_only)):
            if isinstance(effect, Answer):
                waiter = self._answers.pop(effect.number, None)
                if waiter is not None:
                    waiter.give(effect.outcome)
            elif isinstance(effect, Fail):
                self._suspect(effect.error)
            else:
                chores.append(effect)
        return chores

    def _read_back(self, position: int, records: list[Record]) -> Sequence[Effect]:
        """The commands that the machine wanted again; what follows from them."""
        with self.lock:
            effects = self._machine.step(ReadBack(position, records))
            for effect in effects:
                if isinstance(effect, Fail):
                    self._suspect(effect.error)
        return effects

    def _suspect(self, error: BaseException) -> None:
        if self._settings.checks == "stop":
            self._fail(error)
        else:
            _log.error("%s: %s", self.name, error)

    def _fail(self, error: BaseException) -> None:
        if isinstance(self.failure, Diverged) and self.failure.position and isinstance(error, Diverged):
            return  # the first command that differed is known already
        super()._fail(error)
        answers, self._answers = self._answers, {}
        told = error if not isinstance(error, LogClosed) else _closed_early(self.name)
        for waiter in answers.values():
            waiter.fail(told)


def _closed_early(name: str) -> LogClosed:
    error = LogClosed(f"{name} was closed before the command was applied here: its outcome is unknown")
    error.outcome_unknown = True
    return error
