"""Tasks that go wrong on a real cluster: what they say, what is left of them, and that others notice nothing."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

import ithaca
import ithaca.aio
from ithaca import speculation
from ithaca.engines.belfast.client import speculation as client
from ithaca.model.interface import ClusterLog, Speculation
from ithaca.model.records import Record
from ithaca.model.speculation import Confirmed, Delivered, Failed
from ithaca.speculation import aio
from ithaca.testing import Cluster

COUNT = 300


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("tasks") / "cluster", shards=2, engine="belfast") as cluster:
        yield cluster


@pytest.fixture
def log(cluster: Cluster) -> Iterator[ClusterLog]:
    with ithaca.connect(cluster.bootstrap, shard_policy="round_robin") as log:
        yield log


def append(log: ClusterLog, count: int = COUNT) -> list[bytes]:
    values = [b"%d" % number for number in range(count)]
    for first in range(0, count, 10):
        log.append_many(values[first : first + 10])
    return values


class Rows:
    """A task's state: what was applied; and what was published of it."""

    def __init__(self, break_at: int | None = None) -> None:
        self.rows: list[bytes] = []
        self.published: list[bytes] = []
        self.break_at = break_at

    def apply(self, record: Record) -> int:
        self.rows.append(record.value)
        return len(self.rows)

    def undo(self, record: Record, length: int) -> None:
        assert len(self.rows) == length, "newest first"
        self.rows.pop()

    def publish(self, record: Record, length: int) -> None:
        if len(self.published) == self.break_at:
            self.break_at = None
            raise RuntimeError("the door is shut")
        self.published.append(record.value)


def test_a_publish_that_raises_loses_nothing_and_publishes_nothing_twice(log: ClusterLog) -> None:
    start = log.tail()
    values = append(log)
    task, other = Rows(break_at=100), Rows()
    with pytest.raises(ithaca.TaskFailed, match="publish raised") as caught:
        speculation.run(log, task.apply, task.undo, task.publish, start=start, stop=log.tail())
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert task.rows == task.published == values[:100]
    again = caught.value.position
    speculation.run(log, task.apply, task.undo, task.publish, start=again, stop=log.tail())
    assert task.rows == task.published == values
    speculation.run(log, other.apply, other.undo, other.publish, start=start, stop=log.tail())
    assert other.published == values


def test_the_same_awaited(log: ClusterLog, cluster: Cluster) -> None:
    start = log.tail()
    values = append(log)
    stop = log.tail()
    task = Rows(break_at=100)

    async def apply(record: Record) -> int:
        return task.apply(record)

    async def undo(record: Record, length: int) -> None:
        task.undo(record, length)

    async def publish(record: Record, length: int) -> None:
        task.publish(record, length)

    async def main() -> None:
        async with ithaca.aio.connect(cluster.bootstrap) as other:
            with pytest.raises(ithaca.TaskFailed, match="publish raised") as caught:
                await aio.run(other, apply, undo, publish, start=start, stop=stop)
            assert task.rows == task.published == values[:100]
            assert await aio.run(other, apply, undo, publish, start=caught.value.position, stop=stop) >= stop

    asyncio.run(main())
    assert task.rows == task.published == values


def test_a_handle_that_is_closed_in_the_middle_leaves_what_was_published(log: ClusterLog, cluster: Cluster) -> None:
    start = log.tail()
    values = append(log)
    task = Rows()
    other = ithaca.connect(cluster.bootstrap)
    closer = threading.Timer(0.5, other.close)  # it waits for more records by then
    closer.start()
    with pytest.raises(ithaca.LogClosed):
        speculation.run(other, task.apply, task.undo, task.publish, start=start)
    closer.join()
    assert task.rows == task.published == values[: len(task.published)]
    held = list(log.read_range(start))
    again = held[len(task.published)].position if len(task.published) < COUNT else log.tail()
    speculation.run(log, task.apply, task.undo, task.publish, start=again, stop=log.tail())
    assert task.rows == task.published == values


def test_a_slow_speculator_holds_up_nobody_and_misses_nothing(
    log: ClusterLog, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More comes than may wait for it, while it takes nothing."""
    monkeypatch.setattr(client, "SPECULATIVE_EVENTS_MAX", 50)
    start = log.tail()
    with ithaca.connect(cluster.bootstrap) as idle, idle.speculate(start) as slow:
        first = append(log, 10)
        assert take(slow, 10) == first
        values = append(log, 2000)
        quick = Rows()
        speculation.run(log, quick.apply, quick.undo, quick.publish, start=start, stop=log.tail())
        assert quick.published == first + values
        assert take(slow, 2000) == values


def take(told: Speculation, count: int) -> list[bytes]:
    """So many records, once they are confirmed."""
    values: list[bytes] = []
    last = confirmed = 0
    for _ in range(2000):
        for event in told.take(0.1):
            match event:
                case Delivered(record, _):
                    values.append(record.value)
                    last = record.position
                case Confirmed(up_to):
                    confirmed = up_to
                case Failed():
                    raise AssertionError("nothing failed")
        if len(values) >= count and confirmed >= last:
            return values
    raise AssertionError(f"{len(values)} of {count} records")
