"""read, read_range, first, tail, positions to resume from, and batches."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest

from ithaca.model.engine import Feature
from ithaca.model.errors import EmptyPosition, InvalidInput, NotWritten
from ithaca.model.interface import Log
from tests.conformance.engines import Deployment, Engine

pytestmark = pytest.mark.shared_log

PATIENCE_S = 60


def test_first_and_tail_frame_what_can_be_read(engine: Engine, log: Log) -> None:
    first, tail = log.first(), log.tail()
    assert 1 <= first <= tail
    receipt = log.append_many([b"a", b"b", b"c"])
    engine.check_next(receipt.positions, tail)
    engine.check_passed(log.tail(), receipt.positions[-1])
    assert log.first() == first


def test_a_position_below_the_tail_holds_a_record_or_is_empty(engine: Engine, log: Log) -> None:
    start = log.tail()
    for count in (1, 3, 2, 1, 4, 1):
        log.append_many([b"a"] * count)
    records = {record.position: record for record in log.read_range(start)}
    assert len(records) == 12
    tail = log.tail()
    beside = {each + step for each in records for step in (-1, 1, 2)} | {tail - 1, tail - 2}
    # Every position where there are few; where most of them are empty, those around the records.
    for position in range(start, tail) if tail - start < 1000 else sorted(beside & set(range(start, tail))):
        if position in records:
            assert log.read(position) == records[position]
            continue
        assert not engine.is_dense
        with pytest.raises(EmptyPosition, match=str(position)) as caught:
            log.read(position)
        assert caught.value.next in (0, min((each for each in records if each > position), default=0))
        assert [each.position for each in log.read_range(position)] == [each for each in records if each > position]
        assert list(log.read_range(position, position + 1)) == []


def test_reading_at_the_tail_or_beyond_names_the_tail(log: Log) -> None:
    log.append(b"a")
    tail = log.tail()
    for position in (tail, tail + 1, tail + 1_000_000, 2**62):
        with pytest.raises(NotWritten, match=str(position)) as caught:
            log.read(position)
        assert caught.value.tail == tail
        assert caught.value.retry


def test_waiting_in_vain_is_not_written(log: Log) -> None:
    with pytest.raises(NotWritten):
        log.read(log.tail(), wait=0.05)


def test_waiting_is_satisfied_by_an_append(engine: Engine, log: Log) -> None:
    engine.require(Feature.DENSE)
    position = log.tail() + 2
    started = threading.Event()

    def wait() -> bytes:
        started.set()
        return log.read(position, wait=PATIENCE_S).value

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(wait)
        assert started.wait(PATIENCE_S)
        for value in (b"a", b"b", b"c"):
            log.append(value)
        assert waiting.result(PATIENCE_S) == b"c"


@pytest.mark.parametrize("position", [0, -1, -(2**62)])
def test_positions_start_at_one(log: Log, position: int) -> None:
    log.append(b"a")
    with pytest.raises(InvalidInput, match=str(position)):
        log.read(position)
    with pytest.raises(InvalidInput, match=str(position)):
        next(log.read_range(position))
    with pytest.raises(InvalidInput, match=str(position)):
        log.subscribe(position).poll()
    with pytest.raises(InvalidInput, match=str(position)):
        log.trim(position)


def test_what_is_no_position_is_refused(log: Log) -> None:
    log.append(b"a")
    wrong: list[Any] = ["1", 1.0, b"1", None]
    for position in wrong:
        with pytest.raises((InvalidInput, TypeError)):
            log.read(position)
        with pytest.raises((InvalidInput, TypeError)):
            next(log.read_range(position))
        with pytest.raises((InvalidInput, TypeError)):
            log.subscribe(position).poll()
        with pytest.raises((InvalidInput, TypeError)):
            log.trim(position)


def test_the_shard_is_a_hint(log: Log) -> None:
    receipt = log.append(b"a")
    assert log.read(receipt.position, shard=receipt.shard).value == b"a"


def test_a_range_is_half_open(log: Log) -> None:
    places = [*log.append_many([b"0", b"1", b"2"]).positions, *log.append_many([b"3", b"4", b"5", b"6"]).positions]
    places += [log.append(b"7").position, log.tail()]
    for low in range(8):
        for high in range(low, 9):
            found = [int(record.value) for record in log.read_range(places[low], places[high])]
            assert found == list(range(low, high))


def test_a_range_ends_at_the_tail_of_the_call(log: Log) -> None:
    start = log.append_many([b"a", b"b"]).position
    records = log.read_range(start)
    far = log.read_range(start, start + 1_000_000)
    assert next(records).value == b"a"
    assert [record.value for record in far] == [b"a", b"b"]
    log.append(b"c")
    assert [record.value for record in records] == [b"b"]
    assert list(log.read_range(log.tail())) == []
    assert list(log.read_range(log.tail(), log.tail() + 5)) == []


def test_an_empty_range_has_no_records(log: Log) -> None:
    position = log.append(b"a").position
    assert list(log.read_range(position, position)) == []


def test_the_position_is_where_to_resume(engine: Engine, log: Log) -> None:
    start = log.append_many([b"%d" % n for n in range(20)]).position
    log.append_many([b"%d" % n for n in range(20, 40)])
    with log.read_range(start) as records:
        assert records.position == start
        for n in range(25):
            record = next(records)
            assert record.value == b"%d" % n
            engine.check_passed(records.position, record.position)
        resumed = log.read_range(records.position)
    assert [record.value for record in resumed] == [b"%d" % n for n in range(25, 40)]
    assert resumed.position == log.tail()


def test_a_closed_range_ends(log: Log) -> None:
    start = log.append_many([b"a", b"b"]).position
    records = log.read_range(start)
    assert next(records).value == b"a"
    records.close()
    records.close()
    assert list(records) == []
    assert records.position == start + 1


def test_batches_are_the_same_records(log: Log) -> None:
    start = log.append_many([b"%d" % n for n in range(100)], keys=[b"k%d" % n for n in range(100)]).position
    stop = [log.append(b"%d" % n).position for n in range(100, 110)][5]
    expected = list(log.read_range(start + 5, stop))
    batches = list(log.read_range(start + 5, stop).batches())
    assert [record for batch in batches for record in batch.records()] == expected
    assert [position for batch in batches for position in batch.positions()] == [record.position for record in expected]
    assert sum(map(len, batches)) == 100
    for batch in batches:
        assert {record.shard for record in batch.records()} == {batch.shard}
        assert {record.timestamp_us for record in batch.records()} == {batch.timestamp_us}


def test_batches_go_on_where_the_iteration_stands(log: Log) -> None:
    start = log.append_many([b"%d" % n for n in range(10)]).position
    log.append_many([b"%d" % n for n in range(10, 20)])
    records = log.read_range(start)
    assert [next(records).value for _ in range(3)] == [b"0", b"1", b"2"]
    rest = [record.value for batch in records.batches() for record in batch.records()]
    assert rest == [b"%d" % n for n in range(3, 20)]
    assert list(records) == []
    assert records.position == log.tail()


def test_batches_are_taken_in_bulk_up_to_the_end(engine: Engine, log: Log) -> None:
    start = log.append_many([b"%d" % n for n in range(10)]).position
    for n in range(10, 20):
        log.append(b"%d" % n)
    records = log.read_range(start)
    assert [next(records).value for _ in range(3)] == [b"0", b"1", b"2"]
    found: list[bytes] = []
    while batches := records.take_batches():
        found += [record.value for batch in batches for record in batch.records()]
        engine.check_passed(records.position, batches[-1].positions()[-1])
    assert found == [b"%d" % n for n in range(3, 20)]
    assert records.take_batches() == []
    assert list(records) == []


def test_a_batch_begins_anywhere_in_it(log: Log) -> None:
    start = log.append_many([b"%d" % n for n in range(10)]).position
    (batch,) = log.read_range(start).take_batches()
    assert (batch.first_position, len(batch)) == (start, 10)
    assert 10 <= batch.raw_bytes < 1000
    assert [record.value for record in batch.since(start + 7).records()] == [b"7", b"8", b"9"]
    assert batch.since(start + 7).first_position == start + 7
    assert batch.since(start + 7).since(start).positions() == batch.since(start + 7).positions()
    assert len(batch.since(start + 10)) == 0


def test_batches_become_arrow(log: Log) -> None:
    values = [b"%d" % n for n in range(10)]
    keys = [None if n % 2 else b"k%d" % n for n in range(10)]
    start = log.append_many(values, keys=keys).position
    stop = log.append_many([b"no", b"keys"]).position + 1
    records = list(log.read_range(start + 1, stop))
    table = pa.Table.from_batches([batch.to_arrow() for batch in log.read_range(start + 1, stop).batches()])
    assert table.column_names == ["position", "shard", "timestamp", "key", "value"]
    assert table["position"].to_pylist() == [record.position for record in records]
    assert table["shard"].to_pylist() == [record.shard for record in records]
    assert table["key"].to_pylist() == [*keys[1:], None]
    assert table["value"].to_pylist() == [*values[1:], b"no"]
    assert table["timestamp"].cast(pa.int64()).to_pylist() == [record.timestamp_us for record in records]
    assert table.schema.field("key").type == pa.binary()
    assert table.schema.field("value").type == pa.binary()


def test_batches_outlive_the_handle(deployment: Deployment) -> None:
    with deployment.open() as log:
        receipt = log.append_many([b"a" * 1000, b"b" * 1000])
        batches = list(log.read_range(receipt.position).batches())
    assert [value for batch in batches for value in batch.to_arrow()["value"].to_pylist()] == [
        b"a" * 1000,
        b"b" * 1000,
    ]


def test_another_handle_reads_what_was_acknowledged(engine: Engine, deployment: Deployment) -> None:
    log = deployment.open()
    before = log.append_many([b"a", b"b"])
    reader = deployment.open_reader()
    after = log.append_many([b"c", b"d"], keys=[b"k", None])
    assert reader.tail() == log.tail()
    engine.check_passed(log.tail(), after.positions[-1])
    assert reader.first() == log.first()
    assert [record.value for record in reader.read_range(before.position)] == [b"a", b"b", b"c", b"d"]
    assert reader.read(after.position) == log.read(after.position)
    with pytest.raises(NotWritten) as caught:
        reader.read(log.tail())
    assert caught.value.tail == log.tail()


def test_another_handle_can_wait(engine: Engine, deployment: Deployment) -> None:
    engine.require(Feature.DENSE)
    log, reader = deployment.open(), deployment.open_reader()
    position = log.tail()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(reader.read, position, wait=PATIENCE_S)
        log.append(b"here")
        assert waiting.result(PATIENCE_S).value == b"here"
