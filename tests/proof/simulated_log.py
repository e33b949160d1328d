"""A log that is right by construction, one operation after the other, and the history that its clients would write.

Every operation takes effect at an instant of its own, and is called some time before and returns some time after, so
that operations overlap as those of concurrent clients do.
"""

from random import Random
from typing import Any

from ithaca.proof.history import (
    AnyEvent,
    Append,
    Confirm,
    Deliver,
    Fail,
    Fault,
    Final,
    First,
    Hole,
    Id,
    Mark,
    Outcome,
    Plan,
    Publish,
    Range,
    Read,
    Spec,
    Sub,
    Tail,
    Trim,
)
from ithaca.wire.keys import hash_key

KEYS = ("red", "reddish", "blue")
FILTERS = (None, None, "key=red", "prefix=red", "key=none", f"hash=0:{1 << 63}", f"hash={1 << 63}:{1 << 64}")
CLOCK_US = 5_000_000
"""What the clock of the order is ahead of the history's."""


class SimulatedLog:
    """What is at each position, and what has been written down."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.events: list[AnyEvent] = []
        self.held: list[Id | Hole] = []
        self.keys: dict[Id, str | None] = {}
        self.times_us: dict[Id, int] = {}
        self.ordered_us: list[int] = []
        """When each position was ordered, by the clock of the order."""
        self.numbers = [0] * 4
        self.first = 1
        self.now = 100

    @property
    def tail(self) -> int:
        return len(self.held) + 1

    def around(self) -> tuple[int, int]:
        """The next instant, and a call and a return around it."""
        self.now += 10_000
        return self.now - self.random.randrange(40_000), self.now + self.random.randrange(40_000)

    def append(self) -> None:
        """A batch that is acknowledged, or of which the outcome stays unknown, or that fails."""
        random = self.random
        inv, ret = self.around()
        session, count = random.randrange(4), random.choice((1, 1, 2, 5))
        first = (session, self.numbers[session])
        outcome = random.choice(("ok", "ok", "ok", "retried", "info", "nothing", "fail"))
        key = random.choice((None, *KEYS))
        time_us = random.randrange(1 << 40)
        if outcome == "retried":
            tried = (time_us, time_us)
            self.events.append(Append(id=first, n=count, inv=inv - 5, ret=inv, st="info", key=key, ts=tried))
            time_us += random.choice((0, 7))  # of the attempt that was not the one
            outcome = "ok"
        position = self.tail
        if outcome in ("ok", "info"):
            self._put(session, count, key, time_us)
        st: Outcome = "ok" if outcome == "ok" else "fail" if outcome == "fail" else "info"
        pos = position if st == "ok" else None
        told = {"shard": session % 2} if st == "ok" else {}
        bounds = (time_us - random.randrange(3), time_us + random.randrange(3))
        self.events.append(Append(id=first, n=count, inv=inv, ret=ret, st=st, pos=pos, key=key, ts=bounds, **told))
        self.numbers[session] = first[1] + count

    def _put(self, session: int, count: int, key: str | None, time_us: int) -> None:
        first = self.numbers[session]
        for number in range(first, first + count):
            self.held.append((session, number))
            self.keys[session, number] = key
            self.times_us[session, number] = time_us
            self._ordered()

    def _ordered(self) -> None:
        self.ordered_us.append(CLOCK_US + self.now // 1000)

    def told(self, record: Id) -> dict[str, Any]:
        """What comes with a record."""
        return {"key": self.keys[record], "ts": self.times_us[record], "shard": record[0] % 2}

    def publish(self) -> None:
        """Two parts of two sessions, published together."""
        inv, ret = self.around()
        position, parts = self.tail, []
        for session in self.random.sample(range(4), 2):
            parts.append((session, self.numbers[session], 2))
            self._put(session, 2, None, 9)
            self.numbers[session] += 2
        shards = tuple(session % 2 for session, _, _ in parts)
        self.events.append(
            Publish(key="set", parts=tuple(parts), inv=inv, ret=ret, st="ok", pos=position, shards=shards)
        )

    def read(self) -> None:
        """A position that holds something, was trimmed, or is not written yet."""
        inv, ret = self.around()
        position = self.random.randrange(1, self.tail + 2)
        found: object = self.held[position - 1] if position < self.tail else None
        if position < self.first:
            found = "trimmed"
        told = self.told(found) if isinstance(found, tuple) and self.random.random() < 0.8 else {}
        self.events.append(Read(pos=position, inv=inv, ret=ret, id=found, **told))  # type: ignore[arg-type]

    def read_range(self) -> None:
        """Everything between two positions, or what a filter selects of it."""
        inv, ret = self.around()
        start = self.random.randrange(self.first, self.tail + 1)
        stop = self.random.randrange(start, self.tail + 1)
        wanted = self.random.choice(FILTERS)
        found = self.selected(start, stop, wanted)
        told = [self.told(item) for _, item in found]
        keys, times = tuple(each["key"] for each in told), tuple(each["ts"] for each in told)
        shards = tuple(each["shard"] for each in told)
        self.events.append(Range(inv, ret, start, stop, wanted, tuple(found), keys, times, shards))

    def selected(self, start: int, stop: int, wanted: str | None) -> list[tuple[int, Id]]:
        held = enumerate(self.held[start - 1 : stop - 1], start)
        return [(at, item) for at, item in held if isinstance(item, tuple) and selects(wanted, self.keys[item])]

    def ask_first(self) -> None:
        inv, ret = self.around()
        self.events.append(First(inv=inv, ret=ret, n=self.first))

    def ask_tail(self) -> None:
        inv, ret = self.around()
        self.events.append(Tail(inv=inv, ret=ret, n=self.tail))

    def trim(self) -> None:
        """Give up the first few."""
        inv, ret = self.around()
        self.first = self.random.randrange(self.first, min(self.first + 4, self.tail) + 1)
        if self.random.random() < 0.5:
            self.events.append(Trim(inv=inv, ret=None, before=self.first))
        self.events.append(Trim(inv=inv, ret=ret, before=self.first))

    def noop(self) -> None:
        """A hole."""
        self.held.append("noop")
        self._ordered()

    def subscribe(self, number: int) -> None:
        """A subscription that has come to some position, by and by."""
        wanted = self.random.choice(FILTERS)
        inv, ret = self.around()
        at_us = CLOCK_US + self.random.randrange(self.now // 1000 + 20)
        later = (at for at, time_us in enumerate(self.ordered_us, 1) if time_us >= at_us)
        start = max(self.first, next(later, self.tail))
        if self.random.random() < 0.5:
            start = self.random.randrange(self.first, self.tail + 1)
            self.events.append(Sub(sub=number, start=start, filter=wanted, inv=inv, ret=ret))
        else:
            self.events.append(Sub(sub=number, start=start, filter=wanted, inv=inv, ret=ret, at=at_us))
        reached = start
        for position, found in self.selected(start, self.random.randrange(start, self.tail + 1), wanted):
            if self.random.random() < 0.2:
                reached = self.random.randrange(reached, position + 1)
                self.events.append(Mark(sub=number, t=self.around()[1], up_to=reached))
            told = self.told(found)
            self.events.append(Deliver(sub=number, ret=self.around()[1], pos=position, id=found, **told))
            reached = position + 1
        self.events.append(Mark(sub=number, t=self.around()[1], up_to=reached))

    def speculate(self, number: int) -> None:
        """A subscription whose first attempt goes wrong half-way, and whose second does not."""
        self.events.append(Sub(sub=number, start=self.first))
        half = self.random.randrange(self.first, self.tail + 1)
        wrong = (0, self.numbers[0])  # of an append that is never done
        for position in range(self.first, self.tail):
            self._guess(number, position, 1, wrong if position >= half else None)
        self._confirm(number, self.first, half - 1, 1)
        self.events.append(Fail(sub=number, t=self.around()[1], lo=half, att=1))
        for position in range(half, self.tail):
            self._guess(number, position, 2, None)
        self._confirm(number, half, self.tail - 1, 2)
        self.events.append(Append(id=wrong, n=1, inv=0, ret=0, st="info"))
        self.numbers[0] += 1

    def _guess(self, number: int, position: int, attempt: int, wrong: Id | None) -> None:
        found = wrong or self.held[position - 1]
        if isinstance(found, tuple):
            self.events.append(Spec(sub=number, t=self.around()[1], pos=position, id=found, att=attempt))

    def _confirm(self, number: int, lo: int, hi: int, attempt: int) -> None:
        if lo <= hi:
            self.events.append(Confirm(sub=number, t=self.around()[1], lo=lo, hi=hi, att=attempt))

    def history(self) -> list[AnyEvent]:
        """Everything, with the dumps of three replicas; what was trimmed is still there, or not."""
        plan = Plan(copies=3, ok_min=0, faults={"kill": 1}, clock_us=(CLOCK_US - 3, CLOCK_US + 3))
        dumps = []
        for node in ("0/0", "0/1", "0/2"):
            start = self.random.randrange(1, self.first + 1)
            middle = self.random.randrange(start, self.tail + 1)
            runs = (start, tuple(self.held[start - 1 : middle - 1])), (middle, tuple(self.held[middle - 1 :]))
            dumps.append(Final(node=node, runs=runs))
        return [plan, Fault(t=5, what="kill replica 0/1"), *self.events, *dumps]


def selects(wanted: str | None, key: str | None) -> bool:
    if wanted is None:
        return True
    kind, _, text = wanted.partition("=")
    if key is None:
        return False
    if kind == "hash":
        low, high = map(int, text.split(":"))
        return low <= hash_key(key.encode()) < high
    return key == text if kind == "key" else key.startswith(text)


def simulated(random: Random, operations: int) -> SimulatedLog:
    """A log after some operations, with a few subscriptions."""
    log = SimulatedLog(random)
    every_day = (*[log.append] * 3, *[log.read] * 2, log.ask_tail, log.ask_first, log.read_range)
    for _ in range(operations):
        rare = random.random() < 0.1
        random.choice((log.publish, log.trim, log.noop) if rare else every_day)()
    for number in range(5):
        log.subscribe(number)
    log.speculate(5)
    return log
