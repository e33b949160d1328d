"""Batches that are appended when they are due, whatever was answered meanwhile, and what their values tell a reader.

A batch takes from when it was due until it is acknowledged, so that one that waits for a slow one before it does not
seem quick (coordinated omission). A stamped value begins with when it was due, 8 bytes: a double, little endian, in
seconds of the monotonic clock, which all processes of a machine share.
"""

import math
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from ithaca.bench.cluster.producers import Counted, Turn
from ithaca.model.errors import DeadlineExceeded, Unavailable

DRAIN_S: Final = 30.0
"""So long the answers of a turn may take that come after its end."""
STAMP: Final = struct.Struct("<d")

Done = Callable[[str | None], object]
"""Called when a batch is answered: None where it was acknowledged, else why it was refused."""


@dataclass(frozen=True, slots=True)
class Pace:
    """An open loop: so many batches a second are due from the turn's start on; `stamped` ones say when they were."""

    turn: Turn
    batches_per_s: float
    stamped: bool = False

    @property
    def count(self) -> int:
        """Batches that are due within the turn.

        >>> from ithaca.bench.cluster.producers import Plan
        >>> Pace(Turn(Plan(1, 1, 1), 5.0, 5.1), 50.0).count
        5
        """
        return math.ceil(round((self.turn.stop_s - self.turn.start_s) * self.batches_per_s, 3))

    def due_s(self, number: int) -> float:
        return self.turn.start_s + number / self.batches_per_s

    def batch(self, values: list[list[bytes]], number: int) -> list[bytes]:
        """What is appended as this batch."""
        batch = values[number % len(values)]
        if not self.stamped:
            return batch
        stamp = STAMP.pack(self.due_s(number))
        return [stamp + value[STAMP.size :] for value in batch]


class Answers:
    """What became of the batches; it may be told by other threads."""

    def __init__(self, expected: int) -> None:
        self._expected = expected
        self._durations: list[float] = []
        self._refused: list[str] = []
        self._lock = threading.Lock()

    def done(self, due_s: float, why_refused: str | None) -> None:
        took_s = time.monotonic() - due_s
        with self._lock:
            if why_refused is None:
                self._durations.append(took_s)
            else:
                self._refused.append(why_refused)

    @property
    def missing(self) -> int:
        return self._expected - len(self._durations) - len(self._refused)

    def counted(self, end_s: float) -> Counted:
        """All of them were acknowledged, or an error says what happened instead."""
        if self._refused:
            raise Unavailable(f"{len(self._refused)} of {self._expected} appends were refused: {self._refused[0]}")
        if self.missing:
            raise DeadlineExceeded(
                f"{self.missing} of {self._expected} appends were not answered within {DRAIN_S:.0f} s"
            )
        return Counted(np.asarray(self._durations).tobytes(), end_s)


def append_when_due(
    pace: Pace,
    values: list[list[bytes]],
    begin: Callable[[list[bytes], Done], object],
    wait: Callable[[float], object] = time.sleep,
) -> Counted:
    """Begin every batch when it is due; `begin` calls what it is given when the batch is answered.

    `wait` is how the client waits: some must be driven meanwhile.
    """
    answers = Answers(pace.count)
    for number in range(pace.count):
        due_s = pace.due_s(number)
        while (rest_s := due_s - time.monotonic()) > 0:
            wait(rest_s)
        begin(pace.batch(values, number), partial(answers.done, due_s))
    give_up_s = time.monotonic() + DRAIN_S
    while answers.missing and time.monotonic() < give_up_s:
        wait(0.01)
    return answers.counted(pace.turn.stop_s)
