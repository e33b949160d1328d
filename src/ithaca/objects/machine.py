"""The pure core of a replica: records in, answers and chores out.

`step(event)` applies commands in the order of their positions, each once. It waits for nothing and asks nobody: what a
command may know of time and place is in its record (`context`). The shell performs the effects; their order does not
matter, but for `Fail`, behind which no answer counts.

1. A command takes effect once, at its position, on every replica alike; records below `position` are passed over.
2. What a command returns or raises is its outcome; an exception is one like any other.
3. Snapshots and checks are due by counts of commands, which are part of the state: all replicas take them alike.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeAlias
from zlib import crc32

import msgspec

from ithaca.model.errors import Diverged, IthacaError, NotEncodable, WrongObject
from ithaca.model.records import Record
from ithaca.objects.agreement import Agreement, Stretch, base_of
from ithaca.objects.context import APPLYING, Moment
from ithaca.objects.encoding import detached, encoded, ordered
from ithaca.objects.entries import Check, Command, Entry, Trace, encode, entry_of, foreign
from ithaca.objects.kind import KeepsItself, Kind, Method, State
from ithaca.objects.limits import OBJECT_CHECK_BYTES_PER_COMMAND
from ithaca.objects.snapshot import Head, Snapshot

# Events


class Arrived(NamedTuple):
    """Records of this object in the order of their positions, and up to where there are no others."""

    records: Sequence[Record]
    covered: int
    live: bool = True
    """Whether the replica has come to the present: it says nothing about what others have said long ago."""


class ReadBack(NamedTuple):
    """The records that `ReadAgain` asked for."""

    position: int
    records: Sequence[Record]


class SnapshotWanted(NamedTuple):
    """Somebody asks for one now."""


Event: TypeAlias = Arrived | ReadBack | SnapshotWanted


# Effects


class Outcome(msgspec.Struct, frozen=True):
    """What a command returned, or raised."""

    value: Any = None
    error: Exception | None = None

    def get(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.value


class Answer(NamedTuple):
    """A command of this replica was applied."""

    number: int
    outcome: Outcome


class Append(NamedTuple):
    """Tell the other replicas."""

    value: bytes


class ReadAgain(NamedTuple):
    """Read the records of `[start, position]` once more, and say `ReadBack`."""

    start: int
    position: int


class Save(NamedTuple):
    """Keep this snapshot."""

    snapshot: Snapshot


class Fail(NamedTuple):
    """This replica must not be believed any more."""

    error: IthacaError


Effect: TypeAlias = Answer | Append | ReadAgain | Save | Fail


@dataclass(frozen=True, slots=True)
class Pace:
    """How often, in commands; 0 means never."""

    check_commands: int = 0
    snapshot_commands: int = 0


class Machine(Generic[State]):
    """One replica's state, and where in the log it stands."""

    def __init__(self, kind: Kind[State], name: str, *, origin: int, replica: str, pace: Pace) -> None:
        self._kind = kind
        self._name = name
        self._origin = origin
        self._replica = replica
        self._pace = pace
        self._methods: dict[str, Method] = {}
        self._moment = Moment()
        self._agreement = Agreement(name, origin)
        self._differs_at = 0
        """The position of the first check that differed; what differs later follows from that."""
        self.state: State = kind.factory()
        self.position = 1
        """Everything below was applied."""
        self.count = 0
        """Commands that were applied since the object's beginning."""
        self.time_us = 0
        """When the last command was proposed, or one before it that says later."""
        self._next_check = pace.check_commands
        self._next_snapshot = pace.snapshot_commands
        self._stretch = Stretch(1, self._base())

    def restore(self, snapshot: Snapshot, state: State | None = None) -> None:
        """Go on from a snapshot, or from a state that keeps itself and stands where the snapshot's head says."""
        head = snapshot.head
        self._kind.check_version(head.version, f"the snapshot of {self._name} at position {head.position}")
        self.state = self._kind.decode_state(snapshot.state) if state is None else state
        self.position, self.count, self.time_us = head.position, head.count, head.time_us
        self._next_check = head.next_check if head.next_check and self._pace.check_commands else self._check_behind(0)
        self._next_snapshot = self._snapshot_behind()
        # One that starts between two checks has not seen all of what the next one is about, and cannot trace it.
        self._stretch = Stretch(self.position, None)

    def head(self) -> Head:
        """How far it has come."""
        return Head(
            self._name,
            self._kind.name,
            self._kind.version,
            self.position,
            self.count,
            self.time_us,
            self._next_check,
        )

    def kept_head(self) -> Head | None:
        """How far a state has come that keeps itself; None for all others, and at their beginning."""
        data = self.state.kept_head() if isinstance(self.state, KeepsItself) else None
        return None if data is None else Head.from_bytes(data)

    def release(self) -> None:
        """Have a state that keeps itself let go of its file."""
        if isinstance(self.state, KeepsItself):
            self.state.release()

    def step(self, event: Event) -> list[Effect]:
        """Take what has happened; say what is to be done."""
        APPLYING.moment = self._moment
        try:
            if isinstance(event, Arrived):
                return self._arrived(event)
            if isinstance(event, ReadBack):
                return self._played_again(event)
            return [self._snapshot()]
        finally:
            APPLYING.moment = None

    # Commands

    def _arrived(self, event: Arrived) -> list[Effect]:
        effects: list[Effect] = []
        self._apply(event, effects)
        self.position = max(self.position, event.covered)
        if self._kind.keeps_itself:
            assert isinstance(self.state, KeepsItself)
            self.state.keep(encode(self.head()))
        return effects

    def _apply(self, event: Arrived, effects: list[Effect]) -> None:
        # One loop, in which nothing of ours is called for a command: calls would be a third of its time.
        kind, version, origin = self._kind.name, self._kind.version, self._origin
        moment, methods, state = self._moment, self._methods, self.state
        for record in event.records:
            position = record.position
            if position < self.position:
                continue
            entry = entry_of(record)
            if entry.kind != kind:
                raise WrongObject(
                    f"{self._name!r} in this log is a {entry.kind}, as position {position} says, and not a "
                    f"{kind}: give the object another name"
                )
            if not isinstance(entry, Command):
                effects += self._heard(entry)
                self.position = position + 1
                continue
            if entry.version != version:
                self._kind.check_version(entry.version, f"the command at position {position}")
            if record.timestamp_us > self.time_us:
                self.time_us = record.timestamp_us
            moment.position, moment.time_us = position, self.time_us
            value, failure = None, None
            try:
                method = methods.get(entry.method) or self._method(entry.method)
                value = method.function(state, *method.decode(entry.arguments))
            except (MemoryError, RecursionError):
                raise  # of this process, not of the command: another replica may have had the room
            except Exception as error:
                failure = error
            self.position = position + 1
            self.count += 1
            if entry.origin == origin:
                effects.append(Answer(entry.number, Outcome(detached(value), failure)))
            if self._next_check:
                self._stretch.add(position, entry.method, _checksum(value, failure))
                if self.count >= self._next_check:
                    self._check(effects, event.live)
            if self._next_snapshot and self.count >= self._next_snapshot:
                effects.append(self._snapshot())
        failure = None  # its traceback has this frame

    def _method(self, name: str) -> Method:
        method = self._methods[name] = self._kind.method(name)
        return method

    # Checks

    def _base(self) -> bytes | None:
        if not self._pace.check_commands or self._kind.hashes_itself:
            return None
        return base_of(self._kind.encode_state(self.state))

    def _check(self, effects: list[Effect], live: bool) -> None:
        stretch, kind = self._stretch, self._kind
        stretch.state_hash, data = self._hash()
        size = 0 if data is None else len(data)
        self._next_check = self._check_behind(size)
        self._stretch = Stretch(self.position, base_of(data))
        self._agreement.closed(stretch)
        if live:
            effects.append(Append(encode(stretch.check(kind.name, kind.version, self._origin, self._replica))))

    def _check_behind(self, state_bytes: int) -> int:
        """The count at which the next check is due: a multiple, so that those meet again who counted otherwise."""
        interval = self._pace.check_commands
        if not interval:
            return 0
        while interval < state_bytes // OBJECT_CHECK_BYTES_PER_COMMAND:
            interval *= 2
        return (self.count // interval + 1) * interval

    def _hash(self) -> tuple[bytes, bytes | None]:
        """The hash of the state, and its bytes if they were needed for it."""
        if self._kind.hashes_itself:
            return self._kind.hash_state(self.state), None
        data = self._kind.encode_state(self.state)
        return self._kind.hash_state(self.state, data), data

    def _heard(self, entry: Check | Trace) -> list[Effect]:
        if entry.version != self._kind.version or not self._pace.check_commands:
            return []
        if isinstance(entry, Trace):
            found = self._agreement.told(entry) if self._differs_at in (0, entry.position) else None
            return [] if found is None else [Fail(found)]
        diverged = None if self._differs_at else self._agreement.heard(entry)
        if diverged is None:
            return []
        self._differs_at = entry.position
        effects: list[Effect] = [Fail(diverged)]
        stretch = None if diverged.position else self._agreement.wanted(entry.position)
        if stretch is not None:
            effects.append(ReadAgain(stretch.start, entry.position))
        return effects

    def _played_again(self, event: ReadBack) -> list[Effect]:
        stretch = self._agreement.wanted(event.position)
        if stretch is None:
            return []
        assert stretch.base is not None
        again = Machine(self._kind, self._name, origin=0, replica="", pace=Pace())
        again.state = self._kind.decode_state(stretch.base)
        hashes = bytearray()
        wanted = set(stretch.positions)
        for record in event.records:
            if record.position in wanted:
                if not isinstance(entry_of(record), Command):
                    raise foreign(record, "no command any more")
                again.step(Arrived((record,), record.position + 1, live=False))
                hashes += self._kind.hash_state(again.state)[:8]
        trace = Trace(self._kind.name, self._kind.version, self._origin, event.position, bytes(hashes))
        effects: list[Effect] = [Append(encode(trace))]
        found: Diverged | None = self._agreement.traced(event.position, bytes(hashes))
        if found is not None:
            effects.append(Fail(found))
        return effects

    # Snapshots

    def _snapshot(self) -> Save:
        self._next_snapshot = self._snapshot_behind()
        return Save(Snapshot(self.head(), self._kind.encode_state(self.state, checked=True)))

    def _snapshot_behind(self) -> int:
        """The count at which the next one is due; 0 when none is."""
        return self.count + self._pace.snapshot_commands if self._pace.snapshot_commands else 0


def _checksum(value: Any, error: Exception | None) -> int:
    """Of an outcome, the same on every replica; of an error its type, since words may name what differs."""
    if error is not None:
        return crc32(type(error).__qualname__.encode())
    if value is None:
        return 0
    try:
        return crc32(encoded(ordered(value), "an outcome"))
    except (NotEncodable, TypeError):
        return crc32(type(value).__qualname__.encode())


__all__ = [
    "Answer",
    "Append",
    "Arrived",
    "Effect",
    "Entry",
    "Event",
    "Fail",
    "Machine",
    "Outcome",
    "Pace",
    "ReadAgain",
    "ReadBack",
    "Save",
    "SnapshotWanted",
]
