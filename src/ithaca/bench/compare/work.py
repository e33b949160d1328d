"""What the processes of a comparison are asked to do, and what they answer: the same for every system.

A client is made in the process that uses it, by a factory that can be sent there. It appends within a turn, fills a log
to be read, reads it from the start or at places of its own choice, follows what others append, and gives up everything
that is there, so that the disk is free for the next workload.
"""

import os
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Final, Literal, Self

import numpy as np

from ithaca.bench.bare import values_of
from ithaca.bench.cluster.producers import Counted, Turn
from ithaca.bench.compare.open_loop import STAMP, Pace
from ithaca.model.errors import Unsupported

PLACES_MAX = 4096
"""Records that random reads choose from."""
FOLLOWING: Final = "following"
CLEARED: Final = "cleared"


@dataclass(frozen=True, slots=True)
class Appended:
    """Records that were acknowledged within a turn, and how long each batch took that was, as doubles in seconds.

    Where a batch is nothing but records one after the other, some of an unfinished one count.
    """

    records: int
    durations: bytes

    @classmethod
    def whole(cls, turn: Turn, counted: Counted) -> "Appended":
        """Batches that are acknowledged as a whole."""
        return cls(len(np.frombuffer(counted.durations)) * turn.plan.batch, counted.durations)


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
class Follow:
    """Receive what is appended from now on, until so many stamped records have come."""

    records: int


@dataclass(frozen=True, slots=True)
class Clear:
    """Give up everything that was appended."""


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
    def append(self, turn: Turn, values: list[list[bytes]]) -> Appended:
        """Append batches, as many in flight as the plan says, and wait for the oldest."""

    @abstractmethod
    def pace(self, pace: Pace, values: list[list[bytes]]) -> Counted:
        """Append batches when they are due; all of them are acknowledged, else it raises."""

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
    def clear(self) -> None:
        """Give up everything that was appended, so that its space is free soon."""

    @abstractmethod
    def close(self) -> None: ...

    def subscription(self) -> AbstractContextManager[Iterator[bytes]]:
        """The values that are appended from now on, as they arrive; it raises when none arrives for long."""
        raise Unsupported(f"{type(self).__name__} has no subscription")

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

    def follow(self, request: Follow, ready: Callable[[], object]) -> Read:
        """How long each record took from when it was due to be appended until its value was here."""
        durations: list[float] = []
        with self.subscription() as values:
            ready()
            start_s = time.monotonic()
            for value in values:
                [due_s] = STAMP.unpack_from(value)
                durations.append(time.monotonic() - due_s)
                if len(durations) == request.records:
                    break
        return Read(len(durations), start_s, time.monotonic(), np.asarray(durations).tobytes())

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
                case Follow() as follow:
                    parent.send(client.follow(follow, lambda: parent.send(FOLLOWING)))
                case Clear():
                    client.clear()
                    parent.send(CLEARED)


def evenly(places: Sequence[Any]) -> list[Any]:
    """At most `PLACES_MAX` of them, from all over the log.

    >>> evenly([4, 8, 15])
    [4, 8, 15]
    """
    step = -(-len(places) // PLACES_MAX)
    return list(places[:: max(1, step)])
