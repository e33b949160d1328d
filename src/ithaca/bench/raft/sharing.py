"""Variants of the store in turns, by payload and batch: rates, and what the kernel writes for a byte of payload.

`run_sharing` compares log sharing with the naive store (eBay Figure 7), `run_commits` the whole with what has no group
commit, no pipeline, or neither.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from ithaca.bench.cluster.producers import Plan, Producers, producers
from ithaca.bench.measure import Progress, Sample, interleave, ratios, summarize
from ithaca.bench.place import surroundings, workspace
from ithaca.bench.raft.group import SERVERS, Group, running_group

WARM_UP_S = 0.5
SHARED = "shared"


@dataclass(frozen=True, slots=True)
class VariantSettings:
    """Every payload is measured with every batch; `window` batches are in flight per producer."""

    record_bytes: tuple[int, ...] = (512, 4096)
    batches: tuple[int, ...] = (1, 64)
    producers: int = 1
    window: int = 8
    seconds: float = 2.0
    rounds: int = 3


def run_sharing(parent: Path, settings: VariantSettings, progress: Progress) -> dict[str, Any]:
    return _run("raft sharing", parent, settings, (SHARED, "naive"), progress)


def run_commits(parent: Path, settings: VariantSettings, progress: Progress) -> dict[str, Any]:
    return _run("raft commits", parent, settings, (SHARED, "no group commit", "no pipeline", "neither"), progress)


def _run(
    bench: str, parent: Path, settings: VariantSettings, variants: Sequence[str], progress: Progress
) -> dict[str, Any]:
    with workspace(parent) as directory:
        setting = asdict(settings) | surroundings(directory)
        points = [
            _measure(directory / f"{size}-{batch}", Plan(size, batch, settings.window), settings, variants, progress)
            for size in settings.record_bytes
            for batch in settings.batches
        ]
    return {"bench": bench, "points": points, "settings": setting}


def _measure(
    directory: Path, plan: Plan, settings: VariantSettings, variants: Sequence[str], progress: Progress
) -> dict[str, Any]:
    written: dict[str, list[float]] = {name: [] for name in variants}
    with ExitStack() as stack:
        groups = {name: stack.enter_context(running_group(directory / name, name, progress)) for name in variants}
        teams = {
            name: stack.enter_context(producers(group.bootstrap, [None] * settings.producers, plan))
            for name, group in groups.items()
        }

        def contender(name: str) -> Sample:
            return _turn(groups[name], teams[name], settings.seconds, plan.record_bytes, written[name])

        for team in teams.values():
            team.measure(min(WARM_UP_S, settings.seconds))
        contenders = {name: (lambda name=name: contender(name)) for name in variants}
        samples = interleave(contenders, settings.rounds, progress)
    found = {name: summarize(samples[name]) | _written(written[name]) for name in variants}
    for name in variants[1:]:
        share = ratios(samples[SHARED], samples[name])
        shares = [ours / other for ours, other in zip(written[SHARED], written[name], strict=True)]
        found[name]["shared"] = {"rate": share["rate"], "written": round(median(shares), 3), "rounds": share["rounds"]}
    return {"record_bytes": plan.record_bytes, "batch": plan.batch, "variants": found}


def _written(rounds: Sequence[float]) -> dict[str, Any]:
    """Bytes on each disk for a byte of payload."""
    return {"written": round(median(rounds), 3), "written_rounds": [round(each, 3) for each in rounds]}


def _turn(group: Group, team: Producers, seconds: float, record_bytes: int, written: list[float]) -> Sample:
    """One measurement; what was written is counted with that which was under way at its end, at all servers."""
    tail, before = group.settled_tail(), group.written_bytes()
    sample = team.measure(seconds)
    payload_bytes = (group.settled_tail() - tail) * record_bytes
    written.append((group.written_bytes() - before) / (SERVERS * payload_bytes))
    return sample
