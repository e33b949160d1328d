"""submit, submit_many, flush, Pending, and appends from many threads at once."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import chain

import pytest

from ithaca.model.errors import DeadlineExceeded
from ithaca.model.interface import Log, Pending
from ithaca.model.limits import INFLIGHT_BYTES_MAX, MIB
from tests.conformance.engines import Deployment, Engine

pytestmark = pytest.mark.shared_log

PATIENCE_S = 60
THREADS = 8
APPENDS_PER_THREAD = 200
IN_FLIGHT = 3_000


def test_thousands_in_flight_keep_their_order(engine: Engine, log: Log) -> None:
    tail = log.tail()
    pendings = [log.submit(b"%d" % n, key=b"k%d" % (n % 7)) for n in range(IN_FLIGHT)]
    positions = [pending.result().position for pending in pendings]
    engine.check_next(positions, tail)
    assert [record.value for record in log.read_range(tail)] == [b"%d" % n for n in range(IN_FLIGHT)]
    assert all(pending.result().count == 1 for pending in pendings[:10])


def test_results_may_be_asked_in_any_order_and_again(engine: Engine, log: Log) -> None:
    tail = log.tail()
    pendings = [log.submit(b"%d" % n) for n in range(100)]
    last = pendings[-1].result()
    engine.check_next([pending.result().position for pending in pendings], tail)
    assert pendings[-1].result() == last


def test_records_and_batches_interleave_in_submission_order(engine: Engine, log: Log) -> None:
    tail = log.tail()
    submitted = []
    for n in range(200):
        submitted.append(log.submit(b"single %d" % n))
        submitted.append(log.submit_many([b"batch %d.%d" % (n, m) for m in range(3)], keys=[None, b"k", b""]))
    receipts = [pending.result() for pending in submitted]
    places = [position for receipt in receipts for position in receipt.positions]
    engine.check_next(places, tail)
    assert len(places) == 800
    expected = []
    for n in range(200):
        expected += [b"single %d" % n, *(b"batch %d.%d" % (n, m) for m in range(3))]
    assert [record.value for record in log.read_range(tail)] == expected


def test_flush_waits_for_what_was_submitted_before(log: Log) -> None:
    tail = log.tail()
    pendings = [log.submit(b"%d" % n) for n in range(500)]
    log.flush()
    assert all(pending.done() for pending in pendings)
    assert len(list(log.read_range(tail))) == 500
    log.flush(timeout=PATIENCE_S)


def test_done_is_true_once_there_is_a_result(log: Log) -> None:
    pending = log.submit(b"a")
    pending.result()
    assert pending.done()


def test_a_result_that_was_not_waited_out_can_be_asked_again(engine: Engine, log: Log) -> None:
    tail = log.tail()
    pendings = [log.submit(b"%d" % n) for n in range(1000)]
    for pending in pendings:
        with suppress(DeadlineExceeded):
            pending.result(timeout=0)
    engine.check_next([pending.result(timeout=PATIENCE_S).position for pending in pendings], tail)


def test_callbacks_are_called_once_with_their_pending(log: Log) -> None:
    calls: list[Pending] = []
    called = threading.Semaphore(0)

    def note(pending: Pending) -> None:
        calls.append(pending)
        called.release()

    pendings = [log.submit(b"%d" % n) for n in range(20)]
    for pending in pendings:
        pending.add_done_callback(note)
    log.flush()
    pendings[0].add_done_callback(note)  # done already: called all the same
    for _ in range(21):
        assert called.acquire(timeout=PATIENCE_S)
    assert sorted(map(id, calls)) == sorted(map(id, [*pendings, pendings[0]]))
    assert all(pending.done() for pending in calls)


def test_a_callback_that_fails_harms_nobody(engine: Engine, log: Log) -> None:
    def fail(pending: Pending) -> None:
        raise ZeroDivisionError

    called = threading.Event()
    pending = log.submit(b"a")
    pending.add_done_callback(fail)
    pending.add_done_callback(lambda _: called.set())
    receipt = pending.result()
    assert called.wait(PATIENCE_S)
    engine.check_next([receipt.position, log.append(b"b").position], receipt.position)


def test_more_bytes_than_may_be_in_flight_only_wait(engine: Engine, log: Log) -> None:
    tail = log.tail()
    count = INFLIGHT_BYTES_MAX // (4 * MIB) + 4
    pendings = [log.submit(bytes([n]) * (4 * MIB)) for n in range(count)]
    positions = [pending.result().position for pending in pendings]
    engine.check_next(positions, tail)
    assert log.read(positions[-1]).value == bytes([count - 1]) * (4 * MIB)


def test_many_threads_append_side_by_side(engine: Engine, log: Log) -> None:
    tail = log.tail()
    barrier = threading.Barrier(THREADS)

    def produce(thread: int) -> list[int]:
        barrier.wait()
        return [log.append(b"%d:%d" % (thread, n)).position for n in range(APPENDS_PER_THREAD)]

    with ThreadPoolExecutor(THREADS) as pool:
        positions = list(pool.map(produce, range(THREADS)))
    for thread, own in enumerate(positions):
        assert own == sorted(own)
        for n, position in enumerate(own):
            assert log.read(position).value == b"%d:%d" % (thread, n)
    total = THREADS * APPENDS_PER_THREAD
    engine.check_next(sorted(chain.from_iterable(positions)), tail)
    assert len(list(log.read_range(tail))) == total


def test_many_threads_mix_batches_submits_and_flushes(log: Log) -> None:
    tail = log.tail()
    barrier = threading.Barrier(4)

    def produce(thread: int) -> dict[int, bytes]:
        barrier.wait()
        placed: dict[int, bytes] = {}
        for n in range(30):
            values = [b"%d:%d:%d" % (thread, n, m) for m in range(thread + 1)]
            if n % 2:
                receipt = log.append_many(values)
            else:
                pending = log.submit_many(values)
                log.flush()
                receipt = pending.result(timeout=PATIENCE_S)
            placed.update(zip(receipt.positions, values, strict=True))
        return placed

    with ThreadPoolExecutor(4) as pool:
        placed = {position: value for part in pool.map(produce, range(4)) for position, value in part.items()}
    assert {record.position: record.value for record in log.read_range(tail)} == placed
    assert len(placed) == 30 * (1 + 2 + 3 + 4)


def test_leaving_the_context_flushes(engine: Engine, deployment: Deployment) -> None:
    with deployment.open() as log:
        tail = log.tail()
        pendings = [log.submit(b"%d" % n) for n in range(100)]
    engine.check_next([pending.result().position for pending in pendings], tail)
    called = threading.Event()
    pendings[0].add_done_callback(lambda _: called.set())
    assert called.wait(PATIENCE_S)
