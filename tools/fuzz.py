"""The decoders of outside bytes (`tests/fuzz/targets.py`) under a fuzzer that is guided by coverage (atheris).

    python tools/fuzz.py --target all --seconds 60
    python tools/fuzz.py --target raft-log --seconds 600
    python tools/fuzz.py --target connection,login --runs 10000000

A target ends with whichever of the two comes first; with `--runs` alone there is no end by time. How many inputs each
target was given is said meanwhile, and at the end, also of one that was interrupted or broken.

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
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent
DATA = ROOT / "campaign-data" / "fuzz"
INPUT_BYTES_MAX = 8192
INPUT_TIMEOUT_S = 10
MEMORY_MIB_MAX = 2048
INSTRUMENTED = ["ithaca", "tomllib"]
SECONDS = 60
TELL_S = 10.0
_TOLD = re.compile(r"^runs so far: (\d+) in ([\d.]+) s$")


class Outcome(NamedTuple):
    """What came of one target."""

    name: str
    runs: int
    seconds: float
    """From the first of them on."""
    is_broken: bool


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--target", default="all", help="names of tests/fuzz/targets.py with commas, or all")
    arguments.add_argument("--seconds", type=int, help=f"for each target; {SECONDS} unless --runs says when it ends")
    arguments.add_argument("--runs", type=int, default=0, help="inputs for each target")
    arguments.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    given = arguments.parse_args()
    sys.path[:0] = [str(ROOT), str(ROOT / "src")]
    seconds = given.seconds if given.seconds is not None else 0 if given.runs else SECONDS
    if given.inside:
        _fuzz(given.target, seconds, given.runs)
    from tests.fuzz.targets import TARGETS

    names = list(TARGETS) if given.target == "all" else given.target.split(",")
    unknown = [name for name in names if name not in TARGETS]
    if unknown:
        print(f"there is no target {unknown[0]}: use all, or some of {', '.join(TARGETS)}", file=sys.stderr)
        return 2
    done: list[Outcome] = []
    try:
        for name in names:
            _campaign(name, seconds, given.runs, done)
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130
    finally:
        _sum_up(done)
    broken = [each.name for each in done if each.is_broken]
    if broken:
        print(f"\nbroken: {', '.join(broken)}; what broke them is under {DATA}", file=sys.stderr)
    return 1 if broken else 0


def _campaign(name: str, seconds: int, runs: int, done: list[Outcome]) -> None:
    """Run one target in a process of its own, say how it goes, and note what came of it, however it ends."""
    (DATA / name / "corpus").mkdir(parents=True, exist_ok=True)
    command = [sys.executable, __file__, "--inside", "--target", name, "--seconds", str(seconds), "--runs", str(runs)]
    told, said, made, spent = time.monotonic(), "", 0, 0.0
    fuzzing = subprocess.Popen(
        command, cwd=DATA / name, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", errors="replace"
    )
    assert fuzzing.stdout is not None
    try:
        with (DATA / name / "log").open("w", encoding="utf-8") as log:
            for line in fuzzing.stdout:
                log.write(line)
                so_far = _TOLD.match(line)
                if so_far is None:
                    said += line
                else:
                    made, spent = int(so_far[1]), float(so_far[2])
                    if time.monotonic() - told >= TELL_S:
                        told = time.monotonic()
                        _tell(name, made, runs, spent)
        code = fuzzing.wait()
    except BaseException:
        fuzzing.terminate()
        done.append(Outcome(name, made, spent, is_broken=False))
        raise
    finally:
        fuzzing.stdout.close()
        fuzzing.wait()
    made = max([made, *map(int, re.findall(r"^stat::number_of_executed_units:\s+(\d+)", said, re.MULTILINE))])
    done.append(Outcome(name, made, spent, is_broken=code != 0))
    last = re.findall(r"^#\d+\s.*cov: (\d+) ft: \d+ corp: (\d+)", said, re.MULTILINE)[-1:]
    covered, corpus = last[0] if last else ("0", "0")
    verdict = "nothing found" if code == 0 else f"BROKEN, status {code}: {_finding(said)}"
    print(f"{name:<22} {made:>11,} runs in {spent:4.0f} s, {covered:>5} edges, {corpus:>4} kept: {verdict}", flush=True)


def _tell(name: str, made: int, wanted: int, spent_s: float) -> None:
    share = f" of {wanted:,}" if wanted else ""
    print(
        f"{name:<22} {made:>11,}{share} runs so far, {made / max(spent_s, 1e-9):,.0f} a second",
        file=sys.stderr,
        flush=True,
    )


def _sum_up(done: list[Outcome]) -> None:
    """How many inputs each target was given, and how fast."""
    print("\nruns:")
    for each in done:
        print(f"  {each.name:<20} {each.runs:>13,}  {each.runs / max(each.seconds, 1e-9):>9,.0f} a second")
    print(f"  {'all':<20} {sum(each.runs for each in done):>13,}", flush=True)


def _finding(said: str) -> str:
    """What the fuzzer says went wrong, in one line."""
    found = re.search(r"=== Uncaught Python exception: ===\s+(.+)", said) or re.search(r"ERROR: (libFuzzer: .+)", said)
    return found[1].strip() if found else (said.strip().splitlines() or ["it said nothing"])[-1]


def _fuzz(name: str, seconds: int, runs: int) -> None:
    """Try the target until time or runs are used up, or its contract is broken; ends the process."""
    atheris: Any = importlib.import_module("atheris")
    with atheris.instrument_imports(include=INSTRUMENTED):
        from tests.fuzz.targets import TARGETS
    target = TARGETS[name]
    for number, seed in enumerate((*target.seeds, *target.regressions)):
        (Path("corpus") / f"seed-{number}").write_bytes(seed)
    for found in [*Path().glob("crash-*"), *Path().glob("timeout-*"), *Path().glob("oom-*")]:
        (Path("corpus") / found.name).write_bytes(found.read_bytes())

    begun_s = told_s = time.monotonic()
    made = 0

    def once(data: bytes) -> None:
        nonlocal made, told_s
        made += 1
        now_s = time.monotonic()
        if now_s - told_s >= 1 or made == runs:
            told_s = now_s
            print(f"runs so far: {made} in {now_s - begun_s:.1f} s", flush=True)
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
        **({"atheris_runs": runs} if runs else {}),
    }
    atheris.Setup([sys.argv[0], *(f"-{option}={value}" for option, value in options.items()), "corpus"], once)
    atheris.Fuzz()
    os._exit(0)  # the fuzzer ends the process itself


if __name__ == "__main__":
    sys.exit(main())
