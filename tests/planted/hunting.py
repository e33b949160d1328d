"""Runs seeds with a bug in the product until one is violated.

A bug is never in the product, not even behind a switch. `mutant` is run in an interpreter of its own and changes one
module while it is imported there.
"""

import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ithaca.sim.configuration import Configuration, configuration_of
from tests.planted import mutant
from tests.planted.bug import Bug

SEEDS = range(1, 201)
"""Where a bug is looked for. More than any takes: what a seed means changes with every change of the simulator."""

_SEED_S = 600.0
"""A seed that takes longer never ends."""
_TEXT_MAX = 160
_FAULTS_FEW = 8


@dataclass(frozen=True)
class Caught:
    """The first seed that a bug did not get past, and the rule that it broke there; None when it got past all."""

    seed: int | None
    rule: str | None
    seeds_run: int
    text: str

    def __str__(self) -> str:
        if self.seed is None:
            return f"NOT CAUGHT by {self.seeds_run} seeds"
        return f"seed {self.seed:3}  {self.text}"


def ordered(bug: Bug, seeds: Iterable[int]) -> list[int]:
    """The seeds that have what the bug needs, and then the others; of each those with few kinds of faults first, since
    with many each of them comes seldom.
    """

    def place(seed: int) -> tuple[bool, bool]:
        drawn = _drawn(seed, bug.engine)
        return not bug.needs(drawn), len(drawn.faults) > _FAULTS_FEW

    return sorted(seeds, key=place)


@cache
def _drawn(seed: int, engine: str) -> Configuration:
    return configuration_of(seed, engine)


def hunt(bug: Bug, seeds: Iterable[int] = SEEDS) -> Caught:
    """Run seeds with this bug in the product until one is violated; raises when the bug cannot be planted."""
    chosen = ordered(bug, seeds)
    said = {"name": bug.name, "module": bug.module, "old": bug.old, "new": bug.new, "engine": bug.engine}
    task = json.dumps({**said, "seeds": chosen})
    command = [sys.executable, "-P", str(Path(mutant.__file__))]
    with (
        tempfile.TemporaryFile("w+") as complaints,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=complaints, text=True
        ) as process,
    ):
        assert process.stdin is not None
        process.stdin.write(task)
        process.stdin.close()
        run = 0
        while (line := _next_line(process)) != "":
            if line is None:
                return Caught(chosen[run], "hangs", run + 1, f"hangs: the seed does not end within {_SEED_S:g} s")
            said = json.loads(line)
            run += 1
            if said["rule"] is not None:
                return Caught(said["seed"], said["rule"], run, _one_line(said["text"]))
        if process.wait():
            complaints.seek(0)
            raise RuntimeError(f"the bug {bug.name!r} could not be hunted:\n{complaints.read()}")
        return Caught(None, None, run, "")


def _next_line(process: "subprocess.Popen[str]") -> str | None:
    """What the process says next; None when that took too long, and it was killed."""
    assert process.stdout is not None
    is_stuck = threading.Event()

    def give_up() -> None:
        is_stuck.set()
        process.kill()

    timer = threading.Timer(_SEED_S, give_up)
    timer.start()
    line = process.stdout.readline()
    timer.cancel()
    return None if is_stuck.is_set() else line


def _one_line(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _TEXT_MAX else flat[: _TEXT_MAX - 1] + "…"
