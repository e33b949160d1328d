"""The modules that are mutated, and the sample."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from tools.mutants.operators import Mutant, mutants

ROOT = Path(__file__).parent.parent.parent
PACKAGES = ("raft", "ordering", "replica", "storage", "client", "spark", "embedded")
ENGINE = ("engines", "scalog")
"""The folder that has packages of these names, too."""


@dataclass(frozen=True)
class Module:
    name: str
    path: Path
    source: str

    @property
    def package(self) -> str:
        return package_of(self.name)


def package_of(module: str) -> str:
    names = module.split(".")
    return names[3] if tuple(names[1:3]) == ENGINE else names[1]


def modules() -> list[Module]:
    found = []
    source = ROOT / "src" / "ithaca"
    for package in PACKAGES:
        for path in sorted([*(source / package).rglob("*.py"), *source.joinpath(*ENGINE, package).rglob("*.py")]):
            parts = path.relative_to(ROOT / "src").with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            found.append(Module(name, path, path.read_text()))
    return found


def sample(all_modules: list[Module], count: int, seed: int, only: str | None) -> list[Mutant]:
    """As many mutants, spread over the packages by their lines.

    Each mutant has a place in a line of its package that only the seed and its own text decide, so a change of the
    sources changes the sample only where the change is.
    """
    chosen = [each for each in all_modules if only is None or each.name == only or each.name.startswith(f"{only}.")]
    lines = dict.fromkeys(PACKAGES, 0)
    queues: dict[str, list[Mutant]] = {package: [] for package in PACKAGES}
    for module in chosen:
        lines[module.package] += module.source.count("\n")
        queues[module.package] += mutants(module.name, module.source)
    total = sum(lines.values())
    taken: list[Mutant] = []
    due = 0.0
    for package in PACKAGES:
        due += count * lines[package] / max(total, 1)
        queue = sorted(queues[package], key=lambda mutant: _place(seed, mutant))
        taken += queue[: round(due) - len(taken)]
    return taken


def _place(seed: int, mutant: Mutant) -> str:
    return hashlib.sha256(f"{seed} {mutant.key}".encode()).hexdigest()
