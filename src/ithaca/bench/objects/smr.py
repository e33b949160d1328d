"""`ithaca bench smr`: commands of many clients, by replicas; how long a replica takes to start, and what it holds.

All replicas are in this process, each with a follower of its own, and share its interpreter: what several of them cost
is the time of one processor. Clients are threads, spread over the replicas. The peer appends commands of the same size
with as many threads.
"""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import msgspec

from ithaca.bench.measure import Budget, Latency, Progress, Sample, in_threads, interleave, repeat, repeat_ahead
from ithaca.bench.objects.engines import Contenders, Lineup, on_engines, report_of
from ithaca.bench.objects.holding import Register, held_by_replica
from ithaca.bench.objects.place import Target, measured_logs
from ithaca.bench.place import payload, surroundings, workspace
from ithaca.cluster.temporary import Shape
from ithaca.model.engine import EngineName
from ithaca.model.interface import Log
from ithaca.model.records import KeyFilter
from ithaca.objects import Replica, replicate
from ithaca.objects.entries import Command, encode
from ithaca.objects.names import command_key

BATCH = 1000
"""Commands that are appended together to fill a log."""
LOCAL_READS = 20_000


@dataclass(frozen=True, slots=True)
class SmrSettings:
    """`cluster` of None is the log of a directory. With a window above 1 each client has so many commands in flight.

    With `engines` each has a cluster of this shape.
    """

    cluster: str | Shape | None = None
    record_bytes: int = 512
    clients: int = 8
    replicas: tuple[int, ...] = (1,)
    window: int = 1
    seconds: float = 2.0
    rounds: int = 5
    start: int = 0
    """Commands that a replica finds when it starts; 0 leaves that out. So many are proposed to the one
    whose memory is looked at, too."""

    engines: tuple[EngineName, ...] = ()
    batch: int = 1


def run_smr(parent: Path, settings: SmrSettings, progress: Progress) -> dict[str, Any]:
    """Everything the settings ask for, as one JSON-ready report."""
    with workspace(parent) as directory, ExitStack() as stack:
        setting = asdict(settings) | surroundings(directory)
        targets = stack.enter_context(measured_logs(directory, settings.cluster, settings.engines, progress))
        lineup = on_engines(targets, partial(_of_one, stack, settings, progress))
        samples = interleave(lineup.contenders, settings.rounds, progress)
        report = report_of("smr", samples, lineup.peers, settings.engines, setting)
        if settings.start:
            report["memory"] = {
                engine or "replica": held_by_replica(
                    directory, target.address, settings.start, settings.record_bytes, progress
                )
                for engine, target in targets.items()
            }
    return report


def _of_one(stack: ExitStack, settings: SmrSettings, progress: Progress, target: Target) -> Lineup:
    lineup = _commands(stack, target.log, settings)
    if settings.start:
        progress(f"filling a log with {settings.start:,} commands")
        lineup.add(_starts(target.log, settings))
    return lineup


def _commands(stack: ExitStack, log: Log, settings: SmrSettings) -> Lineup:
    value = payload(settings.record_bytes)
    plain, key = _command(value, 1), command_key("plain")
    budget, window = Budget(settings.seconds), settings.window

    def append() -> Sample:
        if window == 1:
            return repeat(lambda turn: _done(log.append(plain, key=key)), 1, settings.record_bytes, budget)
        return repeat_ahead(window, lambda turn: log.submit(plain, key=key), _done, 1, settings.record_bytes, budget)

    contenders: Contenders = {"log": lambda: in_threads(settings.clients, append)}
    last: list[Replica[Register]] = []
    for count in settings.replicas:
        replicas = [stack.enter_context(replicate(log, Register, name=f"r{count}")) for _ in range(count)]
        contenders[_named(count)] = _proposing(replicas, value, settings)
        last = replicas
    contenders["local reads"] = lambda: _local(last[0], settings)
    contenders["fresh reads"] = lambda: _fresh(last[0], settings)
    return Lineup(contenders, {_named(count): "log" for count in settings.replicas})


def _proposing(replicas: list[Replica[Register]], value: bytes, settings: SmrSettings) -> Callable[[], Sample]:
    budget, size = Budget(settings.seconds), settings.record_bytes

    def measure() -> Sample:
        spread = iter(range(settings.clients))

        def client() -> Sample:
            replica = replicas[next(spread) % len(replicas)]
            if settings.window == 1:
                return repeat(lambda turn: _done(replica.propose(Register.write, value)), 1, size, budget)
            return repeat_ahead(
                settings.window, lambda turn: replica.submit(Register.write, value), _done, 1, size, budget
            )

        return in_threads(settings.clients, client)

    return measure


def _local(replica: Replica[Register], settings: SmrSettings) -> Sample:
    def reads(turn: int) -> None:
        for _ in range(LOCAL_READS):
            replica.local(_count)

    return repeat(reads, LOCAL_READS, settings.record_bytes, Budget(settings.seconds / 4))


def _fresh(replica: Replica[Register], settings: SmrSettings) -> Sample:
    return repeat(lambda turn: _done(replica.read(_count)), 1, settings.record_bytes, Budget(settings.seconds / 4))


# Starting


def _starts(log: Log, settings: SmrSettings) -> Lineup:
    """Reading all commands, playing all of them, and starting from a snapshot with a tenth of them behind it."""
    value, key = payload(settings.record_bytes), command_key("long")
    behind = settings.start - settings.start // 10
    first = log.tail()
    for at in range(0, settings.start, BATCH):
        count = min(BATCH, settings.start - at)
        log.append_many([_command(value, at + each) for each in range(count)], keys=[key] * count)
        if at < behind <= at + count:
            with replicate(log, Register, name="long", snapshots="log", checks="off") as replica:
                replica.snapshot()

    def timed(work: Callable[[], int]) -> Sample:
        began = perf_counter()
        count = work()
        seconds = perf_counter() - began
        return Sample(count, count * settings.record_bytes, seconds, Latency.of([seconds]))

    def read() -> int:
        with log.read_range(first, where=KeyFilter.equals(key)) as records:
            return sum(1 for _ in records)

    def play() -> int:
        with replicate(log, Register, name="long", checks="off", read_only=True) as replica:
            return replica.local(_count)

    def start() -> int:
        with replicate(log, Register, name="long", snapshots="log", checks="off", read_only=True) as replica:
            return replica.local(_count)

    contenders: Contenders = {
        "start, read": lambda: timed(read),
        "start, played": lambda: timed(play),
        "start, snapshot": lambda: timed(start),
    }
    return Lineup(contenders, {"start, played": "start, read", "start, snapshot": "start, read"})


def _command(value: bytes, number: int) -> bytes:
    return encode(Command("Register", 1, 0, number, "write", msgspec.Raw(encode((value,)))))


def _named(replicas: int) -> str:
    return "1 replica" if replicas == 1 else f"{replicas} replicas"


def _count(state: Register) -> int:
    return state.count


def _done(result: object) -> None:
    assert result is not None
