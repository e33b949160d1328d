"""Streams of a replica, without sockets: what a filter selects, in how large pieces, and what is kept meanwhile."""

import asyncio
import gc
import tracemalloc
from pathlib import Path
from typing import Any, cast

import pytest
from tests.server.test_replica_server import records_of

from ithaca.engines.scalog.messages.reading import Deliver, Found, Subscribe
from ithaca.engines.scalog.server.replica.streams import ReadView, Stream
from ithaca.engines.scalog.storage.lane_store import LaneStore
from ithaca.model.cut import LaneRun
from ithaca.model.errors import Lost, Trimmed, Unavailable
from ithaca.model.limits import (
    BATCH_BYTES_MAX,
    CACHED_BATCH_BYTES_MAX,
    DECOMPRESSED_BYTES_MAX,
    DELIVER_BYTES_MAX,
    KIB,
    MIB,
)
from ithaca.model.positions import LaneId
from ithaca.protocol.filters import Filter
from ithaca.protocol.greeting import Finished
from ithaca.runtime.connection import Connection
from ithaca.storage.disk import OsDisk
from ithaca.wire.batch import Batch
from ithaca.wire.build import build

LANE = LaneId(0, 0, 1)


class Order:
    """An order that has reached `readable`."""

    def __init__(self, readable: int) -> None:
        self.tail = self.readable = readable
        self.first = 1
        self.view_version = 1

        self.ranges: tuple[tuple[int, int], ...] = ()

    def lost(self, lane: LaneId) -> tuple[tuple[int, int], ...]:
        return self.ranges

    def strewn(self) -> tuple[tuple[int, int], ...]:
        return ()


class Sent:
    """A connection whose peer reads everything at once, or not before it is let."""

    is_open = True
    caller = None
    passage = None

    def __init__(self, *, is_kept: bool = True) -> None:
        self.messages: list[tuple[Any, bytes]] = []
        self.payload_bytes: list[int] = []
        self.said = asyncio.Event()
        self.reading = asyncio.Event()
        self.reading.set()
        self._is_kept = is_kept

    @property
    def is_writable(self) -> bool:
        return self.reading.is_set()

    async def drained(self) -> None:
        await self.reading.wait()

    def send(self, message: Any, *, payload: Any = ()) -> None:
        self.said.set()
        self.payload_bytes.append(sum(map(len, payload)))
        if self._is_kept:
            self.messages.append((message, b"".join(payload)))


def read_view_of(directory: Path, batches: list[Batch]) -> ReadView:
    """A replica's store with these batches, all of them in memory and at the positions from 1 on."""
    (directory / "lanes").mkdir()
    store = LaneStore(OsDisk(), str(directory / "lanes"), durability="os")
    held = store.create(LANE)
    for batch in batches:
        held.lane.commit(held.lane.prepare([batch]))
    count = sum(batch.count for batch in batches)
    store.note((LaneRun(LANE, 0, 1, count),), 1)
    return ReadView(store, Order(1 + count))


async def stream(read_view: ReadView, sent: Sent, where: Filter) -> None:
    request = Subscribe(1, stop=read_view.order.readable, where=where)
    await Stream(read_view, cast(Connection, sent), request, lambda _: None).run()


async def test_what_a_filter_decompresses_is_kept_up_to_a_bound(tmp_path: Path) -> None:
    """Of 40 KB stored, which are all in memory, and 480 MiB decompressed."""
    raw_bytes = BATCH_BYTES_MAX // 2
    batches = [build([bytes(raw_bytes // 4)] * 4, [b"a", b"b"] * 2, timestamp_us=1, compress="zstd") for _ in range(30)]
    assert sum(batch.total_bytes for batch in batches) < 64 * KIB
    read_view, sent = read_view_of(tmp_path, batches), Sent(is_kept=False)
    del batches
    gc.collect()
    tracemalloc.start()
    try:
        await stream(read_view, sent, Filter("equals", b"a"))
        gc.collect()
        kept, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sum(sent.payload_bytes) > 30 * raw_bytes // 2
    assert kept < DECOMPRESSED_BYTES_MAX + MIB
    assert most < DECOMPRESSED_BYTES_MAX + 2 * BATCH_BYTES_MAX


async def test_selected_records_leave_in_deliveries_of_a_bounded_size(tmp_path: Path) -> None:
    """A batch as large as there are, of whose records all but one match: with their positions they fill no frame."""
    count = 30_000
    keys: list[bytes | None] = [b"a"] * count
    keys[count - 1] = b"b"
    batch = build([b"%d" % row + bytes(KIB - 24) for row in range(count)], keys, timestamp_us=1)
    assert batch.total_bytes > BATCH_BYTES_MAX * 9 // 10
    read_view, sent = read_view_of(tmp_path, [batch]), Sent()
    await stream(read_view, sent, Filter("equals", b"a"))
    last, _ = sent.messages.pop()
    assert last == Finished()
    found, up_to = [], 1
    for message, payload in sent.messages:
        assert isinstance(message, Deliver)
        assert len(payload) <= DELIVER_BYTES_MAX
        records = records_of(message, payload)
        assert all(up_to <= position < message.up_to for position, _ in records)
        up_to = message.up_to
        found += [(position, int(value.rstrip(b"\0"))) for position, value in records]
    assert found == [(1 + row, row) for row in range(count - 1)]
    assert up_to == 1 + count


async def test_a_reader_that_does_not_read_is_sent_one_delivery(tmp_path: Path) -> None:
    batches = [build([bytes(MIB)] * 8, [b"a", b"b"] * 4, timestamp_us=1, compress="lz4") for _ in range(4)]
    read_view, sent = read_view_of(tmp_path, batches), Sent()
    sent.reading.clear()
    streaming = asyncio.ensure_future(stream(read_view, sent, Filter("equals", b"a")))
    await sent.said.wait()
    for _ in range(100):
        await asyncio.sleep(0)
    assert len(sent.messages) == 1
    sent.reading.set()
    await streaming
    records = [each for message, payload in sent.messages[:-1] for each in records_of(message, payload)]
    assert [position for position, _ in records] == list(range(1, 33, 2))


async def test_a_cut_wakes_the_reads_that_it_passes_and_no_others(tmp_path: Path) -> None:
    order = Order(1)
    read_view = ReadView(LaneStore(OsDisk(), str(tmp_path), durability="os"), order)
    near = asyncio.ensure_future(read_view.readable.wait(1, 60))
    far = [asyncio.ensure_future(read_view.readable.wait(1000 + number, 60)) for number in range(100)]
    await asyncio.sleep(0)
    assert len(read_view.readable.waits) == 101
    order.tail = 2
    read_view.advanced()
    await asyncio.sleep(0)
    assert not near.done(), "what is ordered and not here cannot be read"
    order.readable = 2
    read_view.advanced()
    assert len(read_view.readable.waits) == 100
    assert await near
    order.tail = order.readable = 1051
    read_view.advanced()
    assert len(read_view.readable.waits) == 49
    assert all(await asyncio.gather(*far[:51]))
    read_view.close(Unavailable("it ends"))
    ends = await asyncio.gather(*far[51:], return_exceptions=True)
    assert {type(each) for each in ends} == {Unavailable}


async def test_a_stream_says_when_another_view_holds_though_nothing_was_ordered(tmp_path: Path) -> None:
    read_view, sent = read_view_of(tmp_path, [build([b"a"], timestamp_us=1)]), Sent()
    order = cast(Order, read_view.order)
    streaming = asyncio.ensure_future(Stream(read_view, cast(Connection, sent), Subscribe(2), lambda _: None).run())
    await sent.said.wait()
    while not len(read_view.streams):  # noqa: ASYNC110  # it says its watermark, and then waits
        await asyncio.sleep(0)
    order.view_version = 2
    sent.said.clear()
    read_view.advanced()
    await sent.said.wait()
    assert [message.view for message, _ in sent.messages] == [1, 2]
    streaming.cancel()


def scattered(directory: Path, runs: list[LaneRun], written: int, readable: int) -> ReadView:
    """A replica's store with so many records, of which these runs are ordered, in a log with empty positions."""
    store = LaneStore(OsDisk(), str(directory), durability="os", is_dense=False)
    held = store.create(LANE)
    for row in range(written):
        held.lane.commit(held.lane.prepare([build([b"%d" % row], timestamp_us=1)]))
    for time_us, run in enumerate(runs, 1):
        store.note((run,), time_us)
    return ReadView(store, Order(readable))


async def streamed(read_view: ReadView, start: int, stop: int) -> list[Any]:
    sent = Sent()
    try:
        await Stream(read_view, cast(Connection, sent), Subscribe(start, stop), lambda _: None).run()
    except Lost as error:
        return [*(message for message, _ in sent.messages), error]
    return [message for message, _ in sent.messages]


async def test_deliveries_say_what_they_follow(tmp_path: Path) -> None:
    runs = [LaneRun(LANE, 0, 3, 2, 1), LaneRun(LANE, 2, 9, 2, 7), LaneRun(LANE, 4, 11, 1)]
    read_view = scattered(tmp_path, runs, 5, 20)
    (deliver, finished) = await streamed(read_view, 1, 20)
    assert [(item.position + item.low, item.follows) for item in deliver.items] == [
        *((3, 1), (4, 0)),  # the second record follows the first
        *((9, 7), (10, 0), (11, 0)),
    ]
    assert (deliver.up_to, finished) == (20, Finished())
    (deliver, _) = await streamed(read_view, 10, 20)
    assert [(item.position + item.low, item.follows) for item in deliver.items] == [(10, 0), (11, 0)]


async def test_what_is_lost_is_no_more_than_what_is_lost(tmp_path: Path) -> None:
    """The LSNs 1 and 2 are lost; between their positions, 2 and 5, there are records of other lanes."""
    read_view = scattered(tmp_path, [LaneRun(LANE, 0, 1, 2), LaneRun(LANE, 2, 5, 2, 4)], 4, 7)
    cast(Order, read_view.order).ranges = ((1, 3),)
    for position in (2, 5):
        with pytest.raises(Lost) as caught:
            await read_view.read(position, 0)
        assert (caught.value.start, caught.value.stop) == (position, position + 1)
    for position in (1, 6):
        found, _ = await read_view.read(position, 0)
        assert isinstance(found, Found)


async def test_what_precedes_a_loss_is_said_first(tmp_path: Path) -> None:
    read_view = scattered(tmp_path, [LaneRun(LANE, 0, 1, 2), LaneRun(LANE, 2, 5, 2, 4)], 4, 7)
    cast(Order, read_view.order).ranges = ((1, 3),)
    deliver, lost = await streamed(read_view, 1, 7)
    assert ([item.position for item in deliver.items], deliver.up_to) == ([1], 2)
    assert (lost.start, lost.stop) == (2, 3)
    watermark, lost = await streamed(read_view, 3, 7)
    assert (watermark.items, watermark.up_to) == ((), 5)
    assert (lost.start, lost.stop) == (5, 6)
    deliver, finished = await streamed(read_view, 6, 7)
    assert ([item.position for item in deliver.items], finished) == ([6], Finished())


async def test_what_is_only_on_its_way_is_not_called_lost(tmp_path: Path) -> None:
    """Of a run of ten nothing is here: the first three are lost, and the others will come."""
    read_view = scattered(tmp_path, [LaneRun(LANE, 0, 1, 10)], 0, 4)
    cast(Order, read_view.order).ranges = ((0, 3),)
    watermark, lost = await streamed(read_view, 1, 11)
    assert (watermark.items, watermark.up_to) == ((), 1)
    assert (lost.start, lost.stop) == (1, 4)


async def test_a_record_in_memory_is_answered_at_once_and_others_are_waited_for(tmp_path: Path) -> None:
    batches = [build([b"a%d" % number, b"b"], timestamp_us=1) for number in range(3)]
    read_view = read_view_of(tmp_path, batches)
    order = cast(Order, read_view.order)
    for position in range(1, 7):
        now = read_view.read_now(position)
        assert now is not None
        assert now == await read_view.read(position, 0)
        assert isinstance(now[0], Found)
        assert now[0].position == position - (position + 1) % 2
    assert read_view.read_now(7) is None, "it is not written yet"
    order.readable = 6
    assert read_view.read_now(6) is None, "it is ordered, and not known to be here"
    order.first = 3
    with pytest.raises(Trimmed):
        read_view.read_now(2)
    order.ranges = ((2, 4),)
    with pytest.raises(Lost):
        read_view.read_now(4)
    read_view.store.lanes[LANE].lane.cache.empty()
    assert read_view.read_now(5) is None, "it would be read from the disk"
    assert isinstance((await read_view.read(5, 0))[0], Found)
    read_view.close(Unavailable("it ends"))
    with pytest.raises(Unavailable):
        read_view.read_now(5)


async def test_a_stream_reads_a_file_that_is_in_memory_in_the_loop_and_gives_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread is asked until it is known where the file goes on; each delivery lets others have their turn."""
    batches = [build([bytes(CACHED_BATCH_BYTES_MAX)] * 4, timestamp_us=1) for _ in range(40)]
    read_view, sent = read_view_of(tmp_path, batches), Sent(is_kept=False)
    asked, turns, over = 0, 0, False
    in_thread = asyncio.to_thread

    async def count(*args: Any, **kwargs: Any) -> Any:
        nonlocal asked
        asked += 1
        return await in_thread(*args, **kwargs)

    async def others() -> None:
        nonlocal turns
        while not over:
            turns += 1
            await asyncio.sleep(0)

    monkeypatch.setattr(asyncio, "to_thread", count)
    waiting = asyncio.ensure_future(others())
    request = Subscribe(1, stop=read_view.order.readable)
    await Stream(read_view, cast(Connection, sent), request, lambda _: None).run()
    over = True
    await waiting
    deliveries = [size for size in sent.payload_bytes if size]
    assert len(deliveries) >= 5
    assert asked == 1
    assert turns >= len(deliveries)
