"""A soak from its first round to its verdict."""

import asyncio
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import uvloop

import ithaca.aio
from ithaca.cluster.temporary import terminations_raised
from ithaca.model.errors import IthacaError
from ithaca.model.records import Durability
from ithaca.torture.clients.client import TIMEOUT_S, patient
from ithaca.torture.soak.measuring import STARTS, measured
from ithaca.torture.soak.plan import ROUNDS, Counts
from ithaca.torture.soak.subject import Subject, SubjectDied
from ithaca.torture.soak.verdict import Figure, Round, figures
from ithaca.torture.soak.work import IN_FLIGHT, TOGETHER, Worker

Tell = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class SoakOptions:
    counts: Counts = field(default_factory=Counts)
    rounds: int = ROUNDS
    durability: Durability = "fsync"


class SoakOutcome(msgspec.Struct, frozen=True):
    """What came of a soak."""

    counts: dict[str, int]
    seconds: float
    rounds: list[Round]
    figures: list[Figure]
    failure: str | None = None
    """What ended it before its last round."""

    @property
    def is_green(self) -> bool:
        return self.failure is None and not any(figure.has_grown for figure in self.figures)


def soak(options: SoakOptions, *, directory: Path | None, tell: Tell, advance: Callable[[], object]) -> SoakOutcome:
    """Do the whole of it. `advance` is called for every step, `tell` after every round."""
    begun_s = time.monotonic()
    if directory is not None:
        directory.mkdir(parents=True, exist_ok=True)
    home = Path(tempfile.mkdtemp(prefix="ithaca-soak-", dir=directory)).absolute()
    rounds: list[Round] = []
    failure = None
    try:
        with terminations_raised(), Subject(home / "aged", options.durability) as subject:
            uvloop.run(_soak(subject, options, home, rounds, tell, advance))
    except (IthacaError, SubjectDied) as error:
        failure = f"in round {len(rounds) + 1}: {type(error).__name__}: {error}"
    finally:
        if failure is None:
            shutil.rmtree(home, ignore_errors=True)
        else:
            failure += f"; everything is kept in {home}"
    found = figures(rounds) if rounds else []
    return SoakOutcome(asdict(options.counts), round(time.monotonic() - begun_s, 1), rounds, found, failure)


async def _soak(
    subject: Subject,
    options: SoakOptions,
    home: Path,
    rounds: list[Round],
    tell: Tell,
    advance: Callable[[], object],
) -> None:
    begun_s = time.monotonic()
    worker = Worker(subject, advance)
    for number in range(options.rounds):
        async with await patient(lambda: ithaca.aio.connect(subject.bootstrap, timeout=TIMEOUT_S)) as log:
            share = options.counts.of_round(number, options.rounds)
            timed = min(STARTS, share.restarts)  # of these, the last ones take turns with those of the fresh cluster
            await worker.do(log, replace(share, restarts=share.restarts - timed))
            beside = home / "fresh"
            aged, fresh = await measured(log, subject, timed, beside, options.durability)
            for _ in range(timed):
                advance()
            await asyncio.to_thread(shutil.rmtree, beside, ignore_errors=True)
            await asyncio.to_thread(subject.collect)
            rounds.append(
                Round(
                    number=number + 1,
                    at_s=round(time.monotonic() - begun_s, 1),
                    memory_bytes=subject.memory_bytes,
                    descriptors=subject.descriptors,
                    start_ms=aged.start_ms,
                    append_ms=aged.append_ms,
                    read_ms=aged.read_ms,
                    fresh_start_ms=fresh.start_ms,
                    fresh_append_ms=fresh.append_ms,
                    fresh_read_ms=fresh.read_ms,
                    first=await patient(log.first),
                    tail=await patient(log.tail),
                )
            )
        tell(shown(rounds[-1]))


def steps_of(options: SoakOptions) -> int:
    """How often `advance` will be called."""
    steps = 0
    for number in range(options.rounds):
        share = options.counts.of_round(number, options.rounds)
        steps += -(-share.parts // TOGETHER) - (-share.segments // IN_FLIGHT) + share.restarts + share.leader_changes
    return steps


def shown(one: Round) -> str:
    """A round in one line."""
    return (
        f"round {one.number:3}, {one.at_s:5.0f} s: {one.memory_bytes / (1 << 20):.1f} MiB, "
        f"{one.descriptors} descriptors, start {one.start_ms:.0f} ms (fresh {one.fresh_start_ms:.0f}), "
        f"append {one.append_ms:.2f} ms ({one.fresh_append_ms:.2f}), "
        f"read {one.read_ms:.2f} ms ({one.fresh_read_ms:.2f}), positions {one.first} to {one.tail}"
    )


def report(outcome: SoakOutcome) -> dict[str, Any]:
    """For programs: everything, with what has grown by how much."""
    found = msgspec.to_builtins(outcome)
    assert isinstance(found, dict)
    for figure, item in zip(outcome.figures, found["figures"], strict=True):
        item["growth"] = round(figure.growth, 4)
    return found | {"verdict": "green" if outcome.is_green else "red"}
