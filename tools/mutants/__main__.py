"""The command: `python -m tools.mutants --help`."""

import argparse
import hashlib
import marshal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.mutants import judging
from tools.mutants.operators import Mutant, mutants, mutated
from tools.mutants.probes import Judge, Recording, nearest, packed, prepare
from tools.mutants.report import Excused, Results, Verdict, noticed_share, shown, survivors, tables
from tools.mutants.sources import ROOT, Module, modules, package_of, sample

DATA = ROOT / "campaign-data"
SEEDS = range(1, 41)
NOTICED_MIN = 0.95
OWN_TESTS_S = 15.0
"""How long the tests of a mutant's own package usually take in the first round."""
PATIENCE = 4.0
"""A test that hangs gets so much more time before that is believed: the machine may be busy."""
NOT_JUDGES = ("apps", "bench", "cli", "sim", "tools", "torture")
"""Directories of tests that take long and look at something else; seeds judge apart."""
FOR_THEIR_OWN = {"spark"}
"""Directories of tests that take long, and judge only their own package."""


def main() -> int:
    given = _arguments()
    DATA.mkdir(exist_ok=True)
    all_modules = modules()
    chosen = sample(all_modules, given.sample, given.seed, given.only)
    results, excused = Results(DATA / "mutants.json"), Excused()
    every = [each for module in all_modules for each in mutants(module.name, module.source)]
    for stale in excused.stale(every):
        print(f"an excuse is not needed any more, its text is gone: {stale}", file=sys.stderr)
    kinds = ["tests", "seeds"] if given.by == "both" else [given.by]
    if not given.report:
        judging.load_heavy()
        if not given.resume and not given.survivors and given.limit is None:
            results.forget()
        for kind in kinds:
            _judge_all(kind, chosen, all_modules, results, given)
    for kind in kinds:
        print(tables(chosen, results, excused, kind) + "\n")
    if "tests" in kinds:
        print(survivors(chosen, results, excused, "tests"))
        share = noticed_share(chosen, results, excused, "tests")
        if share is not None:
            print(
                f"tests notice {share:.1%} of those that make a difference; at least {NOTICED_MIN:.0%} must be noticed"
            )
        return 0 if share is None or share >= NOTICED_MIN else 1
    return 0


def _arguments() -> argparse.Namespace:
    arguments = argparse.ArgumentParser(prog="python -m tools.mutants", description="Who notices small mistakes?")
    arguments.add_argument("--sample", type=int, default=300, help="how many mutants; 300 unless told otherwise")
    arguments.add_argument("--seed", type=int, default=14, help="draws the sample")
    arguments.add_argument("--only", metavar="MODULE", help="a module, or a package as ithaca.raft")
    arguments.add_argument("--by", choices=("tests", "seeds", "both"), default="both", help="who judges")
    arguments.add_argument("--resume", action="store_true", help="go on behind those that are judged already")
    arguments.add_argument("--limit", type=int, metavar="N", help="resume, and stop after so many")
    arguments.add_argument("--survivors", action="store_true", help="judge those again that lived")
    arguments.add_argument("--most-s", type=float, default=60.0, help="of tests for one mutant, by their usual times")
    arguments.add_argument("--without", metavar="PATH", action="append", default=[], help="below tests, as cluster")
    arguments.add_argument("--record", action="store_true", help="record again what each test and seed executes")
    arguments.add_argument("--report", action="store_true", help="only print what is known")
    return arguments.parse_args()


def _judge_all(
    kind: str, chosen: list[Mutant], all_modules: list[Module], results: Results, given: argparse.Namespace
) -> None:
    excused = Excused()

    def is_due(mutant: Mutant) -> bool:
        if excused.reason(mutant) is not None:
            return False
        verdict = results.get(mutant, kind)
        return not verdict.is_noticed if given.survivors and verdict is not None else verdict is None

    due = [mutant for mutant in chosen if is_due(mutant)][: given.limit]
    if not due:
        return
    recording = Recording.load(DATA / f"mutants-{kind}.json")
    if kind == "tests":
        packages = {package_of(mutant.statement.module) for mutant in due}
        _record_tests(recording, all_modules, given.record, [*NOT_JUDGES, *given.without, *(FOR_THEIR_OWN - packages)])
    else:
        _record_seeds(recording, all_modules, given.record)
    reaching = recording.reaching()
    sources = {module.name: module for module in all_modules}
    with _bar(f"mutants by {kind}", len(due)) as advance:
        for mutant in due:
            names = nearest(reaching, mutant.statement.key)
            with judging.changed_modules() as changed:
                module = sources[mutant.statement.module]
                tree = mutated(module.name, module.source, mutant)
                code = compile(tree, str(module.path), "exec", dont_inherit=True)
                (changed / module.name).write_bytes(marshal.dumps(code))
                usual_s = {name: recording.judges[name].seconds for name in names}
                judge = _judged_by_tests if kind == "tests" else _judged_by_seeds
                verdict = judge(mutant, usual_s, changed, given.most_s)
                if verdict.verdict == "lived" and mutant.statement.key not in reaching:
                    verdict = Verdict("unreached", cpu_s=verdict.cpu_s)
            results.put(mutant, kind, verdict)
            if not verdict.is_noticed:
                print(f"{shown(mutant)}    {verdict.verdict}", file=sys.stderr)
            advance()


def _judged_by_tests(mutant: Mutant, usual_s: dict[str, float], changed: Path, most_s: float) -> Verdict:
    """First the tests of the mutant's own package, then all others that reach it, as long as the time allows."""
    own = f"tests/{package_of(mutant.statement.module)}/"
    foreign = tuple(f"tests/{name}/" for name in FOR_THEIR_OWN)
    usual_s = {name: s for name, s in usual_s.items() if name.startswith(own) or not name.startswith(foreign)}
    rounds: list[dict[str, float]] = [{}, {}]
    spent_s = 0.0
    for name in sorted(usual_s, key=lambda each: (not each.startswith(own), usual_s[each])):
        spent_s += usual_s[name]
        if spent_s <= most_s or not rounds[0]:
            rounds[0 if name.startswith(own) and spent_s < OWN_TESTS_S else 1][name] = usual_s[name]
    cpu_s = 0.0
    while rounds:
        ended = judging.run_tests(rounds[0], changed) if rounds[0] else judging.Ended(0, 0.0, 0.0)
        cpu_s += ended.cpu_s
        by = ended.said.get("by", "")
        if ended.status == 0:
            del rounds[0]
        elif by not in rounds[0] or "pytest-timeout" not in ended.said["why"]:
            verdict = "hung" if ended.status is None else "killed"
            return Verdict(verdict, by, ended.said.get("why") or ended.output[-300:], round(cpu_s, 1))
        else:
            again = judging.run_tests({by: rounds[0].pop(by)}, changed, PATIENCE)
            cpu_s += again.cpu_s
            if again.status != 0:
                return Verdict("hung", by, ended.said["why"], round(cpu_s, 1))
    return Verdict("lived" if usual_s else "unreached", cpu_s=round(cpu_s, 1))


def _judged_by_seeds(mutant: Mutant, usual_s: dict[str, float], changed: Path, most_s: float) -> Verdict:
    if not usual_s:
        return Verdict("unreached")
    ended = judging.run_seeds({int(seed): usual_s[seed] for seed in sorted(usual_s, key=int)}, changed)
    if ended.status == 0:
        return Verdict("lived", cpu_s=round(ended.cpu_s, 1))
    seed = next(reversed(ended.said), "")
    verdict = "hung" if ended.status is None or ended.status < 0 else "killed"
    return Verdict(verdict, seed, str(ended.said.get(seed, {}).get("rule") or ""), round(ended.cpu_s, 1))


def _record_tests(recording: Recording, all_modules: list[Module], again: bool, without: list[str]) -> None:
    """Record the files of tests that are new or changed; tests that fail without any mutant judge nobody."""
    looks = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        inside = path.relative_to(ROOT / "tests")
        if not any(inside.is_relative_to(each) for each in without):
            looks[str(path.relative_to(ROOT))] = hashlib.sha256(path.read_bytes()).hexdigest()
    for file in [file for file in recording.files if not (ROOT / file).exists()]:
        _forget(recording, file)
    due = [file for file, look in looks.items() if again or recording.files.get(file) != look]
    if not due:
        return
    with judging.changed_modules() as changed, _bar("recording tests", len(due)) as advance:
        table = prepare(all_modules, changed)
        places = recording.interned(table)
        for file in due:
            ended = judging.record_tests(file, changed)
            if not ended.said.get("tests") and ended.status not in (0, 5):
                raise RuntimeError(f"{file} could not be recorded:\n{ended.output[-2000:]}")
            _forget(recording, file)
            for name, test in ended.said["tests"].items():
                if test["outcome"] == "passed":
                    hits = packed(places, bytes.fromhex(test["hits"]), len(recording.keys))
                    recording.judges[name] = Judge(test["seconds"], hits)
            failed = [name for name, test in ended.said["tests"].items() if test["outcome"] == "failed"]
            print(f"{file}: {len(ended.said['tests'])} tests, {ended.seconds:.1f} s", *failed, file=sys.stderr)
            recording.files[file] = looks[file]
            imported = bytes.fromhex(ended.said["imported"])
            recording.imports[file] = packed(places, imported, len(recording.keys))
            recording.save()
            advance()


def _forget(recording: Recording, file: str) -> None:
    recording.files.pop(file, None)
    recording.imports.pop(file, None)
    for name in [name for name in recording.judges if name.startswith(f"{file}::")]:
        del recording.judges[name]


def _record_seeds(recording: Recording, all_modules: list[Module], again: bool) -> None:
    due = [seed for seed in SEEDS if again or str(seed) not in recording.judges]
    if not due:
        return
    with judging.changed_modules() as changed, _bar("recording seeds", len(due)) as advance:
        places = recording.interned(prepare(all_modules, changed))
        for seed in due:
            ended = judging.run_seeds({seed: 60.0}, changed)
            said = ended.said.get(str(seed), {"rule": "it does not end"})
            if said["rule"] is None:
                hits = packed(places, bytes.fromhex(said["hits"]), len(recording.keys))
                recording.judges[str(seed)] = Judge(said["seconds"], hits)
            else:
                print(f"seed {seed} judges nobody: {said['rule']} without any mutant", file=sys.stderr)
            recording.save()
            advance()


@contextmanager
def _bar(what: str, total: int) -> Iterator[Callable[[], object]]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=total)
        yield lambda: progress.advance(task)


if __name__ == "__main__":
    sys.exit(main())
