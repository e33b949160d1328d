"""Which lines of the product the simulator's seeds reach: `python -m tools.seed_coverage 1..40`.

For each package the share of its lines that some seed reaches, and that only few do; with `--list`, the lines that none
reaches, by function. A line that no seed reaches is a line in which no seed finds a mistake. Results may be kept in a
file and added to, a few seeds at a time: `--keep FILE`.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import ithaca
from ithaca.sim.run import run_seed

PACKAGES = (
    "raft",
    *(f"engines/scalog/{name}" for name in ("ordering", "replica", "storage", "client", "server")),
    "storage",
    "client",
    "server",
)
SELDOM = 3
"""Seeds that reach a line, at most, for it to count as seldom reached."""
ROOT = Path(ithaca.__file__).parent


class Reached:
    """The lines that one seed reaches. A function of which all lines were reached is not looked at any more."""

    def __init__(self, wanted: frozenset[str]) -> None:
        self._wanted = wanted
        self.lines: set[tuple[str, int]] = set()
        self._left: dict[CodeType, set[int]] = {}

    def trace(self, frame: FrameType, event: str, _: Any) -> Any:
        code = frame.f_code
        left = self._left.get(code)
        if left is None:
            left = set(lines_of(code)) if code.co_filename in self._wanted else set()
            self._left[code] = left
        return self._local if left else None

    def _local(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            left = self._left[frame.f_code]
            left.discard(frame.f_lineno)
            self.lines.add((frame.f_code.co_filename, frame.f_lineno))
            if not left:
                return None
        return self._local


def lines_of(code: CodeType) -> Iterator[int]:
    """The lines of a function that can be reached, without those of functions in it and of its head."""
    for _, _, line in code.co_lines():
        if line is not None and line != code.co_firstlineno:
            yield line


def functions_of(code: CodeType, name: str = "") -> Iterator[tuple[str, CodeType]]:
    """All functions of a module, by their names."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            inner = f"{name}.{constant.co_name}" if name else constant.co_name
            if constant.co_flags & 0x2:  # it has local variables of its own: a function, and no class body
                yield inner, constant
            yield from functions_of(constant, inner)


def reached_by(seed: int, files: frozenset[str]) -> set[tuple[str, int]]:
    reached = Reached(files)
    sys.settrace(reached.trace)
    try:
        result = run_seed(seed)
    finally:
        sys.settrace(None)
    if result.violation is not None:
        print(f"seed {seed}: {result.violation}", file=sys.stderr)
    return reached.lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seeds", help="such as 1..40")
    parser.add_argument("--keep", type=Path, help="a file to which the results are added")
    parser.add_argument("--list", action="store_true", help="name the functions with lines that no seed reaches")
    arguments = parser.parse_args()
    first, _, last = arguments.seeds.partition("..")
    sources = {str(path): path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))}
    counts: Counter[tuple[str, int]] = Counter()
    seeds: list[int] = []
    if arguments.keep is not None and arguments.keep.exists():
        kept = json.loads(arguments.keep.read_text())
        seeds, counts = kept["seeds"], Counter({(name, line): count for name, line, count in kept["lines"]})
    for seed in range(int(first), int(last or first) + 1):
        if seed not in seeds:
            found = reached_by(seed, frozenset(sources))
            counts.update((str(Path(name).relative_to(ROOT)), line) for name, line in found)
            seeds.append(seed)
    if arguments.keep is not None:
        rows = [(name, line, count) for (name, line), count in sorted(counts.items())]
        arguments.keep.write_text(json.dumps({"seeds": seeds, "lines": rows}))
    report(sources, counts, len(seeds), listed=arguments.list)


def report(sources: dict[str, Path], counts: Counter[tuple[str, int]], seeds: int, *, listed: bool) -> None:
    """Print the table, and what is never reached if it is asked for."""
    print(f"{'package':24} {'lines':>6} {'reached':>8} {'by few':>7}   ({seeds} seeds)")
    for package in PACKAGES:
        total = reached = seldom = 0
        missing: list[str] = []
        for path in [path for path in sources.values() if path.is_relative_to(ROOT / package)]:
            name = str(path.relative_to(ROOT))
            for function, code in functions_of(compile(path.read_text(), str(path), "exec")):
                lines = set(lines_of(code))
                found = {line: counts[name, line] for line in lines}
                total += len(lines)
                reached += sum(count > 0 for count in found.values())
                seldom += sum(0 < count <= SELDOM for count in found.values())
                never = sorted(line for line, count in found.items() if not count)
                if never:
                    missing.append(f"  {name}:{','.join(map(str, never))} {function}")
        print(f"{package:24} {total:6} {reached / max(1, total):8.1%} {seldom / max(1, total):7.1%}")
        if listed:
            print("\n".join(missing))


if __name__ == "__main__":
    main()
