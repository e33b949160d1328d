"""Workers of a campaign: none outlives the command."""

import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path


def children_of(process: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):
                if int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1]) == process:
                    found.append(int(entry.name))
    return found


def is_running(process: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    return False


def test_workers_end_with_a_command_that_is_killed() -> None:
    command = [sys.executable, "-m", "ithaca", "sim", "--seeds", "1..500", "--workers", "2", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as sim:
        assert sim.stdout is not None
        assert sim.stdout.readline()  # the first result: they are at it
        workers = children_of(sim.pid)
        assert len(workers) >= 2
        sim.kill()
    deadline = time.monotonic() + 30
    while any(map(is_running, workers)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(is_running, workers))
