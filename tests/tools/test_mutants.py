"""The mutants: which mistakes are made, which are drawn, who meets them, and that somebody notices."""

import ast
import builtins
import json
import marshal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tools.mutants.operators import Mutant, mutants, mutated
from tools.mutants.probes import Judge, Recording, executed_statements, nearest, packed, prepare
from tools.mutants.report import Excused, Results, Verdict, noticed_share, survivors, tables
from tools.mutants.site.sitecustomize import HITS
from tools.mutants.sources import ROOT, Module, sample

SOURCE = '''
"""A module."""

LIMIT: int = 3


def room(used: int, most: int) -> int:
    """What is left."""
    if used < most:
        return most - used
    return 0


def is_full(used: int) -> bool:
    _log.info("asked for %d", used + 1)
    assert used > 0
    return used >= LIMIT
'''


def changes(source: str) -> set[tuple[str, str]]:
    return {(mutant.statement.text, mutant.new) for mutant in mutants("ithaca.made.up", source)}


@pytest.mark.parametrize(
    ("source", "old", "new"),
    [
        ("x = a < b", "x = a < b", "x = a <= b"),
        ("x = a == b", "x = a == b", "x = a != b"),
        ("x = a not in b", "x = a not in b", "x = a in b"),
        ("x = a < b < c", "x = a < b < c", "x = a < b <= c"),
        ("x = a + b", "x = a + b", "x = a - b"),
        ("x = 7", "x = 7", "x = 8"),
        ("x = a and b", "x = a and b", "x = a or b"),
        ("x = not a", "x = not a", "x = a"),
        ("x = min(a, b)", "x = min(a, b)", "x = max(a, b)"),
        ("if a:\n    b()", "if a:", "if not a:"),
        ("if a:\n    b()", "b()", "pass"),
        ("a.b = c", "a.b = c", "pass"),
        ("a[b] = c", "a[b] = c", "pass"),
        ("a += b", "a += b", "a -= b"),
        ("a += b", "a += b", "pass"),
        ("def f() -> int:\n    return a", "return a", "return 0"),
        ("def f() -> bool:\n    return a", "return a", "return True"),
        ("def f() -> bool:\n    return True", "return True", "return False"),
        ("def f() -> list[int]:\n    return a", "return a", "return None"),
        ("async def f():\n    await g()", "await g()", "pass"),
    ],
)
def test_a_mistake_of_each_kind_is_made(source: str, old: str, new: str) -> None:
    assert (old, new) in changes(source)


@pytest.mark.parametrize(
    "source",
    [
        '"""A docstring, and 1 + 1."""',
        "assert a < 1",
        "x: Literal[3]",
        "Event = Tick | Joined",
        'raise ValueError(f"{a + 1} is too much")',
        '_log.warning("%d", a + 1)',
        "def __repr__(self):\n    return 1 + 1",
        "@decorated(1)\ndef f(): ...",
        "async def f():\n    await asyncio.sleep(1)",
        "def f():\n    return None",
        "def f(a: int, b: str) -> int: ...",
    ],
)
def test_what_nobody_could_notice_is_left_alone(source: str) -> None:
    assert changes(source) == set()


def test_only_the_mistake_differs() -> None:
    for mutant in mutants("ithaca.made.up", SOURCE):
        before, after = ast.unparse(ast.parse(SOURCE)), ast.unparse(mutated("ithaca.made.up", SOURCE, mutant))
        differing = [pair for pair in zip(before.split("\n"), after.split("\n"), strict=True) if pair[0] != pair[1]]
        assert len(differing) == 1, mutant
        assert mutant.new in " ".join(differing[0][1].split())


def test_a_mutant_is_itself_while_other_lines_change() -> None:
    moved = SOURCE.replace("LIMIT: int = 3\n", "LIMIT: int = 3\nMORE = 12\n\n")
    before, after = mutants("ithaca.made.up", SOURCE), mutants("ithaca.made.up", moved)
    assert {mutant.key for mutant in before} < {mutant.key for mutant in after}
    assert len({mutant.key for mutant in after}) == len(after)


def test_equal_statements_are_told_apart() -> None:
    source = "def f():\n    a()\n    a()\n    return 1 + 1 + 1"
    assert len({mutant.key for mutant in mutants("ithaca.made.up", source)}) == len(mutants("ithaca.made.up", source))


def made_module(name: str, functions: int) -> Module:
    source = "".join(f"def f{at}(a):\n    return a + {at}\n" for at in range(functions))
    return Module(name, Path("made_up.py"), source)


def test_a_sample_is_spread_by_lines_and_its_own_seeds() -> None:
    modules = [made_module("ithaca.raft.a", 10), made_module("ithaca.client.b", 20), made_module("ithaca.client.c", 10)]
    drawn = sample(modules, 20, 1, None)
    assert sample(modules, 20, 1, None) == drawn
    assert sample(modules, 20, 2, None) != drawn
    assert sum(mutant.statement.module == "ithaca.raft.a" for mutant in drawn) == 5
    assert {mutant.statement.module for mutant in sample(modules, 20, 1, "ithaca.client")} == {
        "ithaca.client.b",
        "ithaca.client.c",
    }


def test_a_change_of_one_module_changes_the_sample_only_there() -> None:
    modules = [made_module("ithaca.client.b", 20), made_module("ithaca.client.c", 20)]
    changed = [modules[0], Module(modules[1].name, modules[1].path, modules[1].source.replace("f3(a)", "f3(a, b)"))]
    before, after = sample(modules, 20, 1, None), sample(changed, 20, 1, None)
    assert len({each.key for each in before} & {each.key for each in after}) >= 18


def test_probes_say_which_statements_ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = prepare([Module("ithaca.made.up", Path("made_up.py"), SOURCE)], tmp_path)
    hits = bytearray((tmp_path / "hits").read_bytes())
    monkeypatch.setattr(builtins, HITS, hits, raising=False)
    module: dict[str, object] = {}
    exec(marshal.loads((tmp_path / "ithaca.made.up").read_bytes()), module)
    hits[:] = bytes(len(hits))
    room = module["room"]
    assert callable(room)
    assert room(3, 3) == 0
    assert [table[at].text for at in np.flatnonzero(np.frombuffer(hits, np.uint8))] == ["if used < most:", "return 0"]


def test_a_recording_finds_who_reaches_what(tmp_path: Path) -> None:
    table = prepare([Module("ithaca.made.up", Path("made_up.py"), SOURCE)], tmp_path)
    recording = Recording(tmp_path / "recording.json", keys=["something else"])
    places = recording.interned(table)
    reached = next(at for at, statement in enumerate(table) if statement.text == "return most - used")
    hit = bytes(at == reached for at in range(len(table)))
    for name, seconds in [("slow", 2.0), ("quick", 1.0)]:
        recording.judges[name] = Judge(seconds, packed(places, hit, len(recording.keys)))
    recording.judges["elsewhere"] = Judge(0.1, packed(places, bytes(len(table)), len(recording.keys)))
    recording.save()
    again = Recording.load(tmp_path / "recording.json")
    reaching = again.reaching()
    places_around = ("ithaca.made.up|room", "ithaca.made.up")
    assert reaching == {key: ["quick", "slow"] for key in (table[reached].key, *places_around)}
    for key in (table[reached].key, "ithaca.made.up|room|something new|0", "ithaca.made.up|elsewhere|something new|0"):
        assert nearest(reaching, key) == ["quick", "slow"]
    assert nearest(reaching, "ithaca.made.down|room|something new|0") == []
    assert list(executed_statements(recording.judges["slow"].hits)) == [places[reached]]


def test_what_importing_executes_is_reached_by_every_test_of_the_file(tmp_path: Path) -> None:
    table = prepare([Module("ithaca.made.up", Path("made_up.py"), SOURCE)], tmp_path)
    recording = Recording(tmp_path / "recording.json")
    places = recording.interned(table)
    at_import = bytes(not statement.in_function for statement in table)
    recording.imports["tests/a.py"] = packed(places, at_import, len(recording.keys))
    for name in ("tests/a.py::one", "tests/a.py::two", "tests/b.py::one"):
        recording.judges[name] = Judge(1.0, packed(places, bytes(len(table)), len(recording.keys)))
    reaching = recording.reaching()
    assert set(reaching) == {statement.key for statement in table if not statement.in_function}
    assert all(names == ["tests/a.py::one", "tests/a.py::two"] for names in reaching.values())


def drawn(text: str, new: str) -> Mutant:
    return next(each for each in mutants("ithaca.raft.made", SOURCE) if (each.statement.text, each.new) == (text, new))


def test_results_are_kept_and_told(tmp_path: Path) -> None:
    killed, lived = drawn("if used < most:", "if used <= most:"), drawn("return most - used", "return 0")
    results = Results(tmp_path / "mutants.json")
    results.put(killed, "tests", Verdict("killed", "tests/a.py::b", "assert 1 == 2", 1.5))
    results.put(lived, "tests", Verdict("lived"))
    results = Results(tmp_path / "mutants.json")
    excused = Excused(tmp_path / "none.toml")
    assert results.get(killed, "seeds") is None
    assert "50.0 % of 2" in tables([killed, lived], results, excused, "tests")
    assert noticed_share([killed, lived], results, excused, "tests") == 0.5
    assert noticed_share([killed, lived], results, excused, "seeds") is None
    assert "src/ithaca/raft/made" in survivors([killed, lived], results, excused, "tests")
    assert "if used" not in survivors([killed, lived], results, excused, "tests")


def test_an_excuse_names_its_text_and_is_missed_when_that_is_gone(tmp_path: Path) -> None:
    mutant = drawn("return most - used", "return 0")
    file = tmp_path / "equivalent.toml"
    entry = {"module": "ithaca.raft.made", "old": mutant.statement.text, "new": mutant.new, "reason": "nobody asks"}
    file.write_text("[[mutant]]\n" + "\n".join(f"{name} = {json.dumps(value)}" for name, value in entry.items()))
    excused = Excused(file)
    assert excused.reason(mutant) == "nobody asks"
    assert excused.reason(drawn("if used < most:", "if used <= most:")) is None
    assert excused.stale([mutant]) == []
    assert excused.stale([]) == ["ithaca.raft.made: return most - used"]
    for scope, reason in [("room", "nobody asks"), ("is_full", None)]:
        file.write_text(file.read_text().split("scope")[0] + f'\nscope = "{scope}"')
        assert Excused(file).reason(mutant) == reason


JUDGED = """
import marshal, sys
from pathlib import Path
from tools.mutants import judging

judging.load_heavy()
path = Path("src/ithaca/raft/log.py")
source = path.read_text()
assert source.count(sys.argv[1]) == 1
with judging.changed_modules() as directory:
    code = compile(source.replace(sys.argv[1], sys.argv[2]), str(path), "exec")
    (directory / "ithaca.raft.log").write_bytes(marshal.dumps(code))
    ended = judging.run_tests({sys.argv[3]: 1.0}, directory)
print(ended.status, ended.said.get("by"))
"""
"""The tool must not have the product imported, so this is for an interpreter of its own."""


@pytest.mark.parametrize(("new", "said"), [("last_index = previous_index", "0 None"), ("last_index = 0", "1 {test}")])
def test_a_mutant_meets_its_tests_in_a_process_of_its_own(new: str, said: str) -> None:
    test = "tests/raft/test_log.py::test_it_agrees_with_a_dictionary"
    command = [sys.executable, "-c", JUDGED, "last_index = previous_index", new, test]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.stdout == said.format(test=test) + "\n", done.stderr
