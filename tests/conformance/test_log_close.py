"""close: idempotent, final, and nothing acknowledged or submitted is lost by it."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from ithaca.model.engine import Feature
from ithaca.model.errors import LogClosed
from ithaca.model.interface import Log
from tests.conformance.engines import Deployment, Engine

pytestmark = pytest.mark.shared_log


def test_close_is_idempotent(log: Log) -> None:
    log.append(b"a")
    log.close()
    log.close()
    with log:
        pass
    with pytest.raises(LogClosed):
        log.append(b"b")


def test_every_use_after_close_says_so(log: Log) -> None:
    position = log.append(b"a").position
    records = log.read_range(position)
    subscription = log.subscribe(position)
    log.close()
    uses: list[Callable[[], object]] = [
        lambda: log.append(b"b"),
        lambda: log.append_many([b"b"]),
        lambda: log.submit(b"b"),
        lambda: log.submit_many([b"b"]),
        lambda: log.flush(),
        lambda: log.read(position),
        lambda: log.read(position + 10, wait=60),
        lambda: next(log.read_range(position)),
        lambda: log.subscribe("earliest").poll(),
        lambda: log.first(),
        lambda: log.tail(),
        lambda: log.trim(position),
        lambda: next(records),
        lambda: next(subscription),
        lambda: subscription.poll(timeout=60),
    ]
    for use in uses:
        with pytest.raises(LogClosed):
            use()
    records.close()
    subscription.close()


def test_every_use_of_a_session_after_close_says_so(engine: Engine, log: Log) -> None:
    engine.require(Feature.SESSIONS)
    session = log.session("importer")
    log.close()
    uses: list[Callable[[], object]] = [
        lambda: log.session("other"),
        lambda: session.append(b"b"),
        lambda: session.append_many([b"b"]),
    ]
    for use in uses:
        with pytest.raises(LogClosed):
            use()


def test_what_was_appended_and_submitted_is_there_after_reopening(deployment: Deployment) -> None:
    expected: list[tuple[bytes, bytes | None]] = []
    start = 0
    for round_ in range(4):
        with deployment.open() as log:
            start = start or log.tail()
            assert len(list(log.read_range(start))) == len(expected)
            log.append(b"single %d" % round_, key=b"k")
            log.append_many([b"batch"] * 10, keys=[b"b", None] * 5)
            for n in range(100):
                log.submit(b"submitted %d" % n)
            expected += [(b"single %d" % round_, b"k"), *[(b"batch", b"b"), (b"batch", None)] * 5]
            expected += [(b"submitted %d" % n, None) for n in range(100)]
    with deployment.open() as log:
        assert [(record.value, record.key) for record in log.read_range(start)] == expected


def test_appends_that_race_with_close_happen_or_say_so(deployment: Deployment) -> None:
    for _ in range(10):
        log = deployment.open()
        started = threading.Barrier(4)

        def append_until_closed(log: Log = log, started: threading.Barrier = started) -> list[int]:
            positions = []
            started.wait()
            try:
                while True:
                    positions.append(log.append(b"%d" % threading.get_ident()).position)
                    positions.append(log.submit(b"%d" % threading.get_ident()).result().position)
            except LogClosed:
                return positions

        with ThreadPoolExecutor(3) as pool:
            appending = [pool.submit(append_until_closed) for _ in range(3)]
            started.wait()
            with log.subscribe("latest") as appended:
                assert len([next(appended) for _ in range(6)]) == 6
            log.close()
            acknowledged = [position for thread in appending for position in thread.result(60)]
        with deployment.open() as log:
            assert len(set(acknowledged)) == len(acknowledged)
            assert max(acknowledged) < log.tail()


def test_an_exception_inside_the_context_passes_through(deployment: Deployment) -> None:
    start = 0

    def fail() -> None:
        nonlocal start
        with deployment.open() as log:
            start = log.tail()
            log.submit(b"kept")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with deployment.open() as log:
        assert [record.value for record in log.read_range(start)] == [b"kept"]
