"""Prints the interpreter that set-up makes the virtual environment with: the quickest on the path that can.

Builds of one version differ by a third: one from a distribution was compiled with a profile of itself, one that was
compiled by hand often was not, and none says so in one place. So each is timed for a moment, by the processor's clock.
Only the standard library is needed, of any Python 3.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

OLDEST = (3, 11)
KNOWN = ((3, 11), (3, 12), (3, 13))
"""Those that this package is made for; a newer one is taken where there is none of them."""
NAMES = ("python3", *(f"python3.{minor}" for minor in range(11, 20)))
SAME = 0.05
"""Of interpreters that differ by less, the newest is taken."""
TIMEOUT_S = 30
PROBE = """
import ensurepip, sys, time, venv
def turn():
    table = {}
    for number in range(20000):
        table[number & 255] = (number, str(number), [number])
    return len(table)
def timed():
    began = time.process_time()
    turn()
    return time.process_time() - began
print(sys.version_info[0], sys.version_info[1], min(timed() for _ in range(9)), sys.executable)
"""


def places(path: str) -> list[str]:
    """Every interpreter that a name on the path leads to.

    >>> places("/nowhere")
    []
    """
    found: list[str] = []
    for directory in path.split(os.pathsep):
        for name in NAMES:
            program = shutil.which(name, path=directory) if directory else None
            if program is not None and program not in found:
                found.append(program)
    return found


def judged(program: str) -> tuple[float, tuple[int, int], str] | None:
    """Seconds for a turn, version and program; None for one that cannot make an environment."""
    try:
        done = subprocess.run(
            [program, "-I", "-c", PROBE], capture_output=True, text=True, timeout=TIMEOUT_S, check=True
        )
        major, minor, seconds, executable = done.stdout.split(maxsplit=3)
        version = int(major), int(minor)
        return (float(seconds), version, executable.strip()) if version >= OLDEST else None
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


def best(candidates: list[tuple[float, tuple[int, int], str]]) -> str:
    """The quickest, or the newest of those that are as quick.

    >>> best([(0.0050, (3, 11), "plain"), (0.0039, (3, 11), "optimised"), (0.0040, (3, 12), "newer")])
    'newer'
    """
    candidates = [each for each in candidates if each[1] in KNOWN] or candidates
    quickest = min(seconds for seconds, _, _ in candidates)
    good = [each for each in candidates if each[0] <= quickest * (1 + SAME)]
    return max(good, key=lambda each: each[1])[2]


def main() -> None:
    candidates = [found for found in map(judged, places(os.environ.get("PATH", os.defpath))) if found]
    if not candidates:
        sys.exit(
            "Ithaca needs Python 3.11 or newer with its venv module: install it (python3-venv with some package "
            "managers), or say make PYTHON=/path/to/python3.11"
        )
    print(best(candidates))


if __name__ == "__main__":
    main()
