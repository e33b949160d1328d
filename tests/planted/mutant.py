"""Runs seeds with one module of the product changed: a script, in an interpreter of its own.

`python -P mutant.py` reads one JSON object, `{"name", "module", "old", "new", "engine", "seeds"}`, and writes one line
of JSON for each seed until one is violated: `{"seed", "rule", "text"}`. The module is changed while it is imported,
so nothing in the product knows of it, and nothing of the product is imported before. The text `old` must occur in it
exactly once, and the module must be imported by what is run: everything else ends the script with an error.
"""

import json
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType


class CannotPlant(BaseException):
    """The bug could not be planted: not an `Exception`, lest it be taken for what the bug did."""


def patched(name: str, source: str, old: str, new: str) -> str:
    """The source with the bug in it; whoever changes that place of the product has to look after the bug."""
    count = source.count(old)
    if count != 1:
        raise CannotPlant(f"bug {name!r}: its text occurs {count} times in its module, and must occur once:\n{old}")
    return source.replace(old, new)


class _Loader(SourceFileLoader):
    """Loads one module from its changed source, and never from what was compiled before."""

    def __init__(self, module: str, path: str, bug: dict[str, str]) -> None:
        super().__init__(module, path)
        self._bug = bug

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        source = patched(self._bug["name"], self.get_data(path).decode(), self._bug["old"], self._bug["new"])
        try:
            return compile(source, path, "exec", dont_inherit=True)
        except SyntaxError as error:
            raise CannotPlant(f"bug {self._bug['name']!r} is no Python: {error}") from error


class Finder(MetaPathFinder):
    """Finds the module that is to be changed, and leaves all others to those behind it."""

    def __init__(self, bug: dict[str, str]) -> None:
        self._bug = bug
        self.found = 0

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._bug["module"]:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.origin is None:
            raise CannotPlant(f"bug {self._bug['name']!r}: there is no module {fullname}")
        spec.loader = _Loader(fullname, spec.origin, self._bug)
        self.found += 1
        return spec


def main() -> None:
    task = json.load(sys.stdin)
    if any(name.partition(".")[0] == "ithaca" for name in sys.modules):
        raise CannotPlant("the product was imported before the bug was planted")
    finder = Finder(task)
    sys.meta_path.insert(0, finder)
    from ithaca.sim.run import run_seed

    for seed in task["seeds"]:
        try:
            result = run_seed(seed, task["engine"])
            rule, text = result.rule, result.violation
        except Exception as error:  # of the simulator or the checker, which the bug has led astray
            rule, text = "crashed", f"crashed: {error!r}"
        if finder.found != 1:
            raise CannotPlant(f"bug {task['name']!r}: {task['module']} was imported {finder.found} times")
        print(json.dumps({"seed": seed, "rule": rule, "text": text}), flush=True)
        if rule is not None:
            return


if __name__ == "__main__":
    main()
