"""Flame graphs of servers and producers, drawn by py-spy while they are at work.

Sampling costs time on the cores that are measured, so it happens in a turn of its own that is not counted.
"""

import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Mapping
from pathlib import Path

from ithaca.bench.measure import Progress

RATE_HZ = 200
END_TIMEOUT_S = 60.0
"""How long py-spy may take to draw."""


def find_py_spy() -> str | None:
    """The command, beside this interpreter or on the path."""
    return shutil.which("py-spy", path=sysconfig.get_path("scripts")) or shutil.which("py-spy")


def draw_profiles(
    directory: Path, pids: Mapping[str, int], seconds: float, work: Callable[[], object], progress: Progress
) -> dict[str, str]:
    """A flame graph of every process during `work`, which takes at least `seconds`; names and files, or why not."""
    command = find_py_spy()
    if command is None:
        return {"skipped": f"py-spy is not installed for {sys.executable}: pip install py-spy"}
    directory.mkdir(parents=True, exist_ok=True)
    progress(f"profiling {len(pids)} processes, not counted")
    files = {name: directory / f"{name.replace(' ', '-')}.svg" for name in pids}
    drawing = {name: _record(command, pid, files[name], seconds) for name, pid in pids.items()}
    try:
        work()
        return {name: _outcome(each, files[name]) for name, each in drawing.items()}
    finally:
        for each in drawing.values():
            each.kill()
            each.communicate()


def _record(command: str, pid: int, file: Path, seconds: float) -> "subprocess.Popen[str]":
    options = ["--pid", str(pid), "--duration", str(max(1, round(seconds))), "--rate", str(RATE_HZ)]
    return subprocess.Popen(
        [command, "record", *options, "--format", "flamegraph", "--output", str(file)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _outcome(drawing: "subprocess.Popen[str]", file: Path) -> str:
    try:
        said, _ = drawing.communicate(timeout=END_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return f"skipped: py-spy was not done after {END_TIMEOUT_S:.0f} s"
    if drawing.returncode == 0 and file.exists():
        return str(file)
    lines = [line for line in said.splitlines() if line.strip()]
    reason = lines[0].removeprefix("Error: ") if lines else f"py-spy ended with status {drawing.returncode}"
    refused = any(word in said for word in ("ermission", "EPERM", "not permitted"))
    way_out = ": run as root, or set kernel.yama.ptrace_scope to 0" if refused else ""
    return f"skipped: {reason}{way_out}"
