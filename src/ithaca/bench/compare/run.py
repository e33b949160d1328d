"""All systems side by side: every workload in interleaved rounds, kept as it is finished, so that a run can go on."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from ithaca.bench.children import reason
from ithaca.bench.compare.catalogue import REFERENCE
from ithaca.bench.compare.estimate import expected_s, told
from ithaca.bench.compare.kept import CompareSettings, Kept, missing
from ithaca.bench.compare.summary import report
from ithaca.bench.compare.system import Running, System
from ithaca.bench.compare.team import Round, Team, team
from ithaca.bench.compare.workloads import Workload
from ithaca.bench.measure import Progress
from ithaca.bench.place import surroundings, workspace
from ithaca.model.errors import Unsupported
from ithaca.version import VERSION

Told = dict[str, dict[str, Any]]
"""By the names of systems what a report says about them."""


def run_compare(
    parent: Path,
    directory: Path,
    systems: Sequence[System],
    workloads: Sequence[Workload],
    settings: CompareSettings,
    progress: Progress,
    note: Callable[[str], object] = lambda line: None,
) -> dict[str, Any]:
    """Measure what is not in `directory` yet, and report everything that is there then.

    `note` gets what somebody who waits wants to know before it begins.
    """
    kept = Kept(directory, settings)
    by_name, names = {system.name: system for system in systems}, [workload.name for workload in workloads]
    lacking = missing(kept, names, list(by_name))
    left = [workload for workload in workloads if workload.name in lacking]
    wanted = [system for system in systems if any(system.name in each for each in lacking.values())]
    about: Told = {}
    if left:
        note(_announcement(wanted, left, settings))
        with workspace(parent) as place, ExitStack() as stack:
            facts = {"version": VERSION, **surroundings(place), **asdict(settings)}
            running = _start_all(stack, place, wanted, about, progress)
            others = [name for name in running if name != REFERENCE]
            if others and REFERENCE in by_name and REFERENCE not in running:  # what is new is compared with it again
                running |= _start_all(stack, place, [by_name[REFERENCE]], about, progress)
            began = time.monotonic()
            for number, workload in enumerate(left, 1):
                rest = _time_left(time.monotonic() - began, number - 1, len(left))
                tell = partial(_tell, progress, f"{number} of {len(left)}{rest}: {workload.title}")
                turns = _taking_part(running, lacking[workload.name])
                if not turns:
                    continue
                pace = kept.pace(workload.name)
                found = _measure(turns, workload, settings, pace, about, tell)
                heading = {"workload": asdict(workload), "batches_per_s": pace, "settings": facts}
                kept.add({**heading, "systems": found, "about": {name: about[name] for name in turns}})
    return report(kept, names, list(by_name), about)


def _announcement(systems: Sequence[System], workloads: Sequence[Workload], settings: CompareSettings) -> str:
    expected = expected_s(len(systems), workloads, settings.rounds, settings.seconds, settings.warm_up_s)
    return (
        f"This takes {told(expected)}, and what has to be fetched besides: {len(systems)} systems, {len(workloads)} "
        f"workloads, {settings.rounds} rounds of {settings.seconds:g} s"
    )


def _taking_part(running: dict[str, Running], lacking: Sequence[str]) -> dict[str, Running]:
    """Those that were not measured yet, and the reference beside them; nobody where there are none."""
    found = {name: up for name, up in running.items() if name in lacking}
    if not found or REFERENCE not in running:
        return found
    return {REFERENCE: running[REFERENCE]} | found


def _start_all(
    stack: ExitStack, place: Path, systems: Sequence[System], about: Told, progress: Progress
) -> dict[str, Running]:
    """All that can be had; of the others the reason, whatever it is: nobody is held up by somebody else's failure."""
    running: dict[str, Running] = {}
    for system in systems:
        about[system.name] = {
            "durable": system.durable,
            "copies": system.copies,
            "order": system.order,
            "acknowledged": system.acknowledged,
        }
        directory = place / system.name.replace(" ", "-").replace(",", "")
        try:
            up = stack.enter_context(_kept_up(system, directory, partial(_tell, progress, system.name)))
        except Exception as error:
            about[system.name]["missing"] = reason(error)
        else:
            running[system.name] = up
            about[system.name] |= {"version": up.version, "settings": dict(up.settings)}
    return running


@contextmanager
def _kept_up(system: System, directory: Path, progress: Progress) -> Iterator[Running]:
    """A system whose end takes nothing along: what was measured is there already."""
    context = system.run(directory, progress)
    up = context.__enter__()
    try:
        yield up
    finally:
        try:
            context.__exit__(None, None, None)
        except Exception as error:
            progress(f"did not end well: {reason(error)}")


def _measure(
    running: dict[str, Running],
    workload: Workload,
    settings: CompareSettings,
    pace: float,
    about: Told,
    progress: Progress,
) -> dict[str, Any]:
    """Every system once per round, every second round backwards. Who fails is left out from then on, and told."""
    rounds: dict[str, list[Round]] = {}
    failed: dict[str, str] = {}
    with ExitStack() as stack:
        teams: dict[str, Team] = {}
        for name, up in running.items():
            progress(f"{name} warms up")
            try:
                _check(workload, up)
                teams[name] = ready = stack.enter_context(team(up, workload))
                ready.warm_up(settings.warm_up_s, pace)
            except Exception as error:
                failed[name] = reason(error)
        for turn in range(settings.rounds):
            for name in reversed(teams) if turn % 2 else teams:
                if name in failed:
                    continue
                progress(f"round {turn + 1} of {settings.rounds}: {name}")
                os.sync()  # what others left to be written is not written at this one's expense
                try:
                    rounds.setdefault(name, []).append(teams[name].turn(settings.seconds, pace))
                except Exception as error:
                    failed[name] = reason(error)
        for name in teams:
            progress(f"{name} gives up what was written")
            try:
                teams[name].clear()
            except Exception as error:
                about[name]["kept its space"] = f"after {workload.name}: {reason(error)}"
    found = {name: {"rounds": msgspec.to_builtins(each)} for name, each in rounds.items() if name not in failed}
    return found | {name: {"failed": why} for name, why in failed.items()}


def _check(workload: Workload, up: Running) -> None:
    if workload.kind == "append" and up.appenders_max is not None and workload.clients > up.appenders_max:
        raise Unsupported(f"only {up.appenders_max} process may append to it at a time")
    if workload.kind == "follow" and up.cannot_follow is not None:
        raise Unsupported(up.cannot_follow)


def _tell(progress: Progress, where: str, text: str) -> None:
    progress(f"{where}: {text}")


def _time_left(elapsed_s: float, done: int, all_of_them: int) -> str:
    """As it went so far.

    >>> _time_left(600, 5, 15)
    ', about 20 min left'
    """
    return f", about {max(1, round(elapsed_s / done * (all_of_them - done) / 60))} min left" if done else ""
