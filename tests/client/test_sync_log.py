"""The synchronous face of a cluster's log, over the embedded log's twin: conformance first, then what is its own."""

import json
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import pytest
from tests.client.embedded_twin import SilentIntake, SyncOverEmbedded, open_sync, open_sync_reader
from tests.client.sync_children import ended_well, started
from tests.conformance import (
    test_log_append,
    test_log_close,
    test_log_filters,
    test_log_model,
    test_log_read,
    test_log_sessions,
    test_log_submit,
    test_log_subscribe,
    test_log_trim,
)
from tests.conformance.engines import Deployment, Engine
from tests.embedded.numbered import Numbered, decode

from ithaca.client.intake import Slot
from ithaca.client.portal import portal
from ithaca.client.sync.log import SyncLog
from ithaca.model.engine import EMBEDDED_FEATURES
from ithaca.model.errors import DeadlineExceeded, Fenced, InvalidInput, LogClosed, Overloaded, StorageFull
from ithaca.model.interface import Log, Pending
from ithaca.wire.batch import HEAD_BYTES

PATIENCE_S = 60
INTERRUPTS = 20

CONFORMANCE: list[ModuleType] = [
    test_log_append,
    test_log_close,
    test_log_filters,
    test_log_model,
    test_log_read,
    test_log_sessions,
    test_log_submit,
    test_log_subscribe,
    test_log_trim,
]


def conformance() -> dict[str, Callable[..., None]]:
    """The tests that every engine passes; they find the fixtures of this module."""
    found: dict[str, Callable[..., None]] = {}
    for module in CONFORMANCE:
        tests = {name: thing for name, thing in vars(module).items() if name.startswith("test_")}
        assert not tests.keys() & found.keys()
        found |= tests
    return found


globals().update(conformance())


@pytest.fixture
def engine() -> Engine:
    return Engine("sync over embedded", SyncOverEmbedded, EMBEDDED_FEATURES)


@pytest.fixture
def deployment(engine: Engine, tmp_path: Path) -> Iterator[Deployment]:
    with engine.deploy(tmp_path) as deployment:
        yield deployment


@pytest.fixture
def log(deployment: Deployment) -> Log:
    return deployment.open()


def eventually(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline_s


# The way of an append, with answers that come when the test says so


class Unanswered:
    """A log whose appends are taken and wait."""

    def __init__(self, directory: Path, inflight_bytes_max: int = 1 << 20, timeout_s: float = PATIENCE_S) -> None:
        self.intake = SilentIntake(inflight_bytes_max, timeout_s)
        self.inner = open_sync(directory / "log")
        self.log = SyncLog(portal(), self.inner._twin, self.intake)

    def await_taken(self, count: int) -> None:
        for _ in range(count):
            assert self.intake.taken.acquire(timeout=PATIENCE_S)


@pytest.fixture
def unanswered(tmp_path: Path) -> Iterator[Unanswered]:
    unanswered = Unanswered(tmp_path)
    yield unanswered
    unanswered.inner.close()


def test_many_submits_tell_the_loop_once(unanswered: Unanswered, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = portal().loop
    tells: list[object] = []

    class CountingLoop:
        def call_soon_threadsafe(self, callback: Callable[[], object]) -> None:
            tells.append(callback)
            loop.call_soon_threadsafe(callback)

        def call_soon(self, callback: Callable[[], object]) -> None:
            loop.call_soon(callback)

    held, go_on = threading.Event(), threading.Event()

    def hold_up() -> None:
        held.set()
        go_on.wait()

    loop.call_soon_threadsafe(hold_up)
    assert held.wait(PATIENCE_S)
    monkeypatch.setattr(portal(), "loop", CountingLoop())
    try:
        pendings = [unanswered.log.submit(b"%d" % n) for n in range(1000)]
    finally:
        monkeypatch.undo()
        go_on.set()
    unanswered.await_taken(1000)
    assert len(tells) == 1
    assert unanswered.intake.values == [b"%d" % n for n in range(1000)]
    assert not any(pending.done() for pending in pendings)
    for n in range(1000):
        unanswered.intake.answer(n)
    assert [pending.result().position for pending in pendings] == list(range(1000))


def test_a_flush_waits_for_what_came_before_it_only(unanswered: Unanswered) -> None:
    log = unanswered.log
    first, second = log.submit(b"before"), log.submit(b"before")
    unanswered.await_taken(2)
    with ThreadPoolExecutor(1) as pool:
        flushing = pool.submit(log.flush)
        eventually(lambda: portal().call(lambda: len(log._outbox._flushes)) == 1)
        log.submit(b"after")
        unanswered.await_taken(1)
        unanswered.intake.answer(1)
        assert second.result(PATIENCE_S).position == 1
        assert not flushing.done()
        unanswered.intake.answer(0)
        flushing.result(PATIENCE_S)
    assert first.done()
    with pytest.raises(DeadlineExceeded):
        log.flush(timeout=0.01)


def test_one_failure_of_many_is_raised_by_each_as_its_own(unanswered: Unanswered) -> None:
    log = unanswered.log
    pendings = [log.submit(b"a"), log.submit_many([b"b"])]
    unanswered.await_taken(2)
    failure = StorageFull("no space")
    failure.__cause__ = OSError("underneath")
    unanswered.intake.fail([0, 1], failure)
    raised = []
    for pending in [*pendings, pendings[0]]:
        with pytest.raises(StorageFull, match="no space") as caught:
            pending.result()
        assert isinstance(caught.value.__cause__, OSError)
        raised.append(caught.value)
    assert len({id(error) for error in raised}) == 3
    with pytest.raises(StorageFull):
        log.flush()
    log.flush()  # it was raised once


def test_a_failed_append_is_nothing_for_the_next_flush(unanswered: Unanswered) -> None:
    with ThreadPoolExecutor(2) as pool:
        appending = [pool.submit(unanswered.log.append, b"a"), pool.submit(unanswered.log.append_many, [b"b"])]
        unanswered.await_taken(2)
        unanswered.intake.fail([0, 1], Fenced("a sync failed"))
        for thread in appending:
            with pytest.raises(Fenced):
                thread.result(PATIENCE_S)
    unanswered.log.flush()


def test_closing_raises_what_failed_once(unanswered: Unanswered) -> None:
    unanswered.log.submit(b"a")
    unanswered.await_taken(1)
    unanswered.intake.fail([0], Fenced("a sync failed"))
    with pytest.raises(Fenced):
        unanswered.log.close()
    unanswered.log.close()


def test_a_time_out_says_that_the_outcome_is_unknown_and_leaves_nothing_behind(unanswered: Unanswered) -> None:
    pending = unanswered.log._outbox.put_record(b"a", None, noted=False)
    for _ in range(3):
        with pytest.raises(DeadlineExceeded) as caught:
            pending.result(timeout=0)
        assert caught.value.outcome_unknown
    assert pending._callbacks == []
    with pytest.raises(DeadlineExceeded):
        unanswered.log.append(b"b", timeout=0.01)
    unanswered.await_taken(2)
    unanswered.intake.answer(0)
    assert pending.result(timeout=1e100).position == 0


def test_too_many_bytes_in_flight_make_the_producer_wait(tmp_path: Path) -> None:
    unanswered = Unanswered(tmp_path, inflight_bytes_max=3 * (100 + HEAD_BYTES))
    submitted = threading.Semaphore(0)

    def produce() -> None:
        for _ in range(8):
            unanswered.log.submit(bytes(100))
            submitted.release()

    with unanswered.inner, ThreadPoolExecutor(1) as pool:
        producing = pool.submit(produce)
        for answered in range(8):
            unanswered.await_taken(1 if answered else 4)
            if answered == 4:
                break
            assert len(unanswered.intake.slots) == 4 + answered  # the bound, and the one that reached it
            unanswered.intake.answer(answered)
        producing.result(PATIENCE_S)


def test_closing_tells_producers_that_wait_for_room(tmp_path: Path) -> None:
    unanswered = Unanswered(tmp_path, inflight_bytes_max=0)
    unanswered.log.submit(b"a")
    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(unanswered.log.submit, b"b") for _ in range(2)]
        eventually(lambda: len(unanswered.log._outbox._crowd) == 2)
        unanswered.log.close()
        for producer in waiting:
            with pytest.raises(LogClosed):
                producer.result(PATIENCE_S)


def test_a_log_that_is_crowded_by_others_is_waited_for(tmp_path: Path) -> None:
    unanswered = Unanswered(tmp_path, inflight_bytes_max=1000)
    inflight = unanswered.intake.inflight
    portal().call(lambda: inflight.add(1001))  # of sessions, or of callers whose time was up
    with unanswered.inner, ThreadPoolExecutor(1) as pool:
        submitting = pool.submit(lambda: [unanswered.log.submit(b"%d" % n) for n in range(4)])
        eventually(lambda: len(unanswered.log._outbox._crowd) == 1)
        assert unanswered.intake.values == []
        portal().call(lambda: inflight.settle(1001))
        unanswered.await_taken(4)
        assert unanswered.intake.values == [b"0", b"1", b"2", b"3"]
        for n, pending in enumerate(submitting.result(PATIENCE_S)):
            unanswered.intake.answer(n)
            assert pending.result(PATIENCE_S).position == n
        assert portal().call(lambda: inflight.bytes) == 0


def test_a_log_that_stays_crowded_says_so(tmp_path: Path) -> None:
    unanswered = Unanswered(tmp_path, inflight_bytes_max=1000, timeout_s=0.01)
    portal().call(lambda: unanswered.intake.inflight.add(1001))
    with unanswered.inner:
        with pytest.raises(Overloaded, match=r"1001 bytes wait .* for 0\.01 s, and 1000 may be in flight"):
            unanswered.log.submit(b"a")
        assert unanswered.log._outbox._crowd == []
        assert unanswered.intake.values == []
        unanswered.log.flush()  # whoever submitted was told


def test_bytes_are_counted_once(tmp_path: Path) -> None:
    unanswered = Unanswered(tmp_path, inflight_bytes_max=1000)
    with unanswered.inner:
        pendings = [unanswered.log.submit(bytes(300)) for _ in range(3)]
        unanswered.await_taken(3)
        portal().call(lambda: None)  # what hands over has ended
        assert unanswered.log._outbox._waiting_bytes == 0
        assert portal().call(lambda: unanswered.intake.inflight.bytes) == sum(
            pending.size_bytes for pending in pendings
        )


def test_what_an_intake_raises_fails_that_append_alone(unanswered: Unanswered, monkeypatch: pytest.MonkeyPatch) -> None:
    take = SilentIntake.take_record

    def choosy(intake: SilentIntake, value: bytes, key: bytes | None, slot: Slot) -> None:
        if value == b"1":
            raise ZeroDivisionError  # as a policy of the user's may
        take(intake, value, key, slot)

    monkeypatch.setattr(SilentIntake, "take_record", choosy)
    pendings = [unanswered.log.submit(b"%d" % n) for n in range(3)]
    unanswered.await_taken(2)
    with pytest.raises(ZeroDivisionError):
        pendings[1].result(PATIENCE_S)
    unanswered.intake.answer(0)
    unanswered.intake.answer(1)
    assert [pendings[n].result(PATIENCE_S).position for n in (0, 2)] == [0, 1]


def test_a_callback_may_submit_and_may_not_wait(tmp_path: Path) -> None:
    with open_sync(tmp_path / "log", inflight_bytes_max=1000) as log:
        outcomes: list[object] = []
        over = threading.Event()

        def attempt(use: Callable[[], object]) -> None:
            try:
                outcomes.append(use())
            except Exception as error:
                outcomes.append(error)

        def call_back(pending: Pending) -> None:
            outcomes.append(pending.result().position)
            attempt(lambda: log.append(b"waits"))
            attempt(lambda: log.tail())
            attempt(lambda: log.submit(bytes(5000)))
            attempt(lambda: log.submit(b"no room"))
            over.set()

        log.submit(b"a").add_done_callback(call_back)
        assert over.wait(PATIENCE_S)
        assert outcomes[0] == 1
        assert [type(outcome) for outcome in outcomes[1:3]] == [InvalidInput, InvalidInput]
        assert isinstance(outcomes[3], Pending)
        assert isinstance(outcomes[4], Overloaded)
        assert outcomes[3].result().count == 1
        assert [record.value for record in log.read_range(1)] == [b"a", bytes(5000)]


# Processes


def test_many_handles_share_one_thread(tmp_path: Path) -> None:
    portal()
    threads = set(threading.enumerate())
    logs = [open_sync(tmp_path / str(n)) for n in range(10)]
    try:
        pendings = [log.submit(b"%d.%d" % (n, m)) for m in range(50) for n, log in enumerate(logs)]
        assert {pending.result().position for pending in pendings} == set(range(1, 51))
        for n, log in enumerate(logs):
            assert [record.value for record in log.read_range(1)] == [b"%d.%d" % (n, m) for m in range(50)]
        new = {thread.name for thread in set(threading.enumerate()) - threads}
        assert not any(name.startswith("ithaca-portal") for name in new)
    finally:
        for log in logs:
            log.close()


def test_a_forked_child_is_told_and_gets_a_portal_of_its_own(tmp_path: Path) -> None:
    with started("fork", tmp_path) as family:
        outcomes = json.loads(family.line())
        assert outcomes == dict.fromkeys(outcomes, "ForkedHandle")
        family.expect("no error, no error, 2")
        family.expect("1 [b'by the child']")
        family.expect("parent closed")
        ended_well(family)


@pytest.mark.parametrize("program", ["leave_open", "callback_that_never_returns"])
def test_a_process_ends_although_nothing_was_closed(tmp_path: Path, program: str) -> None:
    with started(program, tmp_path / "log") as child:
        child.expect("ending")
        ended_well(child)
    with open_sync(tmp_path / "log") as log:
        assert log.tail() > 1


def test_an_interrupt_ends_every_wait_at_once_and_takes_nothing_with_it(tmp_path: Path) -> None:
    with started("interrupted_waits", tmp_path / "log") as child:
        while (line := child.line()) == "waiting":
            os.kill(child.process.pid, signal.SIGINT)
            child.expect("interrupted")
        assert line == "[b'a', b'b', b'c', b'd']"
        ended_well(child)


def test_interrupts_in_the_middle_of_appends_harm_nothing(tmp_path: Path) -> None:
    rng = random.Random(7)
    acks: list[tuple[int, int, int, int]] = []

    def note(line: str) -> None:
        writer, batch, position, rows = map(int, line.split())
        acks.append((writer, batch, position, rows))

    with started("interrupted", tmp_path / "log", INTERRUPTS) as child:
        child.expect("open")
        for _ in range(INTERRUPTS):
            for _ in range(rng.randint(1, 25)):
                note(child.line())
            os.kill(child.process.pid, signal.SIGINT)
            while (line := child.line()) != "interrupted":
                note(line)
        note(child.line())
        child.expect("closed")
        ended_well(child)
    with open_sync_reader(tmp_path / "log") as log:
        found = {record.position: decode(record.value) for record in log.read_range(1)}
    for writer, batch, position, rows in acks:
        for row in range(rows):
            assert found[position + row] == Numbered(writer, batch, row, rows)
    assert sorted(found.values()) == list(found.values()), "out of order"
    assert len(set(found.values())) == len(found), "a record is there twice"


def test_interrupts_in_the_middle_of_an_iteration_skip_nothing(tmp_path: Path) -> None:
    count = 20_000
    with open_sync(tmp_path / "log") as log:
        log.append_many([b"%d" % n for n in range(count + 10)])
    rng = random.Random(5)
    positions: list[int] = []
    interrupts = 0
    with started("interrupted_iteration", tmp_path / "log", count) as child:
        may_interrupt = True
        while (line := child.line()) != "done":
            assert line, child.process.communicate()[1]
            if line == "interrupted":
                interrupts, may_interrupt = interrupts + 1, True
                continue
            positions.append(int(line))
            if may_interrupt and rng.random() < 0.05:
                os.kill(child.process.pid, signal.SIGINT)
                may_interrupt = False
        ended_well(child)
    assert interrupts > 0
    assert positions == sorted(set(positions))
    # An interrupt may come between the iterator and whoever says the position; no other is missing.
    assert count - len(positions) <= interrupts
