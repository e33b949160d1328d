"""Results: what is kept of each mutant, those that are excused, and the tables."""

import json
import tomllib
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from tools.mutants.operators import Mutant
from tools.mutants.sources import PACKAGES, ROOT, package_of

EQUIVALENT = Path(__file__).parent / "equivalent.toml"


@dataclass(frozen=True)
class Verdict:
    """`killed`, `hung`, `lived`, or `unreached` where nobody executes the statement."""

    verdict: str
    by: str = ""
    why: str = ""
    cpu_s: float = 0.0

    @property
    def is_noticed(self) -> bool:
        return self.verdict in ("killed", "hung")


class Results:
    """Verdicts by the mutant's key, for tests and for seeds apart."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._kept: dict[str, dict[str, Verdict]] = {}
        if path.exists():
            for key, verdicts in json.loads(path.read_text()).items():
                self._kept[key] = {by: Verdict(**verdict) for by, verdict in verdicts.items()}

    def get(self, mutant: Mutant, by: str) -> Verdict | None:
        return self._kept.get(mutant.key, {}).get(by)

    def put(self, mutant: Mutant, by: str, verdict: Verdict) -> None:
        self._kept.setdefault(mutant.key, {})[by] = verdict
        text = json.dumps({key: {by: asdict(each) for by, each in one.items()} for key, one in self._kept.items()})
        replacement = self._path.with_suffix(".new")
        replacement.write_text(text)
        replacement.replace(self._path)

    def forget(self) -> None:
        self._kept.clear()


class Excused:
    """Mutants that make no difference that anybody could see, each with the reason."""

    def __init__(self, path: Path = EQUIVALENT) -> None:
        entries = tomllib.loads(path.read_text()).get("mutant", []) if path.exists() else []
        self._reasons = {
            (each["module"], each.get("scope"), each["old"], each["new"]): each["reason"] for each in entries
        }

    def reason(self, mutant: Mutant) -> str | None:
        return next((self._reasons[name] for name in _names(mutant) if name in self._reasons), None)

    def stale(self, mutants: Iterable[Mutant]) -> list[str]:
        """Those whose text is not in the sources any more."""
        known = {name for mutant in mutants for name in _names(mutant)}
        return [f"{name[0]}: {name[2]}" for name in self._reasons if name not in known]


def _names(mutant: Mutant) -> list[tuple[str, str | None, str, str]]:
    """With the function that it is in, and without: where a text stands twice, that tells which is meant."""
    statement = mutant.statement
    return [(statement.module, scope, statement.text, mutant.new) for scope in (statement.scope, None)]


def tables(sample: list[Mutant], results: Results, excused: Excused, by: str) -> str:
    """One line for each package, and the survivors."""
    head = "package     mutants  killed  hung  lived  unreached  excused  open   noticed"
    lines = [f"by {by}:", head]
    for package in (*PACKAGES, "all"):
        chosen = [each for each in sample if package in ("all", package_of(each.statement.module))]
        if chosen:
            lines.append(_row(package, chosen, results, excused, by))
    return "\n".join(lines)


def _row(package: str, chosen: list[Mutant], results: Results, excused: Excused, by: str) -> str:
    count = dict.fromkeys(("killed", "hung", "lived", "unreached", "excused", "open"), 0)
    costs = []
    for mutant in chosen:
        verdict = results.get(mutant, by)
        if verdict is not None:
            costs.append(verdict.cpu_s)
        is_excused = excused.reason(mutant) is not None and not (verdict and verdict.is_noticed)
        count["excused" if is_excused else "open" if verdict is None else verdict.verdict] += 1
    judged = len(chosen) - count["open"]
    noticed = count["killed"] + count["hung"]
    share = f"{100 * noticed / judged:5.1f} % of {judged}" if judged else ""
    cost = f", median {sorted(costs)[len(costs) // 2]:.1f} s" if costs else ""
    return (
        f"{package:<10} {len(chosen):>8} {count['killed']:>7} {count['hung']:>5} {count['lived']:>6}"
        f" {count['unreached']:>10} {count['excused']:>8} {count['open']:>5}   {share}{cost}"
    )


def noticed_share(sample: list[Mutant], results: Results, excused: Excused, by: str) -> float | None:
    """Of those that make a difference; None while some are not judged."""
    verdicts = [results.get(mutant, by) for mutant in sample if excused.reason(mutant) is None]
    judged = [verdict.is_noticed for verdict in verdicts if verdict is not None]
    return sum(judged) / len(judged) if judged and len(judged) == len(verdicts) else None


def survivors(sample: list[Mutant], results: Results, excused: Excused, by: str) -> str:
    lines = []
    for mutant in sample:
        verdict = results.get(mutant, by)
        if verdict is not None and not verdict.is_noticed:
            reason = excused.reason(mutant)
            lines.append(shown(mutant) + f"    {verdict.verdict}{'' if reason is None else f', excused: {reason}'}\n")
    return "\n".join(lines)


def shown(mutant: Mutant) -> str:
    statement = mutant.statement
    path = ROOT / "src" / Path(*statement.module.split("."))
    file = path.with_suffix(".py") if path.with_suffix(".py").exists() else path / "__init__.py"
    place = f"{file.relative_to(ROOT)}:{statement.line} in {statement.scope or 'the module'}"
    return f"{place} ({mutant.operator}, {mutant.key})\n  - {statement.text}\n  + {mutant.new}\n"
