"""What producers append, and what a producer that was killed knows when it is started again."""

from collections.abc import Iterable
from contextlib import closing
from multiprocessing import Pipe
from pathlib import Path

import pytest

from ithaca.model.errors import Corrupt, IthacaError, SequenceGap, StorageFull
from ithaca.model.interface.awaited import Session
from ithaca.model.records import Buffer, Receipt
from ithaca.model.units import Duration
from ithaca.proof.history import HistoryWriter
from ithaca.proof.payload import decode
from ithaca.torture.clients.batches import COUNTS, KEYS, batch_of
from ithaca.torture.clients.client import Client, Errand, Finish
from ithaca.torture.clients.session_producer import SessionProducer, left_open


def errand(directory: Path, life: int) -> Errand:
    return Errand("producer-1", 1, life, "127.0.0.1:1", directory, 42, 1000.0)


def test_a_batch_is_a_function_of_seed_session_and_number() -> None:
    batch = batch_of(42, 1, 7, 100)
    assert batch == batch_of(42, 1, 7, 100)
    assert [decode(value) for value in batch.values()] == [(1, number) for number in range(7, 7 + batch.count)]
    assert batch.event("ok", Receipt(9, 1, 0, "fsync")).pos == 9
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
        writer.write(second.event("ok", Receipt(5, 1, 0, "fsync")))
    assert left_open(errand(tmp_path, 1)) == ([first, third], third.first + third.count)
    with HistoryWriter(errand(tmp_path, 1).history()) as writer:
        writer.write(first.event("ok", Receipt(1, 1, 0, "fsync")))
    assert left_open(errand(tmp_path, 2)) == ([third], third.first + third.count)


def test_a_torn_line_says_nothing(tmp_path: Path) -> None:
    batch = batch_of(42, 1, 1, 10)
    path = errand(tmp_path, 0).history()
    with HistoryWriter(path) as writer:
        writer.write(batch.event("info"))
        writer.write(batch.event("ok", Receipt(1, 1, 0, "fsync")))
    path.write_bytes(path.read_bytes()[:-1])
    assert left_open(errand(tmp_path, 1)) == ([batch], 1 + batch.count)


class Refusing(Session):
    """A session whose appends come to an end that was decided before."""

    name = "refusing"

    def __init__(self, outcomes: dict[int, Receipt | IthacaError]) -> None:
        self._outcomes = outcomes

    @property
    def next_seq(self) -> int:
        return 1

    async def append(
        self, value: Buffer, *, key: Buffer | None = None, seq: int | None = None, timeout: Duration | None = None
    ) -> Receipt:
        raise AssertionError("producers append batches")

    async def append_many(
        self,
        values: Iterable[Buffer],
        *,
        keys: Iterable[Buffer | None] | None = None,
        seq: int | None = None,
        timeout: Duration | None = None,
    ) -> Receipt:
        assert seq is not None
        outcome = self._outcomes[seq]
        if isinstance(outcome, IthacaError):
            raise outcome
        return outcome


async def sent(tmp_path: Path, kinds: list[IthacaError | None]) -> tuple[SessionProducer, list[int]]:
    """A producer that has sent batches which came to these ends; where the batches begin."""
    outcomes: dict[int, Receipt | IthacaError] = {}
    first = 1
    with HistoryWriter(errand(tmp_path, 0).history()) as writer:
        for kind in kinds:
            batch = batch_of(42, 1, first, 10)
            writer.write(batch.event("info"))
            outcomes[first] = kind or Receipt(first, batch.count, 0, "fsync")
            first += batch.count
    ours, theirs = Pipe()
    with ours, theirs, closing(Client(theirs, errand(tmp_path, 1))) as client:
        client.finish = Finish()  # nothing new
        producer = SessionProducer(client)
        await producer.send(Refusing(outcomes))
    return producer, list(outcomes)


async def test_what_is_refused_stays_open_with_what_is_behind_it(tmp_path: Path) -> None:
    producer, firsts = await sent(tmp_path, [None, StorageFull("full"), SequenceGap("a gap"), SequenceGap("a gap")])
    assert [batch.first for batch in producer.open] == firsts[1:]
    producer.check(firsts[1])
    producer.check(firsts[3])
    with pytest.raises(AssertionError, match="everything before"):
        producer.check(firsts[0])
    with pytest.raises(AssertionError, match="on was sent"):
        producer.check(firsts[3] + 1000)
    assert left_open(errand(tmp_path, 2))[0] == producer.open


@pytest.mark.parametrize("kinds", [[SequenceGap("a gap")], [StorageFull("full"), Corrupt("damage")]], ids=str)
async def test_other_errors_are_findings(tmp_path: Path, kinds: list[IthacaError | None]) -> None:
    with pytest.raises((SequenceGap, Corrupt)):
        await sent(tmp_path, kinds)
