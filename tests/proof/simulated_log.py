"""A log that is right by construction, one operation after the other, and the history that its clients would write.

Every operation takes effect at an instant of its own, and is called some time before and returns some time after, so
that operations overlap as those of concurrent clients do.
"""

from random import Random

from ithaca.proof.history import (
    AnyEvent,
    Append,
    Confirm,
    Deliver,
    Fail,
    Fault,
    Final,
    Hole,
    Id,
    Outcome,
    Plan,
    Publish,
    Read,
    Spec,
    Sub,
    Tail,
    Trim,
)

KEYS = ("red", "reddish", "blue")


class SimulatedLog:
    """What is at each position, and what has been written down."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.events: list[AnyEvent] = []
        self.held: list[Id | Hole] = []
        self.keys: dict[Id, str | None] = {}
        self.numbers = [0] * 4
        self.first = 1
        self.now = 100

    @property
    def tail(self) -> int:
        return len(self.held) + 1

    def around(self) -> tuple[int, int]:
        """The next instant, and a call and a return around it."""
        self.now += 10
        return self.now - self.random.randrange(40), self.now + self.random.randrange(40)

    def append(self) -> None:
        """A batch that is acknowledged, or of which the outcome stays unknown, or that fails."""
        random = self.random
        inv, ret = self.around()
        session, count = random.randrange(4), random.choice((1, 1, 2, 5))
        first = (session, self.numbers[session])
        outcome = random.choice(("ok", "ok", "ok", "retried", "info", "nothing", "fail"))
        key = random.choice((None, *KEYS))
        if outcome == "retried":
            self.events.append(Append(id=first, n=count, inv=inv - 5, ret=inv, st="info", key=key))
            outcome = "ok"
        position = self.tail
        if outcome in ("ok", "info"):
            self._put(session, count, key)
        st: Outcome = "ok" if outcome == "ok" else "fail" if outcome == "fail" else "info"
        pos = position if st == "ok" else None
        self.events.append(Append(id=first, n=count, inv=inv, ret=ret, st=st, pos=pos, key=key))
        self.numbers[session] = first[1] + count

    def _put(self, session: int, count: int, key: str | None) -> None:
        first = self.numbers[session]
        for number in range(first, first + count):
            self.held.append((session, number))
            self.keys[session, number] = key

    def publish(self) -> None:
        """Two parts of two sessions, published together."""
        inv, ret = self.around()
        position, parts = self.tail, []
        for session in self.random.sample(range(4), 2):
            parts.append((session, self.numbers[session], 2))
            self._put(session, 2, None)
            self.numbers[session] += 2
        self.events.append(Publish(key="set", parts=tuple(parts), inv=inv, ret=ret, st="ok", pos=position))

    def read(self) -> None:
        """A position that holds something, was trimmed, or is not written yet."""
        inv, ret = self.around()
        position = self.random.randrange(1, self.tail + 2)
        found: object = self.held[position - 1] if position < self.tail else None
        if position < self.first:
            found = "trimmed"
        self.events.append(Read(pos=position, inv=inv, ret=ret, id=found))  # type: ignore[arg-type]

    def ask_tail(self) -> None:
        inv, ret = self.around()
        self.events.append(Tail(inv=inv, ret=ret, n=self.tail))

    def trim(self) -> None:
        """Give up the first few."""
        inv, ret = self.around()
        self.first = self.random.randrange(self.first, min(self.first + 4, self.tail) + 1)
        self.events.append(Trim(inv=inv, ret=ret, before=self.first))

    def noop(self) -> None:
        """A hole."""
        self.held.append("noop")

    def subscribe(self, number: int) -> None:
        """A subscription that has come to some position, by and by."""
        wanted = self.random.choice((None, None, "key=red", "prefix=red", "key=none"))
        start = self.random.randrange(self.first, self.tail + 1)
        self.events.append(Sub(sub=number, start=start, filter=wanted))
        for position in range(start, self.random.randrange(start, self.tail + 1)):
            found = self.held[position - 1]
            if isinstance(found, tuple) and selects(wanted, self.keys[found]):
                self.events.append(Deliver(sub=number, ret=self.around()[1], pos=position, id=found))

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
        plan = Plan(copies=3, ok_min=0, faults={"kill": 1})
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
    return key is not None and (key == text if kind == "key" else key.startswith(text))


def simulated(random: Random, operations: int) -> SimulatedLog:
    """A log after some operations, with a few subscriptions."""
    log = SimulatedLog(random)
    every_day = (log.append, log.append, log.append, log.read, log.read, log.ask_tail)
    for _ in range(operations):
        rare = random.random() < 0.1
        random.choice((log.publish, log.trim, log.noop) if rare else every_day)()
    for number in range(3):
        log.subscribe(number)
    log.speculate(3)
    return log
