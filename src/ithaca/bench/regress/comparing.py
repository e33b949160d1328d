"""Both trees and the bare ceiling in turns, round by round, and the report about them."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from ithaca.bench.measure import Progress, Sample
from ithaca.bench.place import surroundings, workspace
from ithaca.bench.regress.trees import Tree, other_tree, this_tree
from ithaca.bench.regress.verdict import judge
from ithaca.bench.regress.workloads import WORKLOADS, Workload
from ithaca.bench.replicated import replicated_contenders
from ithaca.model.engine import DEFAULT_ENGINE, EngineName
from ithaca.model.errors import Unavailable
from ithaca.model.limits import MIB

AGENT = Path(__file__).with_name("agent.py")
KEPT_SEGMENTS = 2
FILL_SEGMENTS = 3 * KEPT_SEGMENTS
"""Segments are written over from there on."""
STOP_TIMEOUT_S = 60.0

Turn = dict[str, Any]


@dataclass(frozen=True, slots=True)
class RegressSettings:
    """`against` is a commit, or the directory of another tree."""

    against: str
    workloads: tuple[str, ...] = tuple(WORKLOADS)
    seconds: float = 1.5
    rounds: int = 5
    engine: EngineName = DEFAULT_ENGINE
    segment_bytes: int = 64 * MIB
    orderers: int = 3


class AgentProcess:
    """An agent from the outside."""

    def __init__(self, tree: Tree, directory: Path, settings: RegressSettings) -> None:
        self.tree = tree
        told = {
            "shape": {
                "engine": settings.engine,
                "segment_bytes": settings.segment_bytes,
                "orderers": settings.orderers,
            },
            "kept_bytes": KEPT_SEGMENTS * settings.segment_bytes,
            "range_bytes": settings.segment_bytes,
            "fill_bytes": FILL_SEGMENTS * settings.segment_bytes,
        }
        self._process = subprocess.Popen(
            # -P: nothing beside the agent's file may take the place of a library.
            [sys.executable, "-P", str(AGENT), str(directory), json.dumps(told)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": str(tree.root / "src")},
            start_new_session=True,  # Ctrl-C is ours, and ends it in order
        )

    def started(self) -> None:
        """Wait until its cluster is up; it must have imported its own tree."""
        said = self._answer()
        if Path(said["tree"]) != self.tree.root:
            raise Unavailable(f"asked for the tree in {self.tree.root}, Python took {said['tree']}")

    def turn(self, workload: Workload, seconds: float) -> Turn:
        asked = asdict(workload) | {"seconds": seconds}
        del asked["name"]
        assert self._process.stdin is not None
        print(json.dumps(asked), file=self._process.stdin, flush=True)
        return self._answer()

    def _answer(self) -> Turn:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise Unavailable(f"the agent of {self.tree.name} ended with status {self._process.wait()}")
        answer: Turn = json.loads(line)
        return answer

    def close(self) -> None:
        """Its cluster ends with it, whatever it was at."""
        self._process.terminate()
        with self._process:  # which closes the pipes
            try:
                self._process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()


def run_regress(parent: Path, settings: RegressSettings, progress: Progress) -> dict[str, Any]:
    """Everything the settings ask for, as one JSON-ready report."""
    this = this_tree()
    workloads = [WORKLOADS[name] for name in settings.workloads]
    with workspace(parent) as directory, ExitStack() as stack:
        setting = asdict(settings) | surroundings(directory)
        other = stack.enter_context(other_tree(settings.against, this, directory / "tree"))
        agents = {}
        for name, tree in (("this", this), ("other", other)):
            progress(f"starting and filling a cluster of {tree.name}")
            agents[name] = AgentProcess(tree, directory / name, settings)
            stack.callback(agents[name].close)
            agents[name].started()
        turns = _take_turns(directory, stack, agents, workloads, settings, progress)
    reports = {workload.name: _compared(turns[workload.name]) for workload in workloads}
    worse = [name for name, report in reports.items() if report["cpu"]["verdict"] == "worse"]
    return {
        "bench": "regress",
        "this": this.name,
        "other": other.name,
        "workloads": reports,
        "worse": worse,
        "settings": setting,
    }


def _take_turns(
    directory: Path,
    stack: ExitStack,
    agents: Mapping[str, AgentProcess],
    workloads: list[Workload],
    settings: RegressSettings,
    progress: Progress,
) -> dict[str, dict[str, list[Turn]]]:
    """Of each workload what each contender did, by rounds; every second round runs backwards."""
    turns: dict[str, dict[str, list[Turn]]] = {}
    contenders: dict[str, dict[str, Callable[[], Turn]]] = {}
    for workload in workloads:
        taking: dict[str, Callable[[], Turn]] = {
            name: partial(agent.turn, workload, settings.seconds) for name, agent in agents.items()
        }
        if (ceiling := workload.ceiling(settings.seconds, settings.segment_bytes)) is not None:
            place = directory / f"ceiling-{workload.name}"
            place.mkdir()
            bare = stack.enter_context(replicated_contenders(place, ceiling))["prewritten"]
            taking = {"ceiling": partial(_bare_turn, bare, workload), **taking}
        contenders[workload.name] = taking
        turns[workload.name] = {name: [] for name in taking}
    for round_number in range(settings.rounds):
        for name, taking in contenders.items():
            for contender in reversed(taking) if round_number % 2 else taking:
                progress(f"round {round_number + 1} of {settings.rounds}: {name}, {contender}")
                os.sync()
                turns[name][contender].append(taking[contender]())
    return turns


def _bare_turn(bare: Callable[[], Sample], workload: Workload) -> Turn:
    sample = bare()
    return {
        "operations": sample.records // workload.batch,
        "seconds": sample.seconds,
        "p50_ms": sample.latency.p50,
        "p99_ms": sample.latency.p99,
    }


def _compared(turns: Mapping[str, list[Turn]]) -> dict[str, Any]:
    def by_round(figure: Callable[[Turn], float]) -> list[float]:
        return [figure(this) / figure(other) for this, other in zip(turns["this"], turns["other"], strict=True)]

    report: dict[str, Any] = {
        "cpu": judge(by_round(_cpu_ms), less_is_better=True),
        "rate": judge(by_round(_rate), less_is_better=False),
        "p50": judge(by_round(lambda turn: float(turn["p50_ms"])), less_is_better=True),
    }
    for name in ("this", "other"):
        figures = {
            "cpu_ms_per_operation": round(median(map(_cpu_ms, turns[name])), 4),
            "cpu_ms_of": {
                process: round(median(turn["cpu_s"][process] * 1e3 / turn["operations"] for turn in turns[name]), 4)
                for process in turns[name][0]["cpu_s"]
            },
            "operations_per_s": round(median(map(_rate, turns[name])), 1),
            "p50_ms": round(median(turn["p50_ms"] for turn in turns[name]), 4),
        }
        if "ceiling" in turns:
            pairs = list(zip(turns[name], turns["ceiling"], strict=True))
            figures["share_of_ceiling"] = round(median(_rate(turn) / _rate(bare) for turn, bare in pairs), 4)
            figures["p50_by_ceiling"] = round(median(turn["p50_ms"] / bare["p50_ms"] for turn, bare in pairs), 4)
        report[name] = figures
    if "ceiling" in turns:
        report["ceiling"] = {"operations_per_s": round(median(map(_rate, turns["ceiling"])), 1)}
    return report | {"turns": turns}


def _cpu_ms(turn: Turn) -> float:
    return float(sum(turn["cpu_s"].values()) * 1e3 / turn["operations"])


def _rate(turn: Turn) -> float:
    return float(turn["operations"] / turn["seconds"])
