"""Replicas, stores and versions on every engine and on the log of a directory: many objects on one log."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.conformance.engines import ENGINES, Deployment, Engine
from tests.objects.machines import Counter

from ithaca.model.engine import Feature
from ithaca.model.errors import LogClosed, NoSuchMethod, NotEncodable, NotWritten, RecordTooLarge, WrongObject
from ithaca.model.interface import ClusterLog, Log
from ithaca.objects import Store, Transaction, Versions, replicate


@pytest.fixture(
    scope="module", params=[each for each in ENGINES if "-aio" not in each.name], ids=lambda each: each.name
)
def engine(request: pytest.FixtureRequest) -> Engine:
    found: Engine = request.param
    return found


@pytest.fixture(scope="module")
def deployment(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with engine.deploy(tmp_path_factory.mktemp("objects")) as deployment:
        yield deployment


@pytest.fixture(scope="module")
def log(deployment: Deployment) -> Log:
    return deployment.open()


def test_replicas_come_to_the_same_state(log: Log) -> None:
    with replicate(log, Counter, name="same") as one, replicate(log, Counter, name="same") as other:
        with ThreadPoolExecutor(4) as threads:
            results = list(threads.map(lambda n: (one if n % 2 else other).propose(Counter.add, 1), range(40)))
        assert sorted(results) == list(range(1, 41))
        assert one.read(lambda state: state.value) == other.read(lambda state: state.value) == 40
        with pytest.raises(LookupError, match="why"):
            other.propose(Counter.fail, "why")
        assert one.read(lambda state: state.value) == 140


def test_submitted_commands_are_applied_in_their_order(log: Log) -> None:
    with replicate(log, Counter, name="submitted") as counter:
        proposals = [counter.submit(Counter.note, str(number)) for number in range(50)]
        for proposal in proposals:
            assert proposal.result() is None
        assert counter.local(lambda state: state.seen) == [str(number) for number in range(50)]


def test_reads_are_as_fresh_as_asked_for(log: Log) -> None:
    with replicate(log, Counter, name="fresh") as writer, replicate(log, Counter, name="fresh") as reader:
        for amount in range(1, 6):
            writer.propose(Counter.add, amount)
            log.append(b"of somebody else", key=b"elsewhere")
            assert reader.read(lambda state: state.value) == writer.local(lambda state: state.value)
        position = writer.position - 1
        assert reader.read(lambda state: state.value, at_least=position) == 15
        assert reader.sync() == log.tail()


def test_a_replica_starts_where_the_log_is(log: Log) -> None:
    with replicate(log, Counter, name="late") as first:
        for _ in range(10):
            first.propose(Counter.add, 1)
        positions = [first.position - 1]
        first.propose(Counter.add, 5)
    with replicate(log, Counter, name="late", read_only=True) as late:
        assert late.local(lambda state: state.value) == 15
        assert late.as_of(positions[0]).value == 10
        with pytest.raises(NotWritten):
            late.as_of(log.tail())


def test_what_cannot_be_proposed(log: Log) -> None:
    with replicate(log, Counter, name="refused") as counter:
        with pytest.raises(NoSuchMethod, match="there are add, fail, note"):
            counter.propose("subtract", 1)
        with pytest.raises(NotEncodable):
            counter.propose("add", object())
        with pytest.raises(RecordTooLarge, match=r"Counter\.note take .* split it"):
            counter.propose(Counter.note, "x" * (16 << 20))
        assert counter.propose(Counter.add, 1) == 1
    with pytest.raises(LogClosed):
        counter.propose(Counter.add, 1)


def test_another_class_under_the_name(log: Log) -> None:
    with replicate(log, Counter, name="taken") as counter:
        counter.propose(Counter.add, 1)
    with pytest.raises(WrongObject, match="'taken' in this log is a Counter"):
        Store(log, "taken").open()


# Stores


def test_a_store_puts_gets_tests_and_scans(log: Log) -> None:
    with Store(log, "pairs") as one, Store(log, "pairs") as other:
        position = one.put_many({b"a/1": b"x", b"a/2": b"y", b"b": b"z"})
        assert other.get_many([b"a/1", b"b", b"c"]) == {b"a/1": b"x", b"b": b"z", b"c": None}
        assert other.get(b"b", at_least=position) == b"z"
        assert other.test_and_put({b"b": b"z", b"c": None}, {b"c": b"1", b"b": None})
        assert not one.test_and_put({b"b": b"z"}, {b"c": b"2"})
        assert one.scan(b"a/") == [(b"a/1", b"x"), (b"a/2", b"y")]
        assert one.scan(limit=1, after=b"a/1") == [(b"a/2", b"y")]
        assert one.as_of(position).scan() == [(b"a/1", b"x"), (b"a/2", b"y"), (b"b", b"z")]
        view = one.view()
        other.delete(b"a/1", b"a/2")
        assert (view.get(b"a/1"), one.get(b"a/1"), len(view)) == (b"x", None, 3)
        assert one.progress().is_current


def test_transactions_lose_no_update(log: Log) -> None:
    with Store(log, "account") as one, Store(log, "account") as other:
        one.put_many({b"n": b"0"})

        def more(transaction: Transaction) -> int:
            value = int(transaction.get(b"n") or b"") + 1
            transaction.put(b"n", str(value).encode())
            return value

        with ThreadPoolExecutor(4) as threads:
            results = list(threads.map(lambda n: (one if n % 2 else other).transact(more), range(20)))
        assert sorted(results) == list(range(1, 21))
        assert one.get(b"n") == b"20"


# Versions


def test_versions_are_read_by_position_and_as_of(engine: Engine, log: Log) -> None:
    with Versions(log, "pages") as pages, Versions(log, "pages") as other:
        first = pages.put(b"home", b"1")
        second = pages.put(b"home", b"2")
        if Feature.SHARDS in engine.features:
            assert second.shard == first.shard, "an object stays where it is"
        assert other.get(b"home") == b"2"
        assert other.get(b"home", as_of=first.position) == b"1"
        assert other.get(b"home", as_of=first.position - 1) is None
        assert other.read(first) == b"1"
        assert other.history(b"home") == [first, second]
        assert other.newest(b"nothing") is None


def test_versions_are_where_the_caller_puts_them(engine: Engine, log: Log) -> None:
    engine.require(Feature.SHARDS)
    assert isinstance(log, ClusterLog)
    with Versions(log, "placed") as pages:
        for number in range(6):
            assert pages.put(b"%d" % number, b"value", shard=number % 2).shard == number % 2
        pages.newest(b"0")
        assert pages.shards() == {0: 3, 1: 3}
        assert pages.objects(1) == [b"1", b"3", b"5"]
