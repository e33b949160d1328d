"""A long history that is right, to see how fast it is judged.

```
python -m tests.proof.big_history 1000000 run.jsonl && time ithaca check-history run.jsonl
```
"""

import sys
from pathlib import Path
from random import Random

from ithaca.proof.history import AnyEvent, Append, Deliver, Final, HistoryWriter, Id, Plan, Read, Sub, Tail

_SESSIONS = 16
_FOLLOWERS = 2
_FILTERED = 9


class BigHistory:
    """Sixteen sessions append, two subscriptions follow everything and one a key; reads and tails in between."""

    def __init__(self, writer: HistoryWriter) -> None:
        self._writer = writer
        self._random = Random(1)
        self._numbers = [0] * _SESSIONS
        self._held: list[Id] = []
        self.events = 0

    def write(self, event: AnyEvent) -> None:
        self._writer.write(event)
        self.events += 1

    def begin(self) -> None:
        self.write(Plan(copies=2, ok_min=1))
        for number in range(_FOLLOWERS):
            self.write(Sub(sub=number, start=1))
        self.write(Sub(sub=_FILTERED, start=1, filter="key=k1"))

    def step(self, now: int) -> None:
        """A batch, its deliveries, and sometimes a read and a tail."""
        session, count = self._random.randrange(_SESSIONS), self._random.choice((1, 1, 1, 4))
        position, first = len(self._held) + 1, self._numbers[session]
        key = f"k{session % 4}"
        self.write(Append(id=(session, first), n=count, inv=now, ret=now + 8, st="ok", pos=position, key=key))
        for row in range(count):
            self._held.append((session, first + row))
            for number in [*range(_FOLLOWERS), *([_FILTERED] if key == "k1" else [])]:
                self.write(Deliver(sub=number, ret=now + 12, pos=position + row, id=self._held[-1]))
        self._numbers[session] += count
        if self._random.random() < 0.3:
            place = self._random.randrange(len(self._held))
            self.write(Read(pos=place + 1, inv=now + 9, ret=now + 11, id=self._held[place]))
        if self._random.random() < 0.2:
            self.write(Tail(inv=now + 9, ret=now + 11, n=len(self._held) + 1))

    def end(self) -> None:
        for node in ("0/0", "0/1"):
            self.write(Final(node=node, runs=((1, tuple(self._held)),)))


def write_big_history(path: Path, events: int) -> int:
    """Write a history of about so many events; returns how many they are."""
    with HistoryWriter(path) as writer:
        history = BigHistory(writer)
        history.begin()
        now = 0
        while history.events < events:
            now += 10
            history.step(now)
        history.end()
        return history.events


if __name__ == "__main__":
    print(write_big_history(Path(sys.argv[2]), int(sys.argv[1])), "events")
