"""`ithaca bench raft catch-up|failover`: a follower that missed a lot, and a leader that is killed, under appends."""

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import ithaca
from ithaca.bench.cluster.producers import Plan, producers
from ithaca.bench.measure import Progress
from ithaca.bench.place import payload, surroundings, workspace
from ithaca.bench.raft.group import running_group

SLICE_S = 1.0
CATCH_UP_S_MAX = 600.0


@dataclass(frozen=True, slots=True)
class CatchUpSettings:
    missed_bytes: int = 1 << 30
    record_bytes: int = 4096
    batch: int = 64
    window: int = 4
    seconds: float = 5.0
    """Of the undisturbed rate, before and after."""


def run_catch_up(parent: Path, settings: CatchUpSettings, progress: Progress) -> dict[str, Any]:
    """The rate of appends with all servers, and while one that missed so many bytes copies them."""
    plan = Plan(settings.record_bytes, settings.batch, settings.window)
    with workspace(parent) as directory, running_group(directory / "group", "shared", progress) as group:
        setting = asdict(settings) | surroundings(directory)
        with producers(group.bootstrap, [None], plan) as team:
            team.measure(0.5)
            before = team.measure(settings.seconds).bytes_per_s
            follower = next(number for number in group.tails() if number != group.leader())
            group.kill(follower)
            progress(f"appending {settings.missed_bytes:,} bytes that one follower misses")
            team.fill(settings.missed_bytes, wide=True)
            group.start(follower)
            rates: list[float] = []
            began = time.monotonic()
            while time.monotonic() - began < CATCH_UP_S_MAX:
                tails = group.tails()
                progress(f"server {follower} is at position {tails.get(follower, 1):,} of {max(tails.values()):,}")
                if max(tails.values()) - tails.get(follower, 0) <= 2 * settings.batch * settings.window and rates:
                    break
                rates.append(team.measure(SLICE_S).bytes_per_s)
            seconds = time.monotonic() - began
            after = team.measure(settings.seconds).bytes_per_s
    undisturbed = (before + after) / 2
    return {
        "bench": "raft catch-up",
        "undisturbed_bytes_per_s": [round(before), round(after)],
        "during_bytes_per_s": [round(each) for each in rates],
        "share": round(median(rates) / undisturbed, 3),
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
