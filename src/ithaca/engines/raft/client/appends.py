"""What a handle appends outside of named sessions: through one session of its own, which nobody named.

A turn of the loop is waited for before the first batch is cut, so that whatever one turn submits travels together. At
most `COALESCED_BATCHES_INFLIGHT` batches that are not full are in flight; beyond that a batch waits to be full.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple
from weakref import WeakSet

from ithaca.client.deadline import Deadline
from ithaca.client.deadlines import Deadlines
from ithaca.client.inflight import InflightBytes
from ithaca.client.intake import Slot, refuse
from ithaca.client.outgoing import Outgoing, numbered
from ithaca.engines.raft.client.producer import SHARD, Producer
from ithaca.engines.raft.client.servers import Servers
from ithaca.engines.raft.messages import BeginSession, EndSession, SessionIs
from ithaca.engines.raft.replog.sessions import ANONYMOUS
from ithaca.model.errors import IthacaError, ProtocolError, SessionExpired
from ithaca.model.limits import COALESCE_BYTES_MAX, COALESCED_BATCHES_INFLIGHT, EXPIRE_TIMEOUT_S
from ithaca.model.records import Compression, Receipt
from ithaca.runtime.backoff import Backoff
from ithaca.runtime.machine import new_uuid, wall_us
from ithaca.wire.batch import Batch
from ithaca.wire.build import build, record_bytes


class Single(NamedTuple):
    """One record."""

    value: bytes
    key: bytes | None
    slot: Slot

    @property
    def size_bytes(self) -> int:
        return record_bytes(self.value, self.key)


class Whole(NamedTuple):
    """One atomic batch."""

    batch: Batch
    slot: Slot

    @property
    def size_bytes(self) -> int:
        return self.batch.total_bytes


Waiting = Single | Whole


async def begin_session(servers: Servers, name: str, deadline: Deadline) -> SessionIs:
    """Open a session, fencing whoever had it open."""
    answer = await servers.ask(BeginSession(name), deadline)
    if not isinstance(answer, SessionIs):
        raise ProtocolError(f"a server answered BeginSession with {type(answer).__name__}")
    return answer


class _Sent:
    """Appends that travel in one batch."""

    __slots__ = ("_appends", "_waiting")

    def __init__(self, appends: "Appends", waiting: Sequence[Waiting]) -> None:
        self._appends = appends
        self._waiting = waiting

    def settled(self, outcome: int | IthacaError, shard: int) -> None:
        self._appends.settled(self._waiting, outcome)


class Appends:
    """The way in, for one handle."""

    def __init__(
        self, servers: Servers, inflight: InflightBytes, *, compression: Compression, timeout_s: float
    ) -> None:
        """`inflight` is of the handle; sessions count there, too."""
        self._servers = servers
        self._compression: Compression = compression
        self.inflight = inflight
        self._timeout_s = timeout_s
        self._loop = asyncio.get_running_loop()
        self._deadlines = Deadlines(timeout_s, inflight.look)
        self._session_slots: WeakSet[asyncio.Future[Receipt]] = WeakSet()
        self._waiting: deque[Waiting] = deque()
        self._waiting_bytes = 0
        self._name = f"{ANONYMOUS}{new_uuid().hex}"
        self._producer: Producer | None = None
        self._next_seq = 1
        self._opening: asyncio.Task[None] | None = None
        self._is_scheduled = False
        self._closed: IthacaError | None = None

    def take(self, waiting: Waiting) -> None:
        """Queue an append; never waits."""
        self.inflight.add(waiting.size_bytes)
        self._deadlines.add(waiting.slot)
        self._put(waiting)

    def count_session(self, size: int, slot: "asyncio.Future[Receipt]") -> None:
        """So many bytes of a session are under way, and this is where their answer goes."""
        self.inflight.add(size)
        self._session_slots.add(slot)

    async def drained(self, deadline: Deadline) -> None:
        """Wait until nothing is under way that somebody waits for; no longer than this."""
        await self.inflight.fallen_to(0, deadline.left_s, lambda: not self._is_waited_for)

    @property
    def _is_waited_for(self) -> bool:
        return self._deadlines.is_waited_for or any(not slot.done() for slot in self._session_slots)

    def _put(self, waiting: Waiting) -> None:
        if self._closed is not None:
            self._refuse([waiting], self._closed)
            return
        self._waiting.append(waiting)
        self._waiting_bytes += waiting.size_bytes
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._flush)

    async def close(self, error: IthacaError) -> None:
        """Stop; what is not settled fails. The session goes, if it can be said soon."""
        self._closed = error
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.wait([self._opening])
        waiting, self._waiting = self._waiting, deque()
        self._refuse(waiting, error)
        self._deadlines.close()
        if self._producer is not None:
            producer, self._producer = self._producer, None
            await producer.close(error)
            if self._servers.leader is not None:
                with suppress(IthacaError):
                    await self._servers.ask(EndSession(self._name, producer.session.epoch), Deadline(EXPIRE_TIMEOUT_S))

    # Sending

    def _flush(self) -> None:
        self._is_scheduled = False
        producer = self._producer
        if producer is None:
            if self._waiting and self._opening is None and self._closed is None:
                self._opening = self._loop.create_task(self._open())
            return
        while self._waiting and producer.has_room:
            head = self._waiting[0]
            if isinstance(head, Whole):
                self._waiting.popleft()
                self._waiting_bytes -= head.size_bytes
                producer.send(Outgoing(numbered(head.batch, self._numbers(head.batch.count)), _Sent(self, [head])))
            elif len(producer) < COALESCED_BATCHES_INFLIGHT or self._waiting_bytes >= COALESCE_BYTES_MAX:
                self._send_singles(producer)
            else:
                break

    def _send_singles(self, producer: Producer) -> None:
        gathered: list[Single] = []
        size = 0
        while self._waiting:
            head = self._waiting[0]
            if isinstance(head, Whole) or (gathered and size + head.size_bytes > COALESCE_BYTES_MAX):
                break
            self._waiting.popleft()
            size += head.size_bytes
            gathered.append(head)
        self._waiting_bytes -= size
        keys = [each.key for each in gathered]
        batch = build(
            [each.value for each in gathered],
            keys if any(key is not None for key in keys) else None,
            timestamp_us=wall_us(),
            compress=self._compression,
            producer=self._numbers(len(gathered)),
        )
        producer.send(Outgoing(batch, _Sent(self, gathered)))

    def _numbers(self, count: int) -> tuple[int, int, int]:
        assert self._producer is not None
        session, first_seq = self._producer.session, self._next_seq
        self._next_seq += count
        return session.producer_id, session.epoch, first_seq

    async def _open(self) -> None:
        """Have a session; what waits is sent through it."""
        pauses = Backoff()
        try:
            while self._waiting:
                try:
                    session = await begin_session(self._servers, self._name, Deadline(self._timeout_s))
                except IthacaError as error:
                    if not error.retry:
                        waiting, self._waiting, self._waiting_bytes = self._waiting, deque(), 0
                        self._refuse(waiting, error)
                    await pauses.pause()
                    self._forget_answered()
                    continue
                self._next_seq = session.next_seq
                self._producer = Producer(
                    self._servers, session, one_by_one=False, has_room=self._has_room, failed=self._session_ended
                )
                break
        finally:
            self._opening = None
        self._flush()

    def _forget_answered(self) -> None:
        """Those whose time was up while there was no session."""
        for waiting in [each for each in self._waiting if each.slot.done()]:
            self._waiting.remove(waiting)
            self._waiting_bytes -= waiting.size_bytes
            self.inflight.settle(waiting.size_bytes)

    def _session_ended(self) -> None:
        """It has expired, or was refused: what waits goes through another one."""
        self._producer = None
        self._name = f"{ANONYMOUS}{new_uuid().hex}"
        self._flush()

    # Answers

    def settled(self, appends: Sequence[Waiting], outcome: int | IthacaError) -> None:
        """A batch with these appends is in the log, or will never be."""
        if isinstance(outcome, SessionExpired) and not outcome.outcome_unknown and self._closed is None:
            for waiting in appends:  # only the session is at its end
                self._put(waiting)
            return
        if isinstance(outcome, IthacaError):
            self._refuse(appends, outcome)
            return
        durability = "fsync" if self._producer is None else self._producer.durability
        position = outcome
        for waiting in appends:
            count = 1 if isinstance(waiting, Single) else waiting.batch.count
            if not waiting.slot.done():
                waiting.slot.set_result(Receipt(position, count, SHARD, durability))
            position += count
            self.inflight.settle(waiting.size_bytes)

    def _refuse(self, appends: Sequence[Waiting], error: IthacaError) -> None:
        for waiting in appends:
            refuse(waiting.slot, error)
            self.inflight.settle(waiting.size_bytes)

    def _has_room(self) -> None:
        if self._waiting and not self._is_scheduled:
            self._flush()
