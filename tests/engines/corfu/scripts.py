"""What clients of the model do, as scripts over the flows themselves."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ithaca.engines.corfu.sequencing.entries import Stamp
from ithaca.engines.corfu.sequencing.flows.appending import Writer, appended
from ithaca.engines.corfu.sequencing.flows.beginning import begun
from ithaca.engines.corfu.sequencing.flows.flow import Steps
from ithaca.engines.corfu.sequencing.flows.knowledge import Knowledge, fetched
from ithaca.engines.corfu.sequencing.flows.opening import OpenedSession, opened
from ithaca.engines.corfu.sequencing.flows.placing import placed_at
from ithaca.engines.corfu.sequencing.flows.reading import read, tail
from ithaca.engines.corfu.sequencing.flows.rebuilding import rebuilt
from ithaca.engines.corfu.sequencing.flows.reconfiguring import reconfigured
from ithaca.engines.corfu.sequencing.flows.settling import settled
from ithaca.engines.corfu.sequencing.flows.stretching import stretched
from ithaca.engines.corfu.sequencing.flows.trimming import trimmed_rows
from ithaca.engines.corfu.sequencing.sequencer import Began

# What a script wants beside what flows want


@dataclass(frozen=True, slots=True)
class Begin:
    """An operation of a user begins."""

    what: str
    about: Any


@dataclass(frozen=True, slots=True)
class End:
    """It has come to this."""

    what: str
    about: Any
    result: Any


@dataclass(frozen=True, slots=True)
class AwaitTurn:
    """Goes on when Raft has this sequencer hand out rows in a new epoch; the event is what Raft knows."""

    sequencer: int


@dataclass(frozen=True, slots=True)
class BeginSequencer:
    sequencer: int
    began: Began


Script = Callable[["Handle"], Steps[None]]


@dataclass(slots=True)
class Handle:
    """What a script has: its knowledge and, if it appends, its session."""

    knowledge: Knowledge
    writer: Writer


# Scripts


def appender(*numbers: int) -> Script:
    """Appends a batch of one record under each of these numbers."""

    def script(handle: Handle) -> Steps[None]:
        for number in numbers:
            writer = handle.writer
            stamp = Stamp(writer.producer, writer.epoch, number, 1, 0)
            yield Begin("append", stamp)  # type: ignore[misc]
            result = yield from appended(handle.knowledge, writer, stamp)
            yield End("append", stamp, result)  # type: ignore[misc]
            if result is None:
                return

    return script


def writer_at(row: int) -> Script:
    """Writes a row of its own choice."""

    def script(handle: Handle) -> Steps[None]:
        stamp = Stamp(handle.writer.producer, handle.writer.epoch, 1, 1, 0)
        yield Begin("write", stamp)  # type: ignore[misc]
        result = yield from placed_at(handle.knowledge, row, stamp)
        yield End("write", (stamp, row), result)  # type: ignore[misc]

    return script


def trimmer(row: int) -> Script:
    """Lets one row go."""

    def script(handle: Handle) -> Steps[None]:
        yield from trimmed_rows(handle.knowledge, row, row + 1)

    return script


def rebuilder(handle: Handle) -> Steps[None]:
    """Has units copy what they lack, until there is nothing more."""
    yield from fetched(handle.knowledge)
    while (yield from rebuilt(handle.knowledge)):
        pass


def filler(row: int) -> Script:
    """A reader who fills: settles a row, then reads it."""

    def script(handle: Handle) -> Steps[None]:
        state = yield from settled(handle.knowledge, row)
        yield Begin("read", row)  # type: ignore[misc]
        yield End("settle", row, state)  # type: ignore[misc]
        state = yield from read(handle.knowledge, row)
        yield End("read", row, state)  # type: ignore[misc]

    return script


def reader(*rows: int) -> Script:
    def script(handle: Handle) -> Steps[None]:
        for row in rows:
            yield Begin("read", row)  # type: ignore[misc]
            state = yield from read(handle.knowledge, row)
            yield End("read", row, state)  # type: ignore[misc]

    return script


def stretch_reader(start: int, stop: int) -> Script:
    """Reads what is complete of these rows at once."""

    def script(handle: Handle) -> Steps[None]:
        yield Begin("read", start)  # type: ignore[misc]
        found = yield from stretched(handle.knowledge, start, stop, 1000)
        told = dict(found.rows)
        for row in range(start, found.up_to):
            yield End("read", row, told.get(row, "trimmed"))  # type: ignore[misc]

    return script


def tail_reader(handle: Handle) -> Steps[None]:
    yield Begin("tail", None)  # type: ignore[misc]
    row = yield from tail(handle.knowledge)
    yield End("tail", None, row)  # type: ignore[misc]


def opener(name: str) -> Script:
    """Opens a session again, and appends the batch of number 1 unless an older handle has."""

    def script(handle: Handle) -> Steps[None]:
        session = yield from opened(handle.knowledge, name)
        assert isinstance(session, OpenedSession)
        if session.next_seq == 1:
            stamp = Stamp(session.writer.producer, session.writer.epoch, 1, 1, 0)
            yield Begin("append", stamp)  # type: ignore[misc]
            result = yield from appended(handle.knowledge, session.writer, stamp)
            yield End("append", stamp, result)  # type: ignore[misc]

    return script


def sealer(*without: int, sequencer: int | None = None) -> Script:
    """Ends the epoch that it knows, without some units."""

    def script(handle: Handle) -> Steps[None]:
        knowledge = handle.knowledge
        yield from reconfigured(
            knowledge, knowledge.projection, without=frozenset(without), sequencer=sequencer, grant=4
        )

    return script


def sequencer_server(number: int) -> Script:
    """What a server does that may hand out rows."""

    def script(handle: Handle) -> Steps[None]:
        while True:
            known = yield AwaitTurn(number)  # type: ignore[misc]
            handle.knowledge.learn(known)
            began = yield from begun(handle.knowledge, number)
            if began is not None:
                yield BeginSequencer(number, began)  # type: ignore[misc]

    return script
