"""Sessions: a retry under the same number is recognised, and everything else is a typed error."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ithaca.model.engine import Feature
from ithaca.model.errors import (
    BatchTooLarge,
    InvalidInput,
    LogClosed,
    RecordTooLarge,
    SequenceConflict,
    SequenceGap,
    SessionFenced,
)
from ithaca.model.interface import Log
from ithaca.model.limits import BATCH_BYTES_MAX, RECORD_BYTES_MAX, SESSION_BATCHES_MAX, SESSION_NAME_BYTES_MAX
from tests.conformance.engines import Deployment, Engine


@pytest.fixture(autouse=True)
def needed(engine: Engine) -> None:
    engine.require(Feature.SESSIONS)


def test_numbers_count_records_from_one(engine: Engine, log: Log) -> None:
    session = log.session("importer")
    assert (session.name, session.next_seq) == ("importer", 1)
    first = session.append(b"row 1", key=b"k")
    assert session.next_seq == 2
    batch = session.append_many([b"row 2", b"row 3"], keys=[None, b"k3"])
    assert session.next_seq == 4
    session.append(b"row 4", seq=4)
    assert session.next_seq == 5
    engine.check_next([first.position, batch.position], first.position)
    found = [(record.value, record.key) for record in log.read_range(first.position)]
    assert found == [(b"row 1", b"k"), (b"row 2", None), (b"row 3", b"k3"), (b"row 4", None)]


def test_same_number_same_receipt(log: Log) -> None:
    session = log.session("importer")
    first = session.append(b"row 1", seq=1)
    batch = session.append_many([b"row 2", b"row 3"], seq=2)
    log.append(b"somebody else's")
    tail = log.tail()
    assert session.append(b"row 1", seq=1) == first
    assert session.append_many([b"row 2", b"row 3"], seq=2) == batch
    assert session.next_seq == 4
    assert log.tail() == tail


def test_the_last_batches_are_kept_and_older_ones_are_a_gap(engine: Engine, log: Log) -> None:
    session = log.session("importer")
    receipts = [session.append(b"row %d" % n, seq=n) for n in range(1, SESSION_BATCHES_MAX + 3)]
    tail = log.tail()
    for receipt, n in list(zip(receipts, range(1, SESSION_BATCHES_MAX + 3), strict=True))[-SESSION_BATCHES_MAX:]:
        assert session.append(b"row %d" % n, seq=n) == receipt
    with pytest.raises(SequenceGap, match="importer"):
        session.append(b"row 1", seq=1)
    assert log.tail() == tail
    engine.check_next([session.append(b"next").position], tail)


def test_a_gap_is_refused(engine: Engine, log: Log) -> None:
    session = log.session("importer")
    session.append_many([b"1", b"2"])
    tail = log.tail()
    for seq in (4, 5, 1_000_000):
        with pytest.raises(SequenceGap, match=str(seq)):
            session.append(b"x", seq=seq)
    assert (log.tail(), session.next_seq) == (tail, 3)
    engine.check_next([session.append(b"3", seq=3).position], tail)


def test_a_batch_that_only_overlaps_is_refused(log: Log) -> None:
    session = log.session("importer")
    session.append_many([b"1", b"2", b"3"], seq=1)
    session.append_many([b"4", b"5"], seq=4)
    tail = log.tail()
    overlaps: list[tuple[int, int]] = [(1, 2), (1, 4), (2, 2), (2, 3), (3, 1), (3, 3), (4, 1), (5, 1), (5, 2)]
    for seq, count in overlaps:
        with pytest.raises(SequenceGap):
            session.append_many([b"x"] * count, seq=seq)
    assert (log.tail(), session.next_seq) == (tail, 6)


@pytest.mark.parametrize("seq", [0, -1])
def test_numbers_below_one_are_refused(log: Log, seq: int) -> None:
    session = log.session("importer")
    with pytest.raises((InvalidInput, SequenceGap), match=str(seq)):
        session.append(b"x", seq=seq)
    assert session.next_seq == 1


def test_a_refused_batch_takes_no_number(engine: Engine, log: Log) -> None:
    session = log.session("importer")
    tail = log.tail()
    wrong: Any = "text"
    with pytest.raises((InvalidInput, TypeError)):
        session.append(wrong)
    with pytest.raises(InvalidInput):
        session.append_many([])
    with pytest.raises(InvalidInput):
        session.append_many([b"a", b"b"], keys=[b"k"])
    with pytest.raises(RecordTooLarge):
        session.append(bytes(RECORD_BYTES_MAX + 1))
    with pytest.raises(BatchTooLarge):
        session.append_many([bytes(BATCH_BYTES_MAX // 3)] * 4)
    assert (log.tail(), session.next_seq) == (tail, 1)
    engine.check_next([session.append(b"fine", seq=1).position], tail)


def test_opening_again_fences_the_older_handle(engine: Engine, log: Log) -> None:
    older = log.session("importer")
    receipt = older.append(b"row 1", seq=1)
    newer = log.session("importer")
    assert newer.next_seq == 2
    tail = log.tail()
    for seq in (None, 1, 2):
        with pytest.raises(SessionFenced, match="importer"):
            older.append(b"row", seq=seq)
    with pytest.raises(SessionFenced):
        older.append_many([b"row"])
    assert log.tail() == tail
    assert newer.append(b"row 1", seq=1) == receipt
    engine.check_next([newer.append(b"row 2", seq=2).position], tail)


def test_sessions_do_not_touch_each_other(engine: Engine, log: Log) -> None:
    one, other = log.session("one"), log.session("other")
    for n in range(1, 20):
        first = one.append(b"one %d" % n, seq=n)
        second = other.append(b"other %d" % n, seq=n)
        engine.check_next([first.position, second.position], first.position)
        assert one.append(b"one %d" % n, seq=n) == first
    assert one.next_seq == other.next_seq == 20


def test_a_session_survives_reopening(deployment: Deployment) -> None:
    with deployment.open() as log:
        session = log.session("importer")
        receipts = [session.append_many([b"%d.%d" % (n, m) for m in range(3)]) for n in range(4)]
        log.session("silent")
    with pytest.raises(LogClosed):
        session.append(b"late")
    for _ in range(2):
        with deployment.open() as log:
            session = log.session("importer")
            assert session.next_seq == 13
            tail = log.tail()
            again = [session.append_many([b"%d.%d" % (n, m) for m in range(3)], seq=3 * n + 1) for n in range(4)]
            assert again == receipts
            assert log.tail() == tail
            with pytest.raises(SequenceGap):
                session.append(b"x", seq=14)
            assert log.session("silent").next_seq == 1


def test_a_session_survives_a_trim_of_its_records(deployment: Deployment) -> None:
    with deployment.open() as log:
        receipt = log.session("importer").append_many([b"1", b"2"])
        log.trim(log.tail())
        assert log.session("importer").append_many([b"1", b"2"], seq=1) == receipt
    with deployment.open() as log:
        session = log.session("importer")
        assert session.next_seq == 3
        assert session.append_many([b"1", b"2"], seq=1) == receipt


def test_racing_retries_append_once(engine: Engine, log: Log) -> None:
    session = log.session("importer")
    tail = log.tail()
    positions: list[int] = []
    with ThreadPoolExecutor(8) as pool:
        for n in range(1, 21):
            receipts = set(pool.map(lambda _, seq=n: session.append(b"row", seq=seq).position, range(8)))
            assert len(receipts) == 1
            positions += receipts
    engine.check_next(positions, tail)
    assert [record.position for record in log.read_range(tail)] == positions


@pytest.mark.parametrize("name", ["x", "with spaces", "Ιθάκη", "a/b", "x" * SESSION_NAME_BYTES_MAX, "\x00"])
def test_any_name_of_sensible_length_works(deployment: Deployment, name: str) -> None:
    with deployment.open() as log:
        receipt = log.session(name).append(b"row", seq=1)
    with deployment.open() as log:
        assert log.session(name).append(b"row", seq=1) == receipt


def test_names_are_validated(log: Log) -> None:
    wrong: list[Any] = ["", "x" * (SESSION_NAME_BYTES_MAX + 1), "ä" * (SESSION_NAME_BYTES_MAX // 2 + 1)]
    for name in wrong:
        with pytest.raises(InvalidInput, match="name"):
            log.session(name)
    other: list[Any] = [b"bytes", None, 7]
    for name in other:
        with pytest.raises((InvalidInput, TypeError)):
            log.session(name)


def test_other_records_under_an_old_number_are_refused(log: Log, engine: Engine) -> None:
    session = log.session("importer")
    first = session.append(b"row 1", key=b"k")
    pair = session.append_many([b"row 2", b"row 3"])
    tail = log.tail()
    repeats: list[Callable[[], object]] = [
        lambda: session.append(b"row X", key=b"k", seq=1),
        lambda: session.append(b"row 1", key=b"K", seq=1),
        lambda: session.append(b"row 1", seq=1),
        lambda: session.append(b"much longer than the first", key=b"k", seq=1),
        lambda: session.append_many([b"row 2", b"row 4"], seq=2),
        lambda: session.append_many([b"row 2r", b"ow 3"], seq=2),
    ]
    for repeat in repeats:
        with pytest.raises(SequenceConflict, match="'importer' has appended other records under the numbers"):
            repeat()
    assert session.append(b"row 1", key=b"k", seq=1) == first
    assert session.append_many([b"row 2", b"row 3"], keys=[None, None], seq=2) == pair
    assert log.tail() == tail or not engine.is_dense
    assert not list(log.read_range(tail))
    engine.check_next([session.append(b"row 4").position], tail)
