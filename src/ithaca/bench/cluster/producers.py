"""Producer processes that append within a common window of time, and what they counted in it.

The clock is the machine's monotonic one, which all processes share: they are told when to start and when to
stop, and count the batches that were acknowledged in between.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection

import numpy as np

import ithaca
from ithaca.bench.bare import values_of
from ithaca.bench.children import ANSWER_TIMEOUT_S, Child, start_child, wait_for_any
from ithaca.bench.measure import Latency, Sample, UnderWay
from ithaca.model.errors import Unavailable
from ithaca.model.interface import Log
from ithaca.model.limits import MIB
from ithaca.model.security.tls import TLS

LEAD_S = 0.05
"""From telling the producers to their common start."""
WHILE_WAITING_S = 0.05
"""How often something else is done while they are at work."""

FILL_TIMEOUT_S = 3600.0
"""A log that takes longer than that to fill is filled in vain."""

WIDE_BYTES = MIB
WIDE_WINDOW = 4


@dataclass(frozen=True, slots=True)
class Plan:
    """What each producer sends, and how many batches it has in flight."""

    record_bytes: int
    batch: int
    window: int


@dataclass(frozen=True, slots=True)
class Turn:
    """What to append, from when until when by the monotonic clock; `batches` may end it before."""

    plan: Plan
    start_s: float
    stop_s: float
    batches: int | None = None


@dataclass(frozen=True, slots=True)
class Counted:
    """How long each batch took that was acknowledged within the turn, as doubles in seconds."""

    durations: bytes
    end_s: float


def produce(
    parent: Connection, bootstrap: str, tls: TLS | None, token: str | None, shard: int | None, plan: Plan
) -> None:
    """A producer process: connected and warm before the first turn, until the parent is gone."""
    values = {plan: values_of(plan.record_bytes, plan.batch)}
    with ithaca.connect(bootstrap, tls=tls, token=token) as log:
        if shard is not None:
            log.set_shard_policy(lambda key, shards: shard)
        log.append_many(values[plan][0])  # its session is open from here on
        parent.send("ready")
        while True:
            turn: Turn = parent.recv()
            if turn.plan not in values:
                values[turn.plan] = values_of(turn.plan.record_bytes, turn.plan.batch)
            parent.send(append_until(turn, values[turn.plan], submitter(log, turn.plan)))


Submit = Callable[[list[bytes]], UnderWay[object] | None]
"""Begins the append of a batch; None where it is done already."""


def append_until(turn: Turn, values: list[list[bytes]], submit: Submit) -> Counted:
    """Append from the turn's start on, and wait for the oldest batch while as many are in flight as the plan says."""
    plan = turn.plan
    waiting: deque[tuple[float, UnderWay[object] | None]] = deque()
    durations: list[float] = []
    sent = 0
    time.sleep(max(0.0, turn.start_s - time.monotonic()))
    now = time.monotonic()
    while True:
        while len(waiting) < plan.window and now < turn.stop_s and (turn.batches is None or sent < turn.batches):
            now = time.monotonic()
            waiting.append((now, submit(values[sent % len(values)])))
            sent += 1
        if not waiting:
            return Counted(np.asarray(durations).tobytes(), now)
        began, pending = waiting.popleft()
        if pending is not None:
            pending.result()
        now = time.monotonic()
        if now <= turn.stop_s:
            durations.append(now - began)


def submitter(log: Log, plan: Plan) -> Submit:
    """With one batch in flight, appending waits by itself, as a program would that needs each receipt."""
    if plan.window > 1:
        return log.submit_many if plan.batch > 1 else lambda values: log.submit(values[0])

    def append(values: list[bytes]) -> None:
        if plan.batch == 1:
            log.append(values[0])
        else:
            log.append_many(values)

    return append


class Producers:
    """The running producers of one cluster."""

    def __init__(self, children: Sequence[Child], plan: Plan) -> None:
        self.children = children
        self._plan = plan

    def measure(self, seconds: float, meanwhile: Callable[[], object] | None = None) -> Sample:
        """What they all append within the same `seconds`; `meanwhile` is called again and again."""
        start_s = time.monotonic() + LEAD_S
        return self._run(Turn(self._plan, start_s, start_s + seconds), meanwhile)

    def fill(self, byte_count: int, meanwhile: Callable[[], object] | None = None, *, wide: bool = False) -> Sample:
        """Append so many bytes in all, however long it takes; `wide`: in large batches, whatever the plan says."""
        plan = self._plan
        if wide:
            plan = Plan(plan.record_bytes, max(1, WIDE_BYTES // plan.record_bytes), WIDE_WINDOW)
        share = plan.batch * plan.record_bytes * len(self.children)
        start_s = time.monotonic() + LEAD_S
        return self._run(Turn(plan, start_s, float("inf"), max(1, -(-byte_count // share))), meanwhile)

    def _run(self, turn: Turn, meanwhile: Callable[[], object] | None) -> Sample:
        for child in self.children:
            child.ask(turn)
        if meanwhile is not None:
            while not wait_for_any(self.children, WHILE_WAITING_S):
                meanwhile()
        patience_s = FILL_TIMEOUT_S if turn.batches is not None else turn.stop_s - turn.start_s + ANSWER_TIMEOUT_S
        counted = [child.answer(patience_s) for child in self.children]
        durations = np.concatenate([np.frombuffer(each.durations) for each in counted])
        if not len(durations):
            raise Unavailable(
                f"nothing was acknowledged within {turn.stop_s - turn.start_s:g} s: measure longer with --seconds"
            )
        end_s = min(turn.stop_s, max(each.end_s for each in counted))
        records = len(durations) * turn.plan.batch
        return Sample(records, records * turn.plan.record_bytes, end_s - turn.start_s, Latency.of(durations))


@contextmanager
def producers(
    bootstrap: str, shards: Sequence[int | None], plan: Plan, tls: TLS | None = None, token: str | None = None
) -> Iterator[Producers]:
    """A producer for each of `shards`, which may name a shard several times; None leaves it to the policy."""
    with ExitStack() as stack:
        children = [
            start_child(stack, f"producer {number}", produce, bootstrap, tls, token, shard, plan)
            for number, shard in enumerate(shards, 1)
        ]
        for child in children:
            assert child.answer() == "ready"
        yield Producers(children, plan)
