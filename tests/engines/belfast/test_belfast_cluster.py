"""Clusters of the engine belfast in this process, over real sockets and files."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import ithaca
import ithaca.aio
import ithaca.speculation
from ithaca.model.config.failures import FailurePolicy
from ithaca.model.errors import EmptyPosition, InvalidInput, LogClosed, Unsupported
from ithaca.model.interface import ClusterLog, Speculation
from ithaca.model.records import KeyFilter, Record
from ithaca.model.speculation import Confirmed, Delivered, Failed, SpeculativeEvent
from ithaca.testing import Cluster

DETECTION_MS = 300


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """For tests that break nothing."""
    with Cluster(tmp_path_factory.mktemp("belfast") / "cluster", shards=2, engine="belfast") as cluster:
        yield cluster


@pytest.fixture
def log(cluster: Cluster) -> Iterator[ClusterLog]:
    with ithaca.connect(cluster.bootstrap) as log:
        yield log


class Told:
    """What a speculator was told, as an application would have it."""

    def __init__(self, speculation: Speculation) -> None:
        self._speculation = speculation
        self.records: list[Record] = []
        self.confirmed = 0
        self.failed = 0

    def until(self, is_enough: Callable[[], bool]) -> None:
        for _ in range(200):
            if is_enough():
                return
            self.take(self._speculation.take(0.1))
        raise AssertionError(f"{len(self.records)} records, confirmed to {self.confirmed}, {self.failed} failures")

    def take(self, events: list[SpeculativeEvent]) -> None:
        for event in events:
            match event:
                case Delivered(record, _):
                    assert not self.records or record.position > self.records[-1].position
                    self.records.append(record)
                case Confirmed(up_to):
                    assert up_to > self.confirmed
                    self.confirmed = up_to
                case Failed(after):
                    assert after >= self.confirmed, "what is confirmed stays"
                    self.records = [each for each in self.records if each.position <= after]
                    self.failed += 1

    def confirms(self, position: int) -> None:
        self.until(lambda: self.confirmed >= position)


def test_positions_between_records_are_empty(log: ClusterLog) -> None:
    first, second = log.append(b"a").position, log.append(b"b").position
    assert second > first + 1
    with pytest.raises(EmptyPosition):
        log.read(first + 1)
    assert [record.value for record in log.read_range(first)] == [b"a", b"b"]
    assert log.read(second).value == b"b"


def test_records_are_delivered_and_then_confirmed(log: ClusterLog, cluster: Cluster) -> None:
    before = log.append(b"before").position
    with ithaca.connect(cluster.bootstrap) as other, other.speculate(before) as speculation:
        told = Told(speculation)
        last = [log.append(b"%d" % number).position for number in range(20)][-1]
        told.confirms(last)
        assert [record.value for record in told.records] == [b"before", *(b"%d" % number for number in range(20))]
        assert told.records == list(log.read_range(before))
        assert not told.failed
        assert speculation.position > last
        big = log.append_many([b"x"] * 10_000).position  # which is too large for the slots of a lane in one cut
        told.confirms(big + 9_999)
        assert told.records == list(log.read_range(before))


def test_filters_publications_and_handles_that_close(log: ClusterLog, cluster: Cluster) -> None:
    tail = log.tail()
    with ithaca.connect(cluster.bootstrap) as other:
        speculation = other.speculate(tail, where=KeyFilter.equals(b"k"))
        told = Told(speculation)
        log.append(b"1", key=b"k")
        log.append(b"2", key=b"other")
        part = log.prepare([b"3", b"4"], keys=[b"k", b"k"])
        end = log.publish_once([part]).positions.stop
        last = log.append(b"5", key=b"k").position
        assert last >= end
        told.confirms(last)
        assert [record.value for record in told.records] == [b"1", b"3", b"4", b"5"]
        closer = threading.Timer(0.05, speculation.close)
        closer.start()
        assert list(speculation) == []
        closer.join()
        assert speculation.take() == []
        with pytest.raises(InvalidInput):
            other.speculate("yesterday")  # type: ignore[arg-type]
        left = other.speculate(tail)
        left.take(1)
    with pytest.raises(LogClosed):
        left.take()
    with pytest.raises(LogClosed):
        other.speculate()


def test_tasks_run_on_it_in_both_twins(log: ClusterLog, cluster: Cluster) -> None:
    start = log.append_many([b"1", b"2"]).position
    log.append(b"3")
    stop = log.tail()
    rows: list[bytes] = []
    published: list[bytes] = []

    def apply(record: Record) -> int:
        rows.append(record.value)
        return len(rows)

    position = ithaca.speculation.run(
        log,
        apply,
        lambda record, _: rows.remove(record.value),
        lambda record, _: published.append(record.value),
        start=start,
        stop=stop,
    )
    assert (rows, published) == ([b"1", b"2", b"3"], [b"1", b"2", b"3"])
    assert position == stop

    async def awaited() -> list[SpeculativeEvent]:
        async with ithaca.aio.connect(cluster.bootstrap) as other:
            speculation = other.speculate(start)
            assert speculation.position == start
            async with speculation:
                found: list[SpeculativeEvent] = []
                while sum(isinstance(event, Delivered) for event in found) < 3:
                    found.append(await anext(speculation))
                return found

    assert sum(isinstance(event, Delivered) for event in asyncio.run(awaited())) == 3


def test_an_engine_that_has_none_says_who_has(tmp_path: Path) -> None:
    with (
        Cluster(tmp_path / "cluster", engine="raft") as cluster,
        ithaca.connect(cluster.bootstrap) as log,
        pytest.raises(Unsupported, match="use a cluster with the engine belfast"),
    ):
        log.speculate()


def test_what_fails_is_told_and_the_true_order_comes_again(tmp_path: Path) -> None:
    """A primary is killed under load, then a follower, then the leader: nothing that was acknowledged is lost, and a
    speculator ends with what was ordered."""
    policy = FailurePolicy("none", DETECTION_MS)
    with (
        Cluster(tmp_path / "cluster", shards=2, orderers=3, engine="belfast", failures=policy) as cluster,
        ithaca.connect(cluster.bootstrap) as log,
        ithaca.connect(cluster.bootstrap) as other,
    ):
        acknowledged: list[bytes] = []

        def append(count: int) -> int:
            values = [b"%d" % (len(acknowledged) + number) for number in range(count)]
            last = [log.append(value).position for value in values][-1]
            acknowledged.extend(values)
            return last

        start = log.tail()
        append(5)
        with other.speculate(start) as speculation:
            told = Told(speculation)
            told.confirms(append(5))
            cluster.kill_server("shard-0-replica-0")
            told.confirms(append(10))
            assert told.failed == 1
            cluster.start_server("shard-0-replica-0")
            cluster.wait_healthy()
            cluster.kill_server("shard-1-replica-1")
            told.confirms(append(5))
            cluster.start_server("shard-1-replica-1")
            cluster.wait_healthy()
            leader = cluster.status().health.leader
            assert leader is not None
            failed = told.failed
            cluster.kill_server(leader.place.name)
            told.confirms(append(10))
            assert told.failed == failed, "a change of the leader fails nothing"
            assert [record.value for record in told.records] == acknowledged
            assert told.records == list(log.read_range(start))


def test_shards_come_and_go_without_a_failure(tmp_path: Path) -> None:
    with (
        Cluster(tmp_path / "cluster", shards=2, engine="belfast") as cluster,
        ithaca.connect(cluster.bootstrap) as log,
        ithaca.connect(cluster.bootstrap) as other,
    ):
        start = log.tail()
        with other.speculate(start) as speculation:
            told = Told(speculation)
            told.confirms(log.append(b"1").position)
            added = cluster.add_shard()
            told.confirms(log.append_to_shard(added, b"2").position)
            log.admin.finalize_shard(0)
            told.confirms(log.append(b"3").position)
            assert [record.value for record in told.records] == [b"1", b"2", b"3"]
            assert not told.failed


class Appending:
    """Somebody who appends all the time, and remembers what was acknowledged."""

    def __init__(self, log: ClusterLog) -> None:
        self._log = log
        self.acknowledged: list[bytes] = []
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._append)

    def _append(self) -> None:
        while not self._is_over.is_set():
            value = b"%d" % len(self.acknowledged)
            self._log.append(value)
            self.acknowledged.append(value)

    def __enter__(self) -> "Appending":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()


@pytest.mark.parametrize(("replicas", "masking"), [(3, True), (2, False)], ids=["masking", "restarting"])
def test_a_primary_that_is_lost_is_taken_over_and_nothing_fails(tmp_path: Path, replicas: int, masking: bool) -> None:
    """Whoever restarts: what was delivered keeps its place. Where f+1 replicas are all there are, the primary that is
    back with its disk is one of them."""
    with (
        Cluster(
            tmp_path / "cluster", shards=2, replicas=replicas, masking=masking, engine="belfast", orderers=3
        ) as cluster,
        ithaca.connect(cluster.bootstrap) as log,
        ithaca.connect(cluster.bootstrap) as other,
    ):
        start = log.tail()
        with other.speculate(start) as speculation:
            told = Told(speculation)
            with Appending(log) as appending:
                told.until(lambda: len(told.records) > 20)
                for name in ("shard-0-replica-0", "shard-1-replica-0", "shard-0-replica-1"):
                    seen = len(told.records)
                    cluster.kill_server(name)
                    if masking:
                        told.until(lambda seen=seen: len(told.records) > seen + 20)  # type: ignore[misc]
                    cluster.start_server(name)
                    cluster.wait_healthy()
                    told.until(lambda seen=seen: len(told.records) > seen + 20)  # type: ignore[misc]
            told.confirms(log.append(b"last").position)
            assert [record.value for record in told.records] == [*appending.acknowledged, b"last"]
            assert told.records == list(log.read_range(start))
            assert not told.failed


def test_a_publication_and_a_shard_that_joins_an_idle_log_wait_for_nobody(tmp_path: Path) -> None:
    """Both lie behind windows in which nobody has anything to place: those are hurried through."""
    with (
        Cluster(tmp_path / "cluster", shards=2, engine="belfast") as cluster,
        ithaca.connect(cluster.bootstrap) as log,
        ithaca.connect(cluster.bootstrap) as other,
    ):
        start = log.append(b"first").position
        with other.speculate(start) as speculation:
            told = Told(speculation)
            part = log.prepare([b"1", b"2"])
            joining = threading.Thread(target=cluster.add_shard)
            joining.start()
            published = log.publish_once([part]).positions
            joining.join()
            last = log.append_to_shard(2, b"3").position
            assert last >= published.stop
            told.confirms(last)
            assert [record.value for record in told.records] == [b"first", b"1", b"2", b"3"]
            assert not told.failed
