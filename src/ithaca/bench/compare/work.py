"""What the processes of a comparison are asked to do, and what they answer: the same for every system.

A client is made in the process that uses it, by a factory that can be sent there. It appends within a turn, fills a log
to be read, and reads it from the start or at places of its own choice.
"""

import os
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Literal, Self

import numpy as np

from ithaca.bench.bare import values_of
from ithaca.bench.cluster.producers import Counted, Turn
from ithaca.model.errors import DeadlineExceeded

DRAIN_S = 30.0
"""So long the answers of a paced turn may take that come after its end."""
PLACES_MAX = 4096
"""Records that random reads choose from."""


@dataclass(frozen=True, slots=True)
class Pace:
    """An open loop: so many batches a second are due from the turn's start on, whatever was answered meanwhile.

    A batch takes from when it was due until it is acknowledged, so that one that waits for a slow one before it does
    not seem quick (coordinated omission).
    """

    turn: Turn
    batches_per_s: float


@dataclass(frozen=True, slots=True)
class Fill:
    """Append `records` records to be read, in batches of the plan's size."""

    record_bytes: int
    batch: int
    records: int


@dataclass(frozen=True, slots=True)
class Filled:
    """What is there to be read: from where on, how many, and where some of them are. Only the system's clients know
    what `start` and `places` mean.
    """

    records: int
    record_bytes: int
    start: Any
    places: Sequence[Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class ReadAll:
    """Read everything that was filled, from its start."""

    filled: Filled
    start_s: float


@dataclass(frozen=True, slots=True)
class ReadSome:
    """Read single records at random places until the turn is over."""

    filled: Filled
    start_s: float
    stop_s: float
    seed: int


@dataclass(frozen=True, slots=True)
class Read:
    """How many records came, from when until when; `durations` of the single ones, as doubles in seconds."""

    records: int
    start_s: float
    end_s: float
    durations: bytes = b""


class Client(ABC):
    """A program that uses a system, as its users would write it in Python."""

    @abstractmethod
    def append(self, turn: Turn, values: list[list[bytes]]) -> Counted:
        """Append batches, as many in flight as the plan says, and wait for the oldest."""

    @abstractmethod
    def pace(self, pace: Pace, values: list[list[bytes]]) -> Counted:
        """Append batches when they are due."""

    @abstractmethod
    def fill(self, fill: Fill, values: list[list[bytes]]) -> Filled:
        """Append what is read later."""

    @abstractmethod
    def read_all(self, filled: Filled) -> int:
        """Read every record as bytes, from the start; how many there were."""

    @abstractmethod
    def read_one(self, filled: Filled, place: Any) -> int:
        """Read one record; its length."""

    @abstractmethod
    def close(self) -> None: ...

    def read(self, request: ReadAll | ReadSome) -> Read:
        """Everything from the start on, or single records at random places."""
        durations: list[float] = []
        time.sleep(max(0.0, request.start_s - time.monotonic()))
        start_s = now = time.monotonic()
        if isinstance(request, ReadAll):
            return Read(self.read_all(request.filled), start_s, time.monotonic())
        rng = random.Random(request.seed)
        while now < request.stop_s:
            length = self.read_one(request.filled, rng.choice(request.filled.places))
            assert length == request.filled.record_bytes, length
            then, now = now, time.monotonic()
            durations.append(now - then)
        return Read(len(durations), start_s, now, np.asarray(durations).tobytes())

    @property
    def pids(self) -> Sequence[int]:
        """Other processes that work for this client."""
        return ()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


Role = Literal["append", "read"]
Connect = Callable[[Role], AbstractContextManager[Client]]
"""Makes a client in the process that uses it; can be sent there."""


def work(parent: Connection, connect: Connect, role: Role, record_bytes: int, batch: int) -> None:
    """A client's process: does what it is asked until the parent is gone."""
    values = values_of(record_bytes, batch)
    with connect(role) as client:
        parent.send([os.getpid(), *client.pids])
        while True:
            match parent.recv():
                case Turn() as turn:
                    parent.send(client.append(turn, values))
                case Pace() as pace:
                    parent.send(client.pace(pace, values))
                case Fill() as fill:
                    parent.send(client.fill(fill, values))
                case ReadAll() | ReadSome() as request:
                    parent.send(client.read(request))


def append_when_due(
    pace: Pace,
    values: list[list[bytes]],
    begin: Callable[[list[bytes], Callable[[], object]], object],
    wait: Callable[[float], object] = time.sleep,
) -> Counted:
    """Begin every batch when it is due; `begin` calls what it is given when the batch is acknowledged.

    `wait` is how the client waits: some must be driven meanwhile.
    """
    turn, durations = pace.turn, list[float]()
    due_s, sent = turn.start_s, 0
    while due_s < turn.stop_s:
        while (rest_s := due_s - time.monotonic()) > 0:
            wait(rest_s)
        begin(values[sent % len(values)], partial(_note, durations, due_s))
        sent += 1
        due_s = turn.start_s + sent / pace.batches_per_s
    give_up_s = time.monotonic() + DRAIN_S
    while len(durations) < sent:
        if time.monotonic() > give_up_s:
            raise DeadlineExceeded(
                f"{sent - len(durations)} of {sent} appends were not answered within {DRAIN_S:.0f} s"
            )
        wait(0.01)
    return Counted(np.asarray(durations).tobytes(), turn.stop_s)


def _note(durations: list[float], due_s: float) -> None:
    durations.append(time.monotonic() - due_s)


def evenly(places: Sequence[Any]) -> list[Any]:
    """At most `PLACES_MAX` of them, from all over the log.

    >>> evenly([4, 8, 15])
    [4, 8, 15]
    """
    step = -(-len(places) // PLACES_MAX)
    return list(places[:: max(1, step)])
