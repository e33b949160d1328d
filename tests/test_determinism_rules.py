"""Time, chance, identity and threads come from `runtime.machine` alone, so that a simulated process repeats itself.

A module that asks the system itself would work, and make a failure that the simulator finds impossible to replay.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import ithaca

_SOURCE = Path(ithaca.__file__).parent
_PACKAGES = (
    "server",
    "client",
    "runtime",
    "engines",
    "raft",
    "storage",
    "protocol",
    "wire",
    "model",
    "objects",
)

_FORBIDDEN = {
    "time": {"time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "sleep", "gmtime"},
    "random": {"*"},
    "secrets": {"*"},
    "uuid": {"uuid1", "uuid4"},
    "os": {"urandom", "getrandom", "getpid"},
    "threading": {"Thread", "Timer"},
    "concurrent.futures": {"*"},
    "datetime": {"datetime.now", "datetime.utcnow", "datetime.today", "date.today"},
}

_ALLOWED = {
    "runtime/machine.py": "this is where all others ask",
    "runtime/disk_thread.py": "the thread of a real disk",
    "runtime/group_commit.py": "the embedded engine's writer, which works for threads",
    "client/portal.py": "the thread of the synchronous client's loop",
    "client/consuming/blocking/waiting.py": "the thread of whoever is a member of a group",
    "storage/directory_lock.py": "about other processes of this machine",
    "objects/blocking/waiting.py": "the threads in which synchronous replicas follow the log",
    "objects/context.py": "chance that a position seeds, the same on every replica",
}


def _calls(source: str) -> Iterator[str]:
    """Full names of what is called, or handed on to be called, as far as imports tell."""
    tree = ast.parse(source)
    imported: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                top = each.name.split(".")[0]
                imported[each.asname or top] = each.name if each.asname else top
        elif isinstance(node, ast.ImportFrom) and node.module is not None and not node.level:
            imported |= {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names}
    annotations = {id(part) for each in _annotations(tree) for part in ast.walk(each)}
    for node in ast.walk(tree):
        if id(node) not in annotations and isinstance(node, ast.Name | ast.Attribute):
            name = _dotted(node, imported)
            if name is not None:
                yield name


def _annotations(tree: ast.AST) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign | ast.arg) and node.annotation is not None:
            yield node.annotation
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.returns is not None:
            yield node.returns


def _dotted(node: ast.expr, imported: dict[str, str]) -> str | None:
    if isinstance(node, ast.Name):
        return imported.get(node.id)
    if isinstance(node, ast.Attribute):
        owner = _dotted(node.value, imported)
        return None if owner is None else f"{owner}.{node.attr}"
    return None


def _is_forbidden(name: str) -> bool:
    for module, names in _FORBIDDEN.items():
        rest = name.removeprefix(f"{module}.")
        if rest != name and (rest in names or "*" in names):
            return True
    return False


def _found(source: str) -> set[str]:
    return {name for name in _calls(source) if _is_forbidden(name)}


def test_every_module_asks_only_its_machine() -> None:
    found = {}
    for path in (path for package in _PACKAGES for path in (_SOURCE / package).rglob("*.py")):
        module = str(path.relative_to(_SOURCE))
        if module not in _ALLOWED and (names := _found(path.read_text())):
            found[module] = names
    assert found == {}, "ask ithaca.runtime.machine instead"


@pytest.mark.parametrize("module", _ALLOWED)
def test_an_exception_is_needed(module: str) -> None:
    assert _found((_SOURCE / module).read_text())


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import time\ntime.monotonic()", {"time.monotonic"}),
        ("import time as t\nclock = t.time_ns", {"time.time_ns"}),
        ("from time import perf_counter as now\nnow()", {"time.perf_counter"}),
        ("import random\nrandom.shuffle([])", {"random.shuffle"}),
        ("from random import Random\nRandom()", {"random.Random"}),
        ("from random import Random\ndef pick(random: Random) -> Random | None: ...", set()),
        ("from uuid import UUID, uuid4\nUUID(int=1), uuid4()", {"uuid.uuid4"}),
        ("import threading\nthreading.Lock(), threading.Thread()", {"threading.Thread"}),
        ("from threading import Timer\nTimer(1, print)", {"threading.Timer"}),
        ("from datetime import UTC, datetime\ndatetime.now(UTC), datetime.fromtimestamp(1)", {"datetime.datetime.now"}),
        ("import datetime\ndatetime.datetime.now()", {"datetime.datetime.now"}),
        ("import concurrent.futures\nconcurrent.futures.Future()", {"concurrent.futures.Future"}),
        ("import os\nos.urandom(1), os.fsync(1)", {"os.urandom"}),
        ("loop.time(); time.time(); self.random.choice([])", set()),
    ],
)
def test_the_rule_finds_every_way_of_asking(source: str, found: set[str]) -> None:
    assert _found(source) == found


@pytest.mark.parametrize("core", ["raft", "engines/scalog/ordering", "engines/scalog/replica"])
def test_a_pure_core_waits_for_nothing_and_asks_nobody(core: str) -> None:
    """It is given time and chance, and says what is to be done."""
    paths = sorted((_SOURCE / core).rglob("*.py"))
    assert paths
    for path in paths:
        modules = {name for name in _imports(path.read_text()) if name.split(".")[0] in ("asyncio", "logging", "time")}
        modules |= {
            name for name in _imports(path.read_text()) if name.startswith(("ithaca.runtime", "ithaca.storage"))
        }
        assert not modules, path


@pytest.mark.parametrize(
    "core", ["agreement", "machine", "retaining", "snapshot", "store_state", "transaction", "version_index", "view"]
)
def test_the_cores_of_objects_are_pure(core: str) -> None:
    names = set(_imports((_SOURCE / "objects" / f"{core}.py").read_text()))
    tops = {name.split(".")[0] for name in names}
    assert not tops & {"asyncio", "logging", "threading", "time"}
    assert not [name for name in names if name.startswith(("ithaca.runtime", "ithaca.storage", "ithaca.client"))]


def _imports(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
