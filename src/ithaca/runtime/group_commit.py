"""Group commit: whatever arrived during the last sync goes into the next (design §5).

Appends queue up as tickets. Whoever needs one done takes the commit lock and commits everything that is
waiting: an appender that waits for its own receipt (the embedded log: no thread hop, and the first waiter
syncs for all), or the disk thread, which runs once something was submitted without waiting.

A commit can be interrupted anywhere by Ctrl-C in the thread that runs it. So tickets leave the queue only
when they are done, the group under way is kept until it is through, and each step may be repeated: by
whoever waits next, or by the disk thread. A callback that was interrupted is called again.
"""

import copy
import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from ithaca.model.errors import DeadlineExceeded, IthacaError
from ithaca.model.limits import CLOSE_TIMEOUT_S, COALESCE_BYTES_MAX, GROUP_BYTES_MAX
from ithaca.model.records import Compression
from ithaca.runtime.wakeup import Wakeup
from ithaca.storage.lane import Group, Lane
from ithaca.storage.state import LaneState
from ithaca.wire.batch import HEAD_BYTES, Batch
from ithaca.wire.build import build, record_bytes

_log = logging.getLogger("ithaca")

TURN_TIMEOUT_S = 0.05
"""After which a thread tries to commit by itself, should whoever was at it have been interrupted."""

EVERY_SESSION = -1
"""The `touches` of a change that must see all earlier ones applied."""

Decide = Callable[[LaneState], "list[Batch] | int"]
"""Entries to append given the lane's state, or the LSN at which an equal batch was appended before."""


class Ticket:
    """One append on its way: a record to be coalesced, a batch, or entries to be decided on late."""

    __slots__ = (
        "_callbacks",
        "batch",
        "bytes",
        "count",
        "decide",
        "done",
        "error",
        "key",
        "lsn",
        "on_failure",
        "touches",
        "value",
        "waiter",
    )

    def __init__(
        self,
        *,
        value: bytes | None = None,
        key: bytes | None = None,
        batch: Batch | None = None,
        decide: Decide | None = None,
        touches: int = 0,
    ) -> None:
        self.value = value
        self.key = key
        self.batch = batch
        self.decide = decide
        self.touches = touches
        """The producer whose session `decide` looks at; 0 for none."""
        self.lsn = -1
        self.error: IthacaError | None = None
        self.on_failure: Callable[[IthacaError], object] | None = None
        self.done = False
        self.waiter: Wakeup | None = None
        """Of the thread that waits for it while another commits."""
        self._callbacks: list[Callable[[Ticket], object]] | None = None
        if value is not None:
            self.count, self.bytes = 1, record_bytes(value, key)
        else:
            self.count, self.bytes = (batch.count, batch.total_bytes) if batch else (0, HEAD_BYTES)


@dataclass(slots=True)
class _Gathered:
    """The tickets under way."""

    tickets: list[Ticket]
    assigned: list[tuple[Ticket, int, int]]
    """Ticket, which of the group's entries it is in, at which row."""
    group: Group | None = None
    error: IthacaError | None = None
    """Why there is no group."""
    settled: bool = False
    """Whether the tickets have their results."""


class GroupCommit:
    """The queue before one lane."""

    def __init__(
        self,
        lane: Lane,
        *,
        compression: Compression,
        clock_us: Callable[[], int],
        inflight_bytes_max: int,
        after_commit: Callable[[], None],
    ) -> None:
        self._lane = lane
        self._compression = compression
        self._clock_us = clock_us
        self._inflight_bytes_max = inflight_bytes_max
        self._after_commit = after_commit
        self._queue: deque[Ticket] = deque()
        self._queue_lock = threading.Lock()
        self._inflight_bytes = 0
        self._commit_lock = threading.Lock()
        self._committing = False
        """Whether a thread is at it. A hint: what depends on it is tried again after a while."""
        self._gathered: _Gathered | None = None
        self._wake = Wakeup()
        self._running = threading.Lock()
        """Held by the disk thread that runs: a start that was interrupted may have left one more behind."""
        self._thread: threading.Thread | None = None
        self._refusal: IthacaError | None = None

    def add(self, ticket: Ticket) -> Ticket:
        """Queue a ticket; it is committed by whoever waits next, or by the disk thread."""
        with self._queue_lock:
            if self._refusal is not None:
                raise copy.copy(self._refusal)
            self._queue.append(ticket)
            self._inflight_bytes += ticket.bytes
        return ticket

    def add_from_commit(self, ticket: Ticket) -> None:
        """Queue a ticket from `after_commit`, unless the queue is being closed."""
        with self._queue_lock:
            if self._refusal is None:
                self._queue.append(ticket)
                self._inflight_bytes += ticket.bytes

    def add_in_background(self, ticket: Ticket) -> Ticket:
        """Queue a ticket for the disk thread."""
        self.add(ticket)
        self.start()
        return ticket

    def start(self) -> None:
        """Have the disk thread commit what is queued."""
        self._wake.give()
        if self._thread is None:
            self._start_thread()

    @property
    def crowded(self) -> bool:
        """Whether so many bytes are waiting that a producer must wait too."""
        return self._inflight_bytes > self._inflight_bytes_max

    def relieve(self) -> None:
        """Commit in this thread until there is room."""
        while self.crowded:
            with self._commit_lock:
                self._commit_waiting()

    def wait(self, ticket: Ticket) -> None:
        """Until the ticket is done: commit in this thread, unless another is at it.

        Those that another commits for are woken each by itself, and of those left over the first takes its turn:
        were they all to wait for the commit lock, each would have to get it once to learn that it is done.
        """
        while not ticket.done:
            if self._committing and self._await_turn(ticket):
                continue
            with self._commit_lock:
                if not ticket.done:
                    self._commit_waiting()
            self._hand_on()

    def _await_turn(self, ticket: Ticket) -> bool:
        """Until the ticket is done or the first in the queue; False when nobody said so for a while."""
        if ticket.waiter is None:
            ticket.waiter = Wakeup()
        return not self._committing or ticket.done or ticket.waiter.wait(TURN_TIMEOUT_S)

    def _hand_on(self) -> None:
        """Wake whose turn it is."""
        with self._queue_lock:
            waiter = self._queue[0].waiter if self._queue else None
        if waiter is not None:
            waiter.give()

    def wait_all(self) -> None:
        """Commit in this thread everything that was queued before the call."""
        last = self.newest()
        if last is not None:
            self.wait(last)

    def wait_in_background(self, ticket: Ticket, timeout_s: float) -> bool:
        """Have the disk thread commit, since a sync cannot be abandoned; False when the time is up."""
        done = Wakeup()
        self.when_done(ticket, lambda _: done.give())
        self.start()
        return done.wait(timeout_s)

    def newest(self) -> Ticket | None:
        with self._queue_lock:
            return self._queue[-1] if self._queue else None

    def when_done(self, ticket: Ticket, callback: Callable[[Ticket], object]) -> None:
        """Call back from the committing thread, or at once if the ticket is done."""
        with self._queue_lock:
            if not ticket.done:
                if ticket._callbacks is None:
                    ticket._callbacks = []
                ticket._callbacks.append(callback)
                return
        callback(ticket)

    def close(self, refusal: IthacaError) -> None:
        """Refuse what comes from now on, commit what is queued, end the disk thread, close the lane."""
        with self._queue_lock:
            self._refusal = refusal
        last = self.newest()
        if last is not None and not self.wait_in_background(last, CLOSE_TIMEOUT_S):
            raise DeadlineExceeded(
                f"closing did not get through within {CLOSE_TIMEOUT_S} s: the disk does not answer; "
                "close again to go on"
            )
        self._wake.give()
        with self._running:
            pass  # it sees the refusal, and so does one that starts late
        if self._thread is not None:
            self._thread.join()
        with self._commit_lock:
            if self._gathered is not None:
                self._commit_waiting()
            self._lane.close()

    def _start_thread(self) -> None:
        with self._queue_lock:
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="ithaca-disk", daemon=True)
                thread.start()
                self._thread = thread

    def _run(self) -> None:
        if not self._running.acquire(blocking=False):
            return
        try:
            while True:
                if self._refusal is None:
                    self._wake.wait()
                while self._queue or self._gathered is not None:
                    with self._commit_lock:
                        self._commit_waiting()
                if self._refusal is not None:
                    return
        finally:
            self._running.release()

    def _commit_waiting(self) -> None:
        """Commit one group, or go on with one that was interrupted; the caller holds the commit lock."""
        self._committing = True
        try:
            gathered = self._gathered
            if gathered is None:
                gathered = self._gathered = self._gather()
            if not gathered.settled:
                self._settle(gathered)
            self._finish(gathered.tickets)
            try:
                self._after_commit()
            except Exception:
                _log.exception("the upkeep after a commit failed; what was committed is safe")
            self._call_back(gathered.tickets)
            self._gathered = None
        except BaseException:
            self._wake.give()  # some may be waiting for their callbacks alone: the disk thread goes on
            raise
        finally:
            self._committing = False
        for ticket in gathered.tickets:
            if ticket.waiter is not None:
                ticket.waiter.give()

    def _settle(self, gathered: _Gathered) -> None:
        """Commit the group and give the tickets their results."""
        group, error = gathered.group, gathered.error
        if group is not None:
            try:
                self._lane.commit(group)
            except IthacaError as failure:
                error = failure
        for ticket, at, row in gathered.assigned:
            ticket.error = error
            if group is not None and error is None:
                ticket.lsn = group.entries[at].base_lsn + row
        gathered.settled = True

    def _finish(self, tickets: list[Ticket]) -> None:
        with self._queue_lock:
            for ticket in tickets:
                ticket.done = True
                if ticket.error is not None and ticket.on_failure is not None:
                    ticket.on_failure(ticket.error)
            while self._queue and self._queue[0].done:
                self._inflight_bytes -= self._queue.popleft().bytes
            if not self._queue:
                self._inflight_bytes = 0

    def _call_back(self, tickets: list[Ticket]) -> None:
        for ticket in tickets:
            while ticket._callbacks:
                try:
                    ticket._callbacks[0](ticket)
                except Exception:
                    _log.exception("a callback of an append failed")
                del ticket._callbacks[0]

    def _gather(self) -> _Gathered:
        """The tickets at the head of the queue that can be committed together, as entries with places."""
        tickets = self._take()
        entries: list[Batch] = []
        assigned: list[tuple[Ticket, int, int]] = []
        self._arrange(tickets, entries, assigned)
        if not entries:
            return _Gathered(tickets, assigned)
        try:
            return _Gathered(tickets, assigned, self._lane.prepare(entries))
        except IthacaError as error:
            return _Gathered(tickets, assigned, error=error)

    def _arrange(self, tickets: list[Ticket], entries: list[Batch], assigned: list[tuple[Ticket, int, int]]) -> None:
        """Turn tickets into entries, coalescing neighbouring single records."""
        singles: list[Ticket] = []
        singles_bytes = 0
        for ticket in tickets:
            if ticket.value is None:
                if singles:
                    self._coalesce(singles, entries, assigned)
                    singles, singles_bytes = [], 0
                self._assign(ticket, entries, assigned)
                continue
            if singles_bytes >= COALESCE_BYTES_MAX:
                self._coalesce(singles, entries, assigned)
                singles, singles_bytes = [], 0
            singles.append(ticket)
            singles_bytes += ticket.bytes
        if singles:
            self._coalesce(singles, entries, assigned)

    def _take(self) -> list[Ticket]:
        tickets: list[Ticket] = []
        touched: set[int] = set()
        total = 0
        with self._queue_lock:
            if len(self._queue) == 1:
                return [self._queue[0]]
            for ticket in self._queue:
                total += ticket.bytes
                if tickets and total > GROUP_BYTES_MAX:
                    break
                if ticket.touches:
                    alone = ticket.touches == EVERY_SESSION and touched
                    if alone or ticket.touches in touched or EVERY_SESSION in touched:
                        break  # it must see the earlier one applied
                    touched.add(ticket.touches)
                tickets.append(ticket)
        return tickets

    def _coalesce(self, singles: list[Ticket], entries: list[Batch], assigned: list[tuple[Ticket, int, int]]) -> None:
        values = [ticket.value for ticket in singles if ticket.value is not None]
        keys = [ticket.key for ticket in singles]
        batch = build(
            values,
            None if keys.count(None) == len(keys) else keys,
            timestamp_us=self._clock_us(),
            compress=self._compression,
        )
        assigned += [(ticket, len(entries), row) for row, ticket in enumerate(singles)]
        entries.append(batch)

    def _assign(self, ticket: Ticket, entries: list[Batch], assigned: list[tuple[Ticket, int, int]]) -> None:
        decided: list[Batch] | int
        if ticket.decide is None:
            assert ticket.batch is not None
            decided = [ticket.batch]
        else:
            try:
                decided = ticket.decide(self._lane.state)
            except IthacaError as error:
                ticket.error = error
                return
        if isinstance(decided, int):
            ticket.lsn = decided
        elif decided:
            assigned.append((ticket, len(entries), 0))
            entries += decided
