"""The store: its tables against a dictionary, its state machine, its file, its mirror."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ithaca
from ithaca.model.errors import Conflict, Corrupt, InvalidInput, ReadOnly, StorageError, WrongObject
from ithaca.objects import Store, Transaction
from ithaca.objects.context import APPLYING, Moment
from ithaca.objects.store_state import StoreState, scanned, table_of
from ithaca.objects.store_tables import MemoryTable, SqliteTable, Table

KEYS = st.sampled_from([b"", b"a", b"a/1", b"a/2", b"a\xff", b"b"])
STEPS = st.lists(st.tuples(KEYS, st.none() | st.binary(max_size=3)), max_size=30)


@pytest.mark.parametrize("make", [MemoryTable, lambda: SqliteTable(Path(":memory:"))], ids=["memory", "sqlite"])
@given(steps=STEPS, prefix=KEYS, after=st.none() | KEYS)
@settings(max_examples=60)
def test_tables_are_dictionaries_in_order(
    make: Callable[[], Table], steps: list[tuple[bytes, bytes | None]], prefix: bytes, after: bytes | None
) -> None:
    table = make()
    naive: dict[bytes, tuple[bytes, int]] = {}
    for position, (key, value) in enumerate(steps, 1):
        if value is None:
            table.delete(key)
            naive.pop(key, None)
        else:
            table.put(key, value, position)
            naive[key] = (value, position)
        if position % 5 == 0:
            assert [key for key, _ in table.scan(b"")] == sorted(naive)
    wanted = sorted(item for item in naive.items() if item[0].startswith(prefix) and (after is None or item[0] > after))
    if after is None or after >= prefix:
        assert [(key, tuple(entry)) for key, entry in table.scan(prefix, after)] == wanted
    assert len(table) == len(naive)
    assert all(table.get(key) == naive.get(key) for key in (b"a", b"b", b"none"))
    table.release()


def applied(state: StoreState, position: int, change: Callable[[], int]) -> int:
    APPLYING.moment = Moment(position, 0)
    try:
        return change()
    finally:
        APPLYING.moment = None


@given(steps=STEPS)
@settings(max_examples=60)
def test_the_digest_depends_on_what_is_there_alone(steps: list[tuple[bytes, bytes | None]]) -> None:
    state = StoreState()
    for position, (key, value) in enumerate(steps, 1):
        applied(state, position, lambda key=key, value=value: state.put({key: value}))  # type: ignore[misc]
    again = StoreState.from_snapshot(state.to_snapshot())
    assert again.state_hash() == state.state_hash()
    assert list(table_of(again).scan(b"")) == list(table_of(state).scan(b""))
    applied(again, 99, lambda: again.put({b"one more": b"x"}))
    assert again.state_hash() != state.state_hash()


def test_a_transaction_fails_on_each_thing_it_read() -> None:
    state = StoreState()
    applied(state, 1, lambda: state.put({b"a/1": b"x", b"a/2": b"y", b"b": b"z"}))
    seen = scanned(state, b"a/")
    assert applied(state, 2, lambda: state.commit({b"b": 1, b"c": 0}, [seen], {b"d": b"1"})) == 2
    assert applied(state, 3, lambda: state.commit({b"d": 1}, [], {b"e": b"1"})) == 0
    assert applied(state, 4, lambda: state.commit({b"d": 0}, [], {b"e": b"1"})) == 0
    applied(state, 5, lambda: state.put({b"a/3": b"new", b"a/1": None}))
    assert applied(state, 6, lambda: state.commit({}, [seen], {b"e": b"1"})) == 0, "as many keys, but others"
    assert table_of(state).get(b"e") is None


def test_a_snapshot_that_is_none() -> None:
    with pytest.raises(Corrupt):
        StoreState.from_snapshot(b"\xc1")


# On a log


@pytest.fixture
def log(tmp_path: Path) -> "Iterator[ithaca.Log]":
    with ithaca.open(tmp_path / "log") as log:
        yield log


def test_a_store_in_a_file_goes_on_from_there(log: ithaca.Log, tmp_path: Path) -> None:
    with Store(log, state=tmp_path / "s.db") as store:
        position = store.put_many({b"a": b"1", b"b": b"2"})
    with Store(log) as other:
        other.put(b"a", b"3")
    with Store(log, state=tmp_path / "s.db") as store:
        assert store.scan() == [(b"a", b"3"), (b"b", b"2")]
        assert store.as_of(position).scan() == [(b"a", b"1"), (b"b", b"2")]
        assert store.transact(lambda transaction: transaction.scan(b"a")) == [(b"a", b"3")]
        digest = store._replica.look(lambda state: state.state_hash())
    with Store(log) as other:
        assert other._replica.look(lambda state: state.state_hash()) == digest
    with pytest.raises(WrongObject):
        Store(log, "another", state=tmp_path / "s.db").open()


def test_files_that_are_no_store(log: ithaca.Log, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello " * 100)
    with pytest.raises(Corrupt, match="delete it to build it again"):
        Store(log, state=tmp_path / "text")
    with pytest.raises(StorageError, match="cannot be used"):
        Store(log, state=tmp_path)
    with pytest.raises(InvalidInput, match="leave snapshots out"):
        Store(log, state=tmp_path / "s.db", snapshots="log")


def test_a_mirror_follows_and_says_how_far_it_is(log: ithaca.Log, tmp_path: Path) -> None:
    with Store(log) as store:
        store.put(b"a", b"1")
        with ithaca.open(tmp_path / "log", mode="r") as reading, Store(reading, read_only=True) as mirror:
            store.put(b"a", b"2")
            mirror.sync()
            progress = mirror.progress()
            assert progress.is_current
            assert progress.tail == log.tail()
            assert progress.time_us > 0
            assert mirror.get(b"a") == b"2"
            with pytest.raises(ReadOnly):
                mirror.put(b"a", b"3")


def test_a_transaction_sees_its_own_writes_and_nothing_of_it_stays_when_it_raises(log: ithaca.Log) -> None:
    with Store(log) as store:

        def failing(transaction: Transaction) -> None:
            transaction.put(b"a", b"1")
            assert transaction.get(b"a") == b"1"
            transaction.delete(b"a")
            assert transaction.scan() == []
            transaction.put(b"b", b"1")
            assert transaction.scan() == [(b"b", b"1")]
            raise KeyError

        tail = log.tail()
        with pytest.raises(KeyError):
            store.transact(failing)
        assert log.tail() == tail


def test_a_transaction_that_always_loses(log: ithaca.Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ithaca.objects.blocking.store.STORE_ATTEMPTS_MAX", 3)
    with Store(log) as store, Store(log) as other:

        def slow(transaction: Transaction) -> None:
            transaction.get(b"a")
            transaction.put(b"a", b"mine")
            other.put(b"a", b"theirs")

        with pytest.raises(Conflict, match="lost 3 times"):
            store.transact(slow)
        assert store.get(b"a") == b"theirs"


@pytest.mark.parametrize(("key", "value"), [("text", b""), (b"x" * 70000, b""), (b"k", "text"), (b"k", 7)])
def test_keys_and_values_are_bytes(log: ithaca.Log, key: bytes, value: bytes) -> None:
    with Store(log) as store:
        with pytest.raises(InvalidInput):
            store.put(key, value)
        with pytest.raises(InvalidInput):
            store.transact(lambda transaction: transaction.put(key, value))
        with pytest.raises(InvalidInput, match="a dictionary"):
            store.put_many([(key, value)])  # type: ignore[arg-type]
