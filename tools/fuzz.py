"""The decoders of outside bytes (`tests/fuzz/targets.py`) under a fuzzer that is guided by coverage (atheris).

    python tools/fuzz.py --target all --seconds 60
    python tools/fuzz.py --target raft-log --seconds 600

Each target runs in a process of its own and keeps what it has found out under `campaign-data/fuzz`, where the next
campaign goes on. Bytes that broke a decoder's contract are left there too, as `crash-...`, `timeout-...` and so on, and
are tried first next time; once the decoder is mended they belong into the target's `regressions`.
"""

import argparse
import importlib
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
DATA = ROOT / "campaign-data" / "fuzz"
INPUT_BYTES_MAX = 8192
INPUT_TIMEOUT_S = 10
MEMORY_MIB_MAX = 2048
INSTRUMENTED = ["ithaca", "tomllib"]


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--target", default="all", help="a name of tests/fuzz/targets.py, or all (the default)")
    arguments.add_argument("--seconds", type=int, default=60, help="for each target; 60 unless told otherwise")
    arguments.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    given = arguments.parse_args()
    sys.path[:0] = [str(ROOT), str(ROOT / "src")]
    if given.inside:
        _fuzz(given.target, given.seconds)
    from tests.fuzz.targets import TARGETS

    if given.target != "all" and given.target not in TARGETS:
        print(f"there is no target {given.target}: use all, or one of {', '.join(TARGETS)}", file=sys.stderr)
        return 2
    names = list(TARGETS) if given.target == "all" else [given.target]
    broken = [name for name in names if not _campaign(name, given.seconds)]
    if broken:
        print(f"\nbroken: {', '.join(broken)}; what broke them is under {DATA.relative_to(ROOT)}", file=sys.stderr)
    return 1 if broken else 0


def _campaign(name: str, seconds: int) -> bool:
    """Run one target in a process of its own; says how it went, and returns whether nothing was found."""
    (DATA / name / "corpus").mkdir(parents=True, exist_ok=True)
    command = [sys.executable, __file__, "--inside", "--target", name, "--seconds", str(seconds)]
    started = time.monotonic()
    done = subprocess.run(command, cwd=DATA / name, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    (DATA / name / "log").write_bytes(done.stdout)
    said = done.stdout.decode(errors="replace")
    last = re.findall(r"^#(\d+)\s.*cov: (\d+) ft: (\d+) corp: (\d+)", said, re.MULTILINE)[-1:]
    runs, covered, _, corpus = last[0] if last else ("0", "0", "0", "0")
    verdict = "nothing found" if done.returncode == 0 else "BROKEN: " + _finding(said)
    spent = time.monotonic() - started
    print(
        f"{name:<22} {int(runs):>9,} runs in {spent:4.0f} s, {covered:>5} edges, {corpus:>4} kept: {verdict}",
        flush=True,
    )
    return done.returncode == 0


def _finding(said: str) -> str:
    """What the fuzzer says went wrong, in one line."""
    found = re.search(r"=== Uncaught Python exception: ===\s+(.+)", said) or re.search(r"ERROR: (libFuzzer: .+)", said)
    return found[1].strip() if found else (said.strip().splitlines() or ["it said nothing"])[-1]


def _fuzz(name: str, seconds: int) -> None:
    """Try the target until the time is over or its contract is broken; ends the process."""
    atheris: Any = importlib.import_module("atheris")
    with atheris.instrument_imports(include=INSTRUMENTED):
        from tests.fuzz.targets import TARGETS
    target = TARGETS[name]
    for number, seed in enumerate((*target.seeds, *target.regressions)):
        (Path("corpus") / f"seed-{number}").write_bytes(seed)
    for found in [*Path().glob("crash-*"), *Path().glob("timeout-*"), *Path().glob("oom-*")]:
        (Path("corpus") / found.name).write_bytes(found.read_bytes())

    def once(data: bytes) -> None:
        target.accepts(data)
        repaired = target.repair(data)
        if repaired != data:
            target.accepts(repaired)

    options = {
        "max_total_time": seconds,
        "max_len": INPUT_BYTES_MAX,
        "timeout": INPUT_TIMEOUT_S,
        "rss_limit_mb": MEMORY_MIB_MAX,
        "print_final_stats": 1,
    }
    atheris.Setup([sys.argv[0], *(f"-{option}={value}" for option, value in options.items()), "corpus"], once)
    atheris.Fuzz()
    os._exit(0)  # the fuzzer ends the process itself


if __name__ == "__main__":
    sys.exit(main())
