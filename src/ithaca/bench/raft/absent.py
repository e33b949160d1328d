"""`ithaca bench raft catch-up|failover`: a follower that missed a lot, and a leader that is killed, under appends."""

import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import ithaca
from ithaca.bench.cluster.producers import Plan, producers
from ithaca.bench.measure import Progress
from ithaca.bench.place import payload, surroundings, workspace
from ithaca.bench.raft.group import running_group

CATCH_UP_S_MAX = 600.0


@dataclass(frozen=True, slots=True)
class CatchUpSettings:
    missed_bytes: int = 1 << 30
    record_bytes: int = 4096
    batch: int = 64
    window: int = 4
    seconds: float = 0.5
    """Of each measurement: shorter than what servers wait for one that says nothing."""


def run_catch_up(parent: Path, settings: CatchUpSettings, progress: Progress) -> dict[str, Any]:
    """The rate of appends while a follower that missed so many bytes copies them, in turns with a group without one.

    In the turns of the other group that follower is stopped. So both meet the same machine, however busy it is.
    """
    plan = Plan(settings.record_bytes, settings.batch, settings.window)
    with workspace(parent) as directory, ExitStack() as stack:
        setting = asdict(settings) | surroundings(directory)
        groups = [stack.enter_context(running_group(directory / name, "shared", progress)) for name in ("one", "other")]
        teams = [stack.enter_context(producers(group.bootstrap, [None], plan)) for group in groups]
        for team in teams:
            team.measure(settings.seconds)
        (group, _), (team, quiet) = groups, teams
        follower = next(number for number in group.tails() if number != group.leader())
        group.kill(follower)
        progress(f"appending {settings.missed_bytes:,} bytes that one follower misses")
        team.fill(settings.missed_bytes, wide=True)
        group.start(follower)
        rates: list[tuple[float, float]] = []
        began = time.monotonic()
        while time.monotonic() - began < CATCH_UP_S_MAX:
            tails = group.tails()
            progress(f"server {follower} is at position {tails.get(follower, 1):,} of {max(tails.values()):,}")
            if max(tails.values()) - tails.get(follower, 0) <= 2 * settings.batch * settings.window and rates:
                break
            during = team.measure(settings.seconds).bytes_per_s
            with group.stopped(follower):
                rates.append((during, quiet.measure(settings.seconds).bytes_per_s))
        seconds = time.monotonic() - began
    return {
        "bench": "raft catch-up",
        "during_bytes_per_s": round(median(during for during, _ in rates)),
        "undisturbed_bytes_per_s": round(median(undisturbed for _, undisturbed in rates)),
        "share": round(median(during / undisturbed for during, undisturbed in rates), 3),
        "shares": [round(during / undisturbed, 3) for during, undisturbed in rates],
        "catch_up_s": round(seconds, 2),
        "settings": setting,
    }


@dataclass(frozen=True, slots=True)
class FailoverSettings:
    rounds: int = 5
    record_bytes: int = 4096


def run_failover(parent: Path, settings: FailoverSettings, progress: Progress) -> dict[str, Any]:
    """How long a lone append takes that is under way, or begins, when the leader is killed."""
    value = payload(settings.record_bytes)
    gaps_ms: list[float] = []
    with workspace(parent) as directory, running_group(directory / "group", "shared", progress) as group:
        setting = asdict(settings) | surroundings(directory)
        with ithaca.connect(group.bootstrap, timeout=60) as log:
            for turn in range(settings.rounds):
                progress(f"round {turn + 1} of {settings.rounds}")
                for _ in range(20):
                    log.append(value)
                leader = group.leader()
                began = time.monotonic()
                group.kill(leader)
                log.append(value)
                gaps_ms.append((time.monotonic() - began) * 1000)
                group.start(leader)
                group.settled_tail()
    return {
        "bench": "raft failover",
        "back_after_ms": [round(each, 1) for each in gaps_ms],
        "median_ms": round(median(gaps_ms), 1),
        "settings": setting,
    }
