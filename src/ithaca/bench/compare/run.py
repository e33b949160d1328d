"""All systems side by side: every workload in interleaved rounds, kept as it is finished, so that a run can go on."""

import os
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from ithaca.bench.compare.catalogue import REFERENCE
from ithaca.bench.compare.system import Running, System
from ithaca.bench.compare.team import Round, Team, team
from ithaca.bench.compare.workloads import PACE_AFTER, Workload
from ithaca.bench.measure import Progress
from ithaca.bench.place import surroundings, workspace
from ithaca.model.errors import IthacaError, Unavailable, Unsupported
from ithaca.version import VERSION

RESULTS = "results.jsonl"
WARM_UP_S = 0.5


@dataclass(frozen=True, slots=True)
class CompareSettings:
    seconds: float = 2.0
    rounds: int = 3
    warm_up_s: float = WARM_UP_S


def run_compare(
    parent: Path,
    kept: Path,
    systems: Sequence[System],
    workloads: Sequence[Workload],
    settings: CompareSettings,
    progress: Progress,
) -> dict[str, Any]:
    """Measure what `kept` does not have yet, and report everything that it has then."""
    done = load(kept, settings)
    left = [workload for workload in workloads if workload.name not in done]
    with workspace(parent) as directory, ExitStack() as stack:
        facts = {"version": VERSION, **surroundings(directory), **asdict(settings)}
        running, told = _start(stack, directory, systems, progress) if left else ({}, {})
        began = time.monotonic()
        for number, workload in enumerate(left, 1):
            rest = _time_left(time.monotonic() - began, number - 1, len(left))
            tell = partial(_tell, progress, f"{number} of {len(left)}{rest}: {workload.title}")
            found = _measure(running, workload, settings, _pace(done), tell)
            done[workload.name] = {"workload": asdict(workload), "systems": found, "about": told, "settings": facts}
            save(kept, done[workload.name])
    names = [workload.name for workload in workloads]
    return report([done[name] for name in names if name in done])


def _start(
    stack: ExitStack, directory: Path, systems: Sequence[System], progress: Progress
) -> tuple[dict[str, Running], dict[str, Any]]:
    """All that can be had, at the same time; of the others the reason."""
    running: dict[str, Running] = {}
    told: dict[str, Any] = {}
    for system in systems:
        about = {
            "durable": system.durable,
            "copies": system.copies,
            "order": system.order,
            "acknowledged": system.acknowledged,
        }
        place = directory / system.name.replace(" ", "-").replace(",", "")
        try:
            up = stack.enter_context(system.run(place, partial(_tell, progress, system.name)))
        except (Unavailable, OSError) as error:
            told[system.name] = about | {"missing": str(error)}
        else:
            running[system.name] = up
            told[system.name] = about | {"version": up.version, "settings": dict(up.settings)}
    return running, told


def _measure(
    running: dict[str, Running], workload: Workload, settings: CompareSettings, pace: float, progress: Progress
) -> dict[str, Any]:
    """Every system once per round, every second round backwards. Who fails is left out from then on, and told."""
    rounds: dict[str, list[Round]] = {}
    failed: dict[str, str] = {}
    with ExitStack() as stack:
        teams: dict[str, Team] = {}
        for name, up in running.items():
            progress(f"{name} warms up")
            try:
                _check_appenders(workload, up)
                teams[name] = ready = stack.enter_context(team(up, workload))
                ready.warm_up(settings.warm_up_s, pace)
            except (IthacaError, OSError) as error:
                failed[name] = str(error)
                teams.pop(name, None)
        for turn in range(settings.rounds):
            for name in reversed(teams) if turn % 2 else teams:
                if name in failed:
                    continue
                progress(f"round {turn + 1} of {settings.rounds}: {name}")
                os.sync()  # what others left to be written is not written at this one's expense
                try:
                    rounds.setdefault(name, []).append(teams[name].turn(settings.seconds, pace))
                except (IthacaError, OSError) as error:
                    failed[name] = str(error)
    found: dict[str, Any] = {name: msgspec.to_builtins(each) for name, each in rounds.items() if name not in failed}
    return {name: {"rounds": each} for name, each in found.items()} | {
        name: {"failed": why} for name, why in failed.items()
    }


def _check_appenders(workload: Workload, up: Running) -> None:
    if workload.kind == "append" and up.appenders_max is not None and workload.clients > up.appenders_max:
        raise Unsupported(f"only {up.appenders_max} process may append to it at a time")


def _pace(done: dict[str, Any]) -> float:
    """A third of what the slowest synced system did before, in batches a second; 100 where nothing was measured."""
    measured = done.get(PACE_AFTER)
    if measured is None:
        return 100.0
    rates = [
        median(each["records_per_s"] for each in found["rounds"])
        for name, found in measured["systems"].items()
        if "rounds" in found
        and measured["about"][name]["durable"] == "synced"
        and measured["about"][name]["copies"] > 1
    ]
    return min(rates) / 3 if rates else 100.0


def load(kept: Path, settings: CompareSettings) -> dict[str, Any]:
    """What earlier runs with the same settings have measured."""
    try:
        lines = (kept / RESULTS).read_bytes().splitlines()
    except FileNotFoundError:
        return {}
    wanted = asdict(settings)
    found = [msgspec.json.decode(line) for line in lines]
    return {each["workload"]["name"]: each for each in found if wanted.items() <= each["settings"].items()}


def save(kept: Path, measured: dict[str, Any]) -> None:
    kept.mkdir(parents=True, exist_ok=True)
    with (kept / RESULTS).open("ab") as stream:
        stream.write(msgspec.json.encode(measured) + b"\n")


def report(measured: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Medians over the rounds with their spread, and ratios to the reference within each round."""
    about: dict[str, Any] = {}
    for each in measured:
        about |= each["about"]
    return {
        "bench": "compare",
        "reference": REFERENCE,
        "systems": about,
        "workloads": [
            {**each["workload"], "systems": _summaries(each["systems"]), "settings": each["settings"]}
            for each in measured
        ],
        "settings": measured[0]["settings"] if measured else {},
    }


def _summaries(systems: dict[str, Any]) -> dict[str, Any]:
    reference = systems.get(REFERENCE, {}).get("rounds")
    return {name: _summary(found, reference) for name, found in systems.items()}


def _summary(found: dict[str, Any], reference: list[dict[str, Any]] | None) -> dict[str, Any]:
    if "failed" in found:
        return found
    rounds = found["rounds"]
    rates = [each["records_per_s"] for each in rounds]
    summary: dict[str, Any] = {
        which: round(median(each[which] for each in rounds), 3)
        for which in ("records_per_s", "bytes_per_s", "server_cpu_us", "client_cpu_us", "written_bytes")
    }
    summary["spread"] = [round(min(rates), 1), round(max(rates), 1)]
    latencies = [each["latency"] for each in rounds if each["latency"] is not None]
    if latencies:
        summary["latency_ms"] = {
            which: round(median(each[which] for each in latencies), 4) for which in ("p50", "p99", "max")
        }
    if reference is not None:
        pairs = list(zip(rounds, reference, strict=False))
        summary["rate_to_reference"] = round(median(a["records_per_s"] / b["records_per_s"] for a, b in pairs), 3)
        if latencies and all(b["latency"] is not None for _, b in pairs):
            summary["p50_to_reference"] = round(median(a["latency"]["p50"] / b["latency"]["p50"] for a, b in pairs), 3)
    return summary


def _tell(progress: Progress, where: str, text: str) -> None:
    progress(f"{where}: {text}")


def _time_left(elapsed_s: float, done: int, all_of_them: int) -> str:
    """As it went so far.

    >>> _time_left(600, 5, 15)
    ', about 20 min left'
    """
    return f", about {max(1, round(elapsed_s / done * (all_of_them - done) / 60))} min left" if done else ""
