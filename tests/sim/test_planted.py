"""The planted bugs can be planted, and are found."""

from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.planted.__main__ import main
from tests.planted.bug import Bug
from tests.planted.catalogue import BUGS
from tests.planted.hunting import Caught, hunt
from tests.planted.mutant import CannotPlant, patched
from tests.planted.table import PAGE, known_seeds

_BY_NAME = {bug.name: bug for bug in BUGS}
_QUICK = ("raft-vote-not-kept", "order-longest-report", "lane-not-synced", "client-watermark-of-one")
"""Found by one of the first seeds."""


def _named(bug: Bug) -> str:
    return bug.name


@pytest.mark.parametrize("bug", BUGS, ids=_named)
def test_the_text_of_a_bug_is_in_its_module_once(bug: Bug) -> None:
    spec = find_spec(bug.module)
    assert spec is not None
    assert spec.origin is not None
    source = Path(spec.origin).read_text()
    compile(patched(bug.name, source, bug.old, bug.new), spec.origin, "exec")


def test_bugs_are_many_and_their_names_differ() -> None:
    assert len(BUGS) >= 25
    assert [name for name, count in Counter(bug.name for bug in BUGS).items() if count > 1] == []


def test_the_command_lists_bugs_and_refuses_others(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(BUGS)
    assert main(["sleepy"]) == 2
    assert "no bug is called sleepy" in capsys.readouterr().err


def test_every_bug_in_the_table_is_one_of_these() -> None:
    assert set(known_seeds(PAGE.read_text())) <= set(_BY_NAME)


@pytest.mark.parametrize("source", ["nothing of the kind", "count = 1\ncount = 1"], ids=["missing", "twice"])
def test_a_text_that_is_not_there_once_is_an_error_that_names_the_bug(source: str) -> None:
    with pytest.raises(CannotPlant, match="'some-bug'"):
        patched("some-bug", source, "count = 1", "count = 2")


def test_a_bug_that_cannot_be_planted_ends_the_hunt() -> None:
    rotten = Bug("rotten", "a text that was changed since", "ithaca.raft.node", "no such text", "")
    with pytest.raises(RuntimeError, match="'rotten'"):
        hunt(rotten, range(1, 2))


def test_a_bug_in_a_module_that_nothing_imports_ends_the_hunt() -> None:
    unused = Bug("unused", "in a module that no cluster needs", "ithaca.cli.demo", "def demo(", "def demo(")
    with pytest.raises(RuntimeError, match="was imported 0 times"):
        hunt(unused, range(1, 2))


def test_a_change_that_changes_nothing_is_not_caught() -> None:
    harmless = Bug("harmless", "nothing", "ithaca.engines.scalog.replica.readable", "limit = min(", "limit = min(")
    assert hunt(harmless, range(1, 2)) == Caught(None, None, 1, "")


@pytest.mark.parametrize("name", _QUICK)
def test_a_bug_is_caught(name: str) -> None:
    assert hunt(_BY_NAME[name]).seed is not None


@pytest.mark.campaign
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("bug", BUGS, ids=_named)
def test_every_bug_is_caught(bug: Bug) -> None:
    caught = hunt(bug)
    assert caught.seed is not None, f"{bug.name}: {caught}"
