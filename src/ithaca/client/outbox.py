"""Appends of the synchronous twin: one lock and one wake-up per batch of them, and per batch of answers.

A producer puts its record into a list and tells the loop, unless the loop has been told already and has not
looked yet. The loop hands everything that it finds over to the asynchronous log in one go. Answers are noted
as they come and published once per turn of the loop. A primitive to wait on exists only while someone waits.

Ctrl-C may come between any two steps of a producer: its record is then sent with the next one, or by a flush
or close, or not at all. Nobody else is held up by it.
"""

import asyncio
import copy
import logging
from collections.abc import Callable, Sequence
from itertools import groupby
from operator import attrgetter
from threading import TIMEOUT_MAX, Lock
from typing import cast

from ithaca.client.intake import Intake, RecordSlot
from ithaca.client.portal import Portal
from ithaca.model import interface
from ithaca.model.arguments import function
from ithaca.model.errors import IthacaError, LogClosed, Overloaded
from ithaca.model.limits import RECORD_BYTES_MAX
from ithaca.model.records import Buffer, Compression, Durability, Keys, Receipt, Values
from ithaca.model.units import Duration, optional_seconds
from ithaca.runtime.checks import flush_too_late, too_late
from ithaca.runtime.futures import FirstFailure
from ithaca.runtime.machine import wall_us
from ithaca.wire.batch import Batch
from ithaca.wire.build import build, checked_record, record_bytes

_log = logging.getLogger("ithaca")
_batch_of = attrgetter("batch")


class SyncPending(RecordSlot, interface.Pending):
    """An append on its way through an outbox: one record, or a batch."""

    __slots__ = ("_callbacks", "_outbox", "batch", "key", "noted", "outcome", "size_bytes", "value")

    def __init__(
        self, outbox: "Outbox", value: bytes, key: bytes | None, batch: Batch | None, size_bytes: int, noted: bool
    ) -> None:
        self._outbox = outbox
        self._callbacks: list[Callable[[SyncPending], object]] | None = None
        self.outcome: Receipt | BaseException | None = None
        self.value = value
        """Of a record, until it is in the log."""
        self.key = key
        self.batch = batch
        """Until the asynchronous log has it."""
        self.size_bytes = size_bytes
        self.noted = noted
        """Whether a failure is for the next flush as well."""

    def result(self, timeout: Duration | None = None) -> Receipt:
        if self.outcome is None:
            self._outbox.wait_for(self, optional_seconds(timeout))
        outcome = self.outcome
        if isinstance(outcome, Receipt):
            return outcome
        assert outcome is not None
        if not isinstance(outcome, IthacaError):
            raise outcome  # by a policy of the user's, about this append alone
        error = copy.copy(outcome)  # one failure may concern many, and each raises its own
        error.__cause__ = outcome.__cause__
        raise error

    def done(self) -> bool:
        return self.outcome is not None

    def add_done_callback(self, callback: Callable[[interface.Pending], object]) -> None:
        function(callback, "callback")
        if not self._outbox.call_when_done(self, callback):
            callback(self)

    # On the loop

    def set_result(self, receipt: Receipt, /) -> None:
        self.outcome = receipt
        self.value = b""
        self._outbox.answered((self,))

    def set_results(self, run: Sequence[RecordSlot], position: int, shard: int, durability: Durability) -> None:
        pendings = cast("Sequence[SyncPending]", run)
        for pending in pendings:
            if pending.outcome is None:
                pending.outcome = Receipt(position, 1, shard, durability)
                pending.value = b""
            position += 1
        self._outbox.answered(pendings)

    def set_exception(self, error: BaseException, /) -> None:
        self.outcome = error
        if self.noted:
            self._outbox.failure.note(error)
        self._outbox.answered((self,))


class Outbox:
    """The appends of one handle that wait for the loop or for their answers."""

    def __init__(self, portal: Portal, intake: Intake, *, compression: Compression) -> None:
        self._portal = portal
        self._intake = intake
        self._compression = compression
        self._inflight_bytes = intake.inflight
        self._lock = Lock()
        # Under the lock:
        self._waiting: list[SyncPending] = []
        self._waiting_bytes = 0
        """Of those that the asynchronous log has not counted yet."""
        self._told = False
        self._crowd: list[Lock] = []
        self._refusal: LogClosed | None = None
        # On the loop:
        self._inflight: set[SyncPending] = set()
        self._answers: list[SyncPending] = []
        self._flushes: list[tuple[set[SyncPending], asyncio.Future[None]]] = []
        self.failure = FirstFailure()
        """Raised by the next flush."""
        intake.inflight.watch(self._make_room)

    # In the threads of producers

    def put_record(self, value: Buffer, key: Buffer | None, *, noted: bool) -> SyncPending:
        """Send one record; waits only while too many bytes are in flight."""
        if type(value) is not bytes or key is not None or len(value) > RECORD_BYTES_MAX:
            value, key = checked_record(value, key)
        pending = SyncPending(self, value, key, None, record_bytes(value, key), noted)
        self._put(pending)
        return pending

    def put_batch(self, values: Values, keys: Keys | None, *, noted: bool) -> SyncPending:
        """Send one atomic batch, built in this thread; waits only while too many bytes are in flight."""
        self.check()
        batch = build(values, keys, timestamp_us=wall_us(), compress=self._compression)
        pending = SyncPending(self, b"", None, batch, batch.total_bytes, noted)
        self._put(pending)
        return pending

    def _put(self, pending: SyncPending) -> None:
        portal, inflight, size_bytes = self._portal, self._inflight_bytes, pending.size_bytes
        if self._refusal is not None or portal.forked or portal.ended:
            self.check()
        if not pending.noted:
            portal.check_may_wait()  # before it is sent, for it will be waited for
        while True:
            with self._lock:
                if self._refusal is not None:
                    raise copy.copy(self._refusal)
                if self._waiting_bytes + inflight.bytes <= inflight.bytes_max:
                    self._waiting_bytes += size_bytes
                    self._waiting.append(pending)
                    if not self._told:
                        portal.loop.call_soon_threadsafe(self.drain)
                        self._told = True
                    return
                room = self._queue_for_room()
            self._wait_for(room)

    def check(self) -> None:
        """Raise unless something may be put."""
        self._portal.check()
        if self._refusal is not None:
            raise copy.copy(self._refusal)

    def _has_room(self) -> bool:
        return self._waiting_bytes + self._inflight_bytes.bytes <= self._inflight_bytes.bytes_max

    def _queue_for_room(self) -> Lock:
        if self._portal.is_current:
            raise Overloaded(
                f"more than {self._inflight_bytes.bytes_max} bytes are in flight, and a callback may not wait for "
                "fewer: submit from another thread"
            )
        room = Lock()
        room.acquire()
        self._crowd.append(room)
        return room

    def _wait_for(self, room: Lock) -> None:
        """Until there may be room; `Overloaded` when that takes too long."""
        if not room.acquire(timeout=min(self._inflight_bytes.timeout_s, TIMEOUT_MAX)):
            with self._lock:
                if room in self._crowd:
                    self._crowd.remove(room)
            raise self._inflight_bytes.overloaded()

    def wait_for(self, pending: SyncPending, timeout: float | None) -> None:
        """Until the pending is done; raises `DeadlineExceeded` after `timeout` seconds."""
        self._portal.check_may_wait()
        done = Lock()
        done.acquire()

        def tell(_: SyncPending) -> None:
            done.release()

        if not self.call_when_done(pending, tell):
            return
        try:
            done.acquire(timeout=-1 if timeout is None else min(max(0.0, timeout), TIMEOUT_MAX))
        finally:
            with self._lock:
                if pending._callbacks is not None:  # it was not done in time, or the wait was interrupted
                    pending._callbacks.remove(tell)
        if not pending.done():
            if not pending.noted:  # nobody has it any more
                self._portal.loop.call_soon_threadsafe(self._give_up, pending, timeout)
            raise too_late(timeout)

    def call_when_done(self, pending: SyncPending, callback: Callable[[SyncPending], object]) -> bool:
        """Have a function called on the loop once the pending is done; False if it is done already."""
        if pending.done():  # before the lock, which in a forked child may be held by nobody
            return False
        self._portal.check()
        with self._lock:
            if pending.done():
                return False
            if pending._callbacks is None:
                pending._callbacks = []
            pending._callbacks.append(callback)
            return True

    def refuse(self, refusal: LogClosed) -> None:
        """Take nothing from now on."""
        with self._lock:
            self._refusal = refusal
            crowd, self._crowd = self._crowd, []
        for room in crowd:
            room.release()

    # On the loop

    def drain(self) -> None:
        """Hand over everything that waits."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
            self._told = False
        self._inflight.update(waiting)
        if not any(map(_batch_of, waiting)):
            self._intake.take_records(waiting)
        else:
            for batch, run in groupby(waiting, _batch_of):
                if batch is None:
                    self._intake.take_records(list(run))
                else:
                    self._take_batch(next(run), batch)
        with self._lock:  # from here on the asynchronous log counts them
            self._waiting_bytes -= sum([pending.size_bytes for pending in waiting])
            if not self._waiting:
                self._waiting_bytes = 0  # an interrupted producer may have left its bytes behind
        self._make_room()

    def _take_batch(self, pending: SyncPending, batch: Batch) -> None:
        pending.batch = None
        try:
            self._intake.take_batch(batch, pending)
        except Exception as error:  # a policy of the user's may raise anything
            pending.set_exception(error)

    def _make_room(self) -> None:
        """Bytes were settled: have the producers that wait for room look again."""
        with self._lock:
            if not self._crowd or not self._has_room():
                return
            crowd, self._crowd = self._crowd, []
        for room in crowd:
            room.release()

    def _give_up(self, pending: SyncPending, timeout: float | None) -> None:
        """Whoever waited does not any more: closing need not wait for it either."""
        if not pending.done():
            pending.set_exception(too_late(timeout))

    def answered(self, pendings: Sequence[SyncPending]) -> None:
        """Note answers, to be published with all others of this turn."""
        if not self._answers:
            self._portal.loop.call_soon(self._publish)
        self._answers += pendings

    def _publish(self) -> None:
        answers, self._answers = self._answers, []
        self._inflight.difference_update(answers)
        called: list[tuple[SyncPending, list[Callable[[SyncPending], object]]]] = []
        with self._lock:
            for pending in answers:
                if pending._callbacks is not None:
                    called.append((pending, pending._callbacks))
                    pending._callbacks = None
        self._flushed(answers)
        for pending, callbacks in called:
            for callback in callbacks:
                try:
                    callback(pending)
                except Exception:
                    _log.exception("a callback of an append failed")

    def _flushed(self, answers: list[SyncPending]) -> None:
        for unanswered, flush in self._flushes:
            unanswered.difference_update(answers)
            if not unanswered and not flush.done():
                flush.set_result(None)
        if self._flushes:
            self._flushes = [(unanswered, flush) for unanswered, flush in self._flushes if not flush.done()]

    async def flush(self, timeout: float | None) -> None:
        """Wait for everything that was put before; raises the first failure since the last time."""
        self.drain()
        if self._inflight:
            flush = asyncio.get_running_loop().create_future()
            self._flushes.append((set(self._inflight), flush))
            if not (await asyncio.wait([flush], timeout=timeout))[0]:
                flush.cancel()
                raise flush_too_late(timeout)
        self.failure.raise_once()
