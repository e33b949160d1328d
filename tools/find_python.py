"""Say which Python a new environment gets, and whether one on the path is quicker, so that who wants can name it.

Builds of one version differ by up to a third in speed, and do not all say how they were built: so each runs the same
little program. The quickest is said and not chosen, since `python3` is what a machine's owner means by Python.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from typing import NamedTuple

NEWEST_MINOR = 14
"""The newest version that is looked for."""
WORTH_IT = 0.9
"""What takes more than this share of the time is not worth a word."""
_PROGRAM = """
import sys, time

class Lane:
    __slots__ = ("length",)
    def __init__(self): self.length = 0
    def take(self, count, sizes):
        self.length += count
        sizes[self.length & 63] = count
        return self.length

def work():
    lane, sizes = Lane(), {}
    for number in range(20000):
        if lane.take(number & 7, sizes) < 0: raise AssertionError
    return sum(sorted(sizes.values()))

def taken():
    begun = time.process_time()
    work()
    return time.process_time() - begun

print(*sys.version_info[:3], min(taken() for _ in range(12)), sys.executable)
"""


class Interpreter(NamedTuple):
    """One that was found."""

    version: tuple[int, int, int]
    taken_s: float
    """Processor time of the program, at least."""
    path: str

    @property
    def text(self) -> str:
        return f"Python {'.'.join(map(str, self.version))}, {self.path}"


def parsed(said: str) -> Interpreter | None:
    """What an interpreter says of itself; None when it is no such interpreter.

    >>> parsed("3 12 1 0.0125 /usr/bin/python3.12")
    Interpreter(version=(3, 12, 1), taken_s=0.0125, path='/usr/bin/python3.12')
    >>> parsed("pyenv: python3.12: command not found")
    """
    try:
        major, minor, patch, taken_s, path = said.split(maxsplit=4)
        return Interpreter((int(major), int(minor), int(patch)), float(taken_s), path.strip())
    except ValueError:
        return None


def quicker(this: Interpreter, others: Iterable[Interpreter]) -> Interpreter | None:
    """The quickest of the others, if it is worth a word."""
    best = min(others, default=this, key=lambda each: each.taken_s)
    return best if best.taken_s < WORTH_IT * this.taken_s else None


def asked(path: str) -> Interpreter | None:
    try:
        said = subprocess.run([path, "-c", _PROGRAM], capture_output=True, text=True, check=False, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parsed(said.stdout)


def found() -> list[Interpreter]:
    """Those on the path, each once: a directory further back may have another build of the same version."""
    paths = {}
    for directory in os.get_exec_path():
        for minor in range(11, NEWEST_MINOR + 1):
            path = shutil.which(f"python3.{minor}", path=directory)
            if path is not None:
                paths[os.path.realpath(path)] = path
    return [each for path in paths.values() if (each := asked(path)) is not None]


def main() -> None:
    this = asked(sys.executable)
    assert this is not None, "this interpreter does not answer itself"
    print(f"Using {this.text}")
    best = quicker(this, found())
    if best is not None:
        share = best.taken_s / this.taken_s
        print(f"{best.text}, takes {share:.2f} of its time: to use it, make clean, then make setup PYTHON={best.path}")


if __name__ == "__main__":
    main()
