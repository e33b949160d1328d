"""Claims accept what holds, and name the first difference of what does not; the result store keeps rows."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ithaca.apps.demo_cast import DemoFailed
from ithaca.apps.pipelines.claims import Claims
from ithaca.apps.pipelines.events import Event, encode
from ithaca.apps.pipelines.store import ResultStore
from ithaca.model.records import Record


def event(source: int, number: int) -> Event:
    return b"key", encode({"source": source, "number": number})


def sources() -> dict[int, Iterator[Event]]:
    return {source: iter([event(source, number) for number in (1, 2)]) for source in (0, 1)}


def records(*made: tuple[int, int]) -> list[Record]:
    return [Record(position, event(*each)[1], b"key", 0, 0) for position, each in enumerate(made, 1)]


def test_a_log_that_has_everything_once_in_its_sources_order() -> None:
    said: list[str] = []
    claims = Claims(said.append)
    claims.log_holds(records((1, 1), (0, 1), (0, 2), (1, 2)), sources())
    assert claims.held == ["the log has all 4 records that were made, once each, in their sources' order"]
    assert claims.held[0] in said[0]


@pytest.mark.parametrize(
    ("made", "words"),
    [
        ([(0, 1), (0, 2), (1, 1)], "nothing of source 1 from"),
        ([(0, 2), (0, 1), (1, 1), (1, 2)], "position 1 holds"),
        ([(0, 1), (0, 1), (0, 2), (1, 1), (1, 2)], "position 2 holds"),
        ([(0, 1), (0, 2), (1, 1), (1, 2), (2, 1)], "position 5 holds"),
        ([(0, 1), (0, 2), (0, 3), (1, 1), (1, 2)], "position 3 holds"),
    ],
    ids=["lost", "out of order", "doubled", "of nobody", "never made"],
)
def test_a_log_that_has_not(made: list[tuple[int, int]], words: str) -> None:
    claims = Claims(lambda text: None)
    with pytest.raises(DemoFailed, match=words):
        claims.log_holds(records(*made), sources())
    assert claims.held == []


@pytest.mark.parametrize(
    ("found", "words"),
    [([(1, 2)], "row 2 is nothing"), ([(1, 2), (3, 4), (5, 6)], r"row 3 is \(5, 6\)"), ([(1, 2), (4, 3)], "row 2 is")],
)
def test_rows_that_differ(found: list[tuple[int, int]], words: str) -> None:
    with pytest.raises(DemoFailed, match=words):
        Claims(lambda text: None).same("rows agree", found, [(1, 2), (3, 4)])


def test_results_replace_those_of_before(tmp_path: Path) -> None:
    store = ResultStore(tmp_path / "results.sqlite")
    store.write("sums", "name TEXT, total INTEGER", [("a", 1), ("b", 2)])
    store.write("sums", "name TEXT, total INTEGER", [("c", 3)])
    assert store.rows("SELECT * FROM sums WHERE total > ?", 2) == [("c", 3)]


def test_a_transaction_that_fails_leaves_nothing(tmp_path: Path) -> None:
    store = ResultStore(tmp_path / "results.sqlite")
    store.write("sums", "total INTEGER", [(1,)])

    def fail() -> None:
        with store.transaction() as connection:
            connection.execute("INSERT INTO sums VALUES (2)")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert store.rows("SELECT * FROM sums") == [(1,)]
