"""Supervised programs for tests: tiny ones, and a supervisor that runs in a process of its own."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ithaca.cluster.state import ChildState, SupervisorState, load_state
from ithaca.cluster.supervisor import Program, Supervisor

DEADLINE_S = 60.0


def program(name: str, code: str) -> Program:
    """A child that runs a line of Python, bound to its supervisor as servers are."""
    return Program(
        name,
        [
            sys.executable,
            "-c",
            f"from ithaca.server.process import die_with_supervisor; die_with_supervisor(); {code}",
        ],
    )


SLEEP = "import time; print('ready', flush=True); time.sleep(600)"


def eventually(condition: Callable[[], bool], what: str) -> None:
    """Wait until the condition holds."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"not within {DEADLINE_S} s: {what}"
        time.sleep(0.01)


async def eventually_awaited(condition: Callable[[], bool], what: str) -> None:
    """The same, while a supervisor runs in this loop."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"not within {DEADLINE_S} s: {what}"
        await asyncio.sleep(0.01)


def is_running(pid: int) -> bool:
    """Whether the process is there, and more than a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def state_of(directory: Path) -> SupervisorState:
    state = load_state(directory)
    assert state is not None
    return state


def child_of(directory: Path, name: str) -> ChildState:
    return next(child for child in state_of(directory).children if child.name == name)


def running_pids(directory: Path, count: int) -> list[int]:
    """The process ids of all children, once `count` of them run."""

    def pids() -> list[int]:
        state = load_state(directory)
        children = [] if state is None else state.children
        return [child.pid for child in children if child.phase == "running" and child.pid is not None]

    eventually(lambda: len(pids()) == count, f"{count} children run")
    return pids()


@contextmanager
def supervisor_process(directory: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A process that supervises two sleeping children; killed at the end if it is still there."""
    code = "import sys; from tests.cluster.supervising import main; main(sys.argv[1])"
    root = Path(__file__).parents[2]
    with subprocess.Popen([sys.executable, "-c", code, directory], cwd=root, env=os.environ.copy()) as process:
        try:
            yield process
        finally:
            process.kill()


def main(directory: str) -> None:
    """What that process does."""

    async def supervise() -> None:
        await Supervisor(Path(directory), [program("one", SLEEP), program("two", SLEEP)], print).run()

    asyncio.run(supervise())
