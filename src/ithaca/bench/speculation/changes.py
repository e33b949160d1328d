"""Experiments in which something happens in the middle of a turn (SpecLog, Figures 10, 11, 13, 15 and 17).

| experiment | what happens from `at_s` on                                            | until              |
|------------|------------------------------------------------------------------------|--------------------|
| bursts     | the first shard gets ten times its rate                                | 0.5 s later        |
| rates      | the first shard gets twice its rate                                    | the end            |
| stragglers | the primary of the first shard stands still, for 30 ms again and again | 1 s later          |
| elastic    | a shard is added                                                       | finalized after 1.5 s |
| failure    | all servers of the first shard, or one replica of three, are killed    | started after 1.5 s |
"""

import asyncio
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

import ithaca
import ithaca.aio
from ithaca.bench.experiments.schedule import Schedule, in_phases
from ithaca.bench.measure import Progress
from ithaca.bench.speculation.followed import Floats, RolledBack, medians, percentiles, rounded
from ithaca.bench.speculation.lab import (
    ENGINES,
    Contender,
    LabSettings,
    Turn,
    compared,
    in_turns,
    report_of,
    side_by_side,
)
from ithaca.model.config.failures import FailurePolicy
from ithaca.model.interface.awaited import ClusterLog

BURST_S, BURST_TIMES = 0.5, 10.0
STRAGGLING_S, STILL_S = 1.0, 0.03
WITH_SHARD_S = 1.5
DOWN_S = 1.5
GIVEN_UP = "fails: too few replicas of its shard are left"
"""What the leader of belfast logs when it gives a lane up."""
_LOOK_S = 0.01


@dataclass(frozen=True, slots=True)
class Change:
    """What happens in a turn, and `until` when, in seconds from its start."""

    schedule: Schedule
    until_s: float
    meanwhile: Callable[[Contender, float], Mapping[str, float]] = lambda contender, start_s: {}
    before: Callable[[Contender], None] = lambda contender: None
    after: Callable[[Contender], None] = lambda contender: None


def run_bursts(parent: Path, settings: LabSettings, progress: Progress) -> dict[str, Any]:
    """A burst of one shard (Figure 10)."""
    end_s = settings.at_s + BURST_S
    schedule = _first_shard(settings, [(settings.at_s, BURST_TIMES), (end_s, 1.0)])
    return _run("bursts", parent, settings, progress, Change(schedule, end_s))


def run_rates(parent: Path, settings: LabSettings, progress: Progress) -> dict[str, Any]:
    """The rate of one shard doubles (Figure 11)."""
    schedule = _first_shard(settings, [(settings.at_s, 2.0)])
    return _run("rates", parent, settings, progress, Change(schedule, settings.seconds))


def run_stragglers(parent: Path, settings: LabSettings, progress: Progress) -> dict[str, Any]:
    """A primary that stands still again and again (Figure 15)."""
    change = Change(
        settings.steady(), settings.at_s + STRAGGLING_S, lambda each, start_s: _straggle(each, settings, start_s)
    )
    return _run("stragglers", parent, settings, progress, change)


def run_elastic(parent: Path, settings: LabSettings, progress: Progress) -> dict[str, Any]:
    """A shard joins and leaves (Figure 13); one client more than shards goes to it."""
    spare: dict[str, int] = {}
    rates = [[(0.0, settings.batches_per_s)]] * (settings.shards + 1)

    def prepare(contender: Contender) -> None:
        spare[contender.engine] = contender.servers.start_spare(progress)

    def join(contender: Contender, start_s: float) -> Mapping[str, float]:
        return asyncio.run(_join_and_leave(contender, spare[contender.engine], start_s + settings.at_s))

    def retire(contender: Contender) -> None:
        contender.servers.retire(spare[contender.engine])

    until_s = settings.at_s + WITH_SHARD_S
    change = Change(in_phases(settings.seconds, rates), until_s, join, prepare, retire)
    return _run("elastic", parent, settings, progress, change, clients=len(rates))


CHANGES: Final = {"bursts": run_bursts, "rates": run_rates, "elastic": run_elastic, "stragglers": run_stragglers}
"""Those that need nothing but the settings."""


def run_failure(
    parent: Path, settings: LabSettings, progress: Progress, *, detect_s: float = 0.5, **application: Any
) -> dict[str, Any]:
    """A replica of three is killed, then a whole shard of two (Figure 17)."""
    points = []
    for name, replicas in (("one replica of three", 3), ("a whole shard of two", 2)):
        progress(name)
        points.append(_lose(parent, replace(settings, replicas=replicas), progress, detect_s, application, name))
    report = report_of("failure", settings, parent, points=points)
    report["settings"]["detect_s"] = detect_s
    return report


def _lose(
    parent: Path,
    settings: LabSettings,
    progress: Progress,
    detect_s: float,
    application: Mapping[str, Any],
    name: str,
) -> dict[str, Any]:
    masking = settings.replicas > 2
    policy = FailurePolicy("none", round(detect_s * 1000))
    shapes = {engine: settings.shape(engine, policy, masking) for engine in ENGINES}

    def mend(contender: Contender) -> None:
        contender.servers.wait_healthy([each.name for each in contender.servers.replicas_of(0)], progress)

    change = Change(
        settings.steady(),
        settings.at_s + DOWN_S,
        lambda contender, start_s: _kill(contender, settings, start_s),
        after=mend,
    )
    (point,) = _run("failure", parent, settings, progress, change, shapes=shapes, **application)["points"]
    return {**point, "point": name}


def _first_shard(settings: LabSettings, times: Sequence[tuple[float, float]]) -> Schedule:
    """The first client at multiples of its rate, all others as ever."""
    rate = settings.batches_per_s
    first = [(0.0, rate), *((start_s, multiple * rate) for start_s, multiple in times)]
    return in_phases(settings.seconds, [first, *([[(0.0, rate)]] * (settings.shards - 1))])


def _run(
    bench: str, parent: Path, settings: LabSettings, progress: Progress, change: Change, **lab: Any
) -> dict[str, Any]:
    """Rounds in which it happens to each engine."""

    def measure(contender: Contender) -> Turn:
        change.before(contender)
        turn = contender.turn(
            change.schedule, settings.compute_ms, lambda start_s: change.meanwhile(contender, start_s)
        )
        change.after(contender)
        return turn

    with side_by_side(parent, settings, progress, **lab) as contenders:
        turns = in_turns(contenders, settings, progress, measure)
    point = compared(turns)
    for engine, of_one in turns.items():
        point["engines"][engine] |= {
            "phases": medians([_phases(turn, settings.at_s, change.until_s) for turn in of_one]),
            "recovery": [recovery_of(turn) for turn in of_one],
            "events_s": [{name: round(at_s, 3) for name, at_s in turn.events.items()} for turn in of_one],
            "over_time": _over_time(of_one[0]),
        }
    return report_of(bench, settings, parent, points=[{"point": bench, "until_s": change.until_s} | point])


def _phases(turn: Turn, at_s: float, until_s: float) -> dict[str, Any]:
    """End-to-end latencies before, while and after it happens, by when records were due."""
    assert turn.followed is not None
    due_s = turn.followed.due_s - turn.start_s
    latency = turn.followed.final_s - turn.followed.due_s
    edges = {"before": (0.0, at_s), "meanwhile": (at_s, until_s), "after": (until_s, float("inf"))}
    chosen = {name: latency[(due_s >= low) & (due_s < high)] for name, (low, high) in edges.items()}
    return {name: percentiles(each) for name, each in chosen.items() if len(each)}


def recovery_of(turn: Turn) -> list[dict[str, Any]]:
    """Of each speculation that failed, from the loss of the shard on.

    ```
     killed       given up        told              redelivered
       │ detection   │    entry     │    redelivery     │
       ├─────────────┴──────────────┴───────────────────┘
    ```

    Until the leader gave the lane up; from there until its entry was ordered, and told to the task; from there until so
    many records had come again as were undone. Beside that, when results came again, and what undoing took.
    """
    followed, events = turn.followed, turn.events
    assert followed is not None
    killed_s = turn.start_s + events.get("killed", 0.0)
    given_up_s = turn.start_s + events["given up"] if "given up" in events else None
    return [
        {
            "told_ms": rounded(each.told_s - killed_s),
            "detection_ms": None if given_up_s is None else rounded(given_up_s - killed_s),
            "entry_ms": None if given_up_s is None else rounded(each.told_s - given_up_s),
            "redelivery_ms": _delivered_again(followed.delivered_s, each),
            "again_ms": _next_after(followed.final_s, each.told_s),
            "undone_records": each.records,
            "undo_ms": rounded(each.undo_s),
        }
        for each in followed.rolled_back
    ]


def _delivered_again(delivered_s: Floats, failed: RolledBack) -> float | None:
    """How long it took until so many had come as were undone; None if fewer came, or none was undone."""
    later = np.sort(delivered_s[delivered_s >= failed.told_s])
    return rounded(later[failed.records - 1] - failed.told_s) if 0 < failed.records <= len(later) else None


def _next_after(times: Floats, told_s: float) -> float | None:
    later = times[times > told_s]
    return rounded(later.min() - told_s) if len(later) else None


def _over_time(turn: Turn) -> dict[str, Any]:
    assert turn.followed is not None
    seconds = turn.timeline.seconds
    acknowledged = np.histogram(turn.timeline.done_s, np.arange(0.0, seconds + 0.05, 0.1))[0]
    return turn.followed.over_time(turn.start_s, seconds) | {"acknowledged": acknowledged.tolist()}


def _straggle(contender: Contender, settings: LabSettings, start_s: float) -> Mapping[str, float]:
    """Stop and continue the server that has the lane."""
    names = [place.name for place in contender.servers.replicas_of(0)]
    with ithaca.connect(contender.servers.bootstrap) as log:
        shard = next(each for each in log.admin.shards() if each.shard == 0)
        name = names[next(number for number, replica in enumerate(shard.replicas) if replica.is_open)]
    _sleep_until(start_s + settings.at_s)
    began_s = time.monotonic()
    while time.monotonic() < start_s + settings.at_s + STRAGGLING_S:
        contender.servers.signal(name, signal.SIGSTOP)
        try:
            time.sleep(STILL_S)
        finally:
            contender.servers.signal(name, signal.SIGCONT)
        time.sleep(STILL_S)
    return {"straggles": began_s, "recovers": time.monotonic()}


def _kill(contender: Contender, settings: LabSettings, start_s: float) -> Mapping[str, float]:
    """One of three, the last; or all of two."""
    names = [place.name for place in contender.servers.replicas_of(0)]
    lost = names[-1:] if settings.replicas > 2 else names
    _sleep_until(start_s + settings.at_s)
    killed_s = time.monotonic()
    for name in lost:
        contender.servers.kill(name)
    _sleep_until(killed_s + DOWN_S)
    for name in lost:
        contender.servers.start(name)
    events = {"killed": killed_s, "started": time.monotonic()}
    given_up_s = contender.servers.said_s(GIVEN_UP, killed_s)
    return events if given_up_s is None else events | {"given up": given_up_s}


async def _join_and_leave(contender: Contender, shard: int, at_s: float) -> Mapping[str, float]:
    addresses = [str(place.address) for place in contender.servers.replicas_of(shard)]
    async with ithaca.aio.connect(contender.servers.bootstrap) as log:
        await asyncio.sleep(max(0.0, at_s - time.monotonic()))
        events = {"asked": time.monotonic()}
        await log.admin.add_shard(addresses, shard=shard)
        await _opened(log, shard)
        events["joined"] = time.monotonic()
        await asyncio.sleep(max(0.0, at_s + WITH_SHARD_S - time.monotonic()))
        await log.admin.finalize_shard(shard)
        events["left"] = time.monotonic()
    return events


async def _opened(log: ClusterLog, number: int) -> None:
    """Wait until the shard takes appends."""
    while True:
        shards = {shard.shard: shard for shard in await log.admin.shards()}
        if any(replica.is_open for replica in shards[number].replicas):
            return
        await asyncio.sleep(_LOOK_S)


def _sleep_until(at_s: float) -> None:
    time.sleep(max(0.0, at_s - time.monotonic()))
