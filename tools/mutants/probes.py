"""Which statements each test and each seed executes, recorded once and kept.

Every statement of the product gets a probe, which sets a byte of its own in a file that all processes of a run share:
that costs some tens of nanoseconds, survives SIGKILL, and sees servers and Spark's workers in processes of their own.
What is kept names statements by their text, so it stays useful while the sources change around them.
"""

import ast
import base64
import json
import marshal
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from tools.mutants.operators import Statement, statements
from tools.mutants.site.sitecustomize import HITS
from tools.mutants.sources import Module


@dataclass
class Judge:
    """A test, or a seed of the simulator."""

    seconds: float
    hits: str
    """A bit for each statement that it executes, in base64."""


@dataclass
class Recording:
    """Who executes what."""

    path: Path
    keys: list[str] = field(default_factory=list)
    judges: dict[str, Judge] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    """What each file of tests looked like when it was recorded."""
    imports: dict[str, str] = field(default_factory=dict)
    """What each file of tests executes by importing it, as bits."""

    @classmethod
    def load(cls, path: Path) -> "Recording":
        if not path.exists():
            return cls(path)
        kept = json.loads(path.read_text())
        judges = {name: Judge(**judge) for name, judge in kept["judges"].items()}
        return cls(path, kept["keys"], judges, kept["files"], kept["imports"])

    def save(self) -> None:
        judges = {name: vars(judge) for name, judge in self.judges.items()}
        text = json.dumps({"keys": self.keys, "judges": judges, "files": self.files, "imports": self.imports})
        replacement = self.path.with_suffix(".new")
        replacement.write_text(text)
        replacement.replace(self.path)

    def reaching(self) -> dict[str, list[str]]:
        """For each statement's key who executes it, all tests of a file that imports it included; quickest first.

        For each function and each module, too: a statement that was changed since is met by those who were near.
        """
        found: dict[str, list[str]] = defaultdict(list)
        imported = {file: set(executed_statements(hits)) for file, hits in self.imports.items()}
        for name in sorted(self.judges, key=lambda each: (self.judges[each].seconds, each)):
            executed = set(executed_statements(self.judges[name].hits))
            for at in executed | imported.get(name.partition("::")[0], set()):
                found[self.keys[at]].append(name)
            for place in {place for at in executed for place in _places_around(self.keys[at])}:
                found[place].append(name)
        return found

    def interned(self, table: list[Statement]) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
        """The place of each statement of a table among the keys that are kept."""
        places = {key: at for at, key in enumerate(self.keys)}
        for statement in table:
            if statement.key not in places:
                places[statement.key] = len(self.keys)
                self.keys.append(statement.key)
        return np.array([places[statement.key] for statement in table])


def nearest(reaching: dict[str, list[str]], key: str) -> list[str]:
    """Who meets a statement; where nobody does it may be new: then whoever is in its function, or in its module."""
    return next((reaching[place] for place in (key, *_places_around(key)) if place in reaching), [])


def _places_around(key: str) -> list[str]:
    module, scope, _ = key.split("|", 2)
    return [f"{module}|{scope}", module]


def executed_statements(hits: str) -> Iterable[int]:
    bits = np.unpackbits(np.frombuffer(base64.b64decode(hits), np.uint8))
    return (int(at) for at in np.flatnonzero(bits))


def packed(places: "np.ndarray[tuple[int], np.dtype[np.int64]]", hit: bytes, size: int) -> str:
    """What a run has hit, as bits over the keys that are kept."""
    bits = np.zeros(size, np.uint8)
    bits[places[np.flatnonzero(np.frombuffer(hit, np.uint8))]] = 1
    return base64.b64encode(np.packbits(bits).tobytes()).decode()


def prepare(modules: list[Module], directory: Path) -> list[Statement]:
    """Write code with probes for all modules; the table says which byte belongs to which statement."""
    table: list[Statement] = []
    for module in modules:
        tree = ast.parse(module.source)
        named = statements(module.name, tree)
        _insert(tree, named, table)
        code = compile(ast.fix_missing_locations(tree), str(module.path), "exec", dont_inherit=True)
        (directory / module.name).write_bytes(marshal.dumps(code))
    (directory / "hits").write_bytes(bytes(len(table)))
    return table


def _insert(node: ast.AST, named: dict[int, Statement], table: list[Statement]) -> None:
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
            setattr(node, name, list(_probed(block, named, table)))
    for child in ast.iter_child_nodes(node):
        _insert(child, named, table)


def _probed(block: list[ast.stmt], named: dict[int, Statement], table: list[Statement]) -> Iterator[ast.stmt]:
    for at, node in enumerate(block):
        is_docstring = at == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if id(node) in named and not is_docstring and ast.unparse(node)[:15] != "from __future__":
            yield ast.copy_location(_probe(len(table)), node)
            table.append(named[id(node)])
        yield node


def _probe(number: int) -> ast.stmt:
    target = ast.Subscript(ast.Name(HITS, ast.Load()), ast.Constant(number), ast.Store())
    return ast.Assign([target], ast.Constant(1))
