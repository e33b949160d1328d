"""What producers append, and what a producer that was killed knows when it is started again."""

from pathlib import Path

from ithaca.proof.history import HistoryWriter
from ithaca.proof.payload import decode
from ithaca.torture.batches import COUNTS, KEYS, batch_of
from ithaca.torture.client import Errand
from ithaca.torture.session_producer import left_open


def errand(directory: Path, life: int) -> Errand:
    return Errand("producer-1", 1, life, "127.0.0.1:1", directory, 42, 1000.0)


def test_a_batch_is_a_function_of_seed_session_and_number() -> None:
    batch = batch_of(42, 1, 7, 100)
    assert batch == batch_of(42, 1, 7, 100)
    assert [decode(value) for value in batch.values()] == [(1, number) for number in range(7, 7 + batch.count)]
    assert batch.event("ok", 9).pos == 9
    assert batch.event("info").id == (1, 7)


def test_batches_are_of_all_kinds() -> None:
    batches = [batch_of(1, 1, first, 0) for first in range(1, 400)]
    for low, high in COUNTS:
        assert any(low <= batch.count <= high for batch in batches)
    assert {batch.key for batch in batches} == {None, *KEYS}
    assert all((batch.keys() is None) == (batch.key is None) for batch in batches)


def test_a_first_life_begins_with_one(tmp_path: Path) -> None:
    assert left_open(errand(tmp_path, 0)) == ([], 1)


def test_what_has_no_outcome_is_left_open(tmp_path: Path) -> None:
    first = batch_of(42, 1, 1, 10)
    second = batch_of(42, 1, 1 + first.count, 20)
    third = batch_of(42, 1, second.first + second.count, 30)
    with HistoryWriter(errand(tmp_path, 0).history()) as writer:
        for batch in (first, second, third):
            writer.write(batch.event("info"))
        writer.write(second.event("ok", 5))
    assert left_open(errand(tmp_path, 1)) == ([first, third], third.first + third.count)
    with HistoryWriter(errand(tmp_path, 1).history()) as writer:
        writer.write(first.event("ok", 1))
    assert left_open(errand(tmp_path, 2)) == ([third], third.first + third.count)


def test_a_torn_line_says_nothing(tmp_path: Path) -> None:
    batch = batch_of(42, 1, 1, 10)
    path = errand(tmp_path, 0).history()
    with HistoryWriter(path) as writer:
        writer.write(batch.event("info"))
        writer.write(batch.event("ok", 1))
    path.write_bytes(path.read_bytes()[:-1])
    assert left_open(errand(tmp_path, 1)) == ([batch], 1 + batch.count)
