"""What a handle appends outside of named sessions: through one session of its own, which nobody named.

A turn of the loop is waited for before the first batch is cut, so that whatever one turn submits travels together.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from ithaca.client.appending.coalescing import Cut, Waiting, WaitingAppends, answer
from ithaca.client.appending.outgoing import Outgoing
from ithaca.client.appending.under_way import UnderWay
from ithaca.client.deadline import Deadline
from ithaca.client.inflight import InflightBytes
from ithaca.client.intake import refuse
from ithaca.engines.raft.client.producer import Producer
from ithaca.engines.raft.client.servers import Servers
from ithaca.engines.raft.client.session import begin_session
from ithaca.engines.raft.messages import EndSession
from ithaca.model.errors import IthacaError, SessionExpired
from ithaca.model.limits import EXPIRE_TIMEOUT_S
from ithaca.model.records import Compression
from ithaca.runtime.backoff import Backoff
from ithaca.runtime.machine import new_uuid
from ithaca.users.names import ANONYMOUS


class _Sent:
    """A batch that is under way."""

    __slots__ = ("_appends", "_cut")

    def __init__(self, appends: "Appends", cut: Cut) -> None:
        self._appends = appends
        self._cut = cut

    def settled(self, outcome: int | IthacaError, shard: int) -> None:
        self._appends.settled(self._cut, outcome, shard)


class Appends:
    """The way in, for one handle."""

    def __init__(
        self, servers: Servers, inflight: InflightBytes, *, compression: Compression, timeout_s: float
    ) -> None:
        """`inflight` is of the handle; sessions count there, too."""
        self._servers = servers
        self.under_way = UnderWay(inflight, timeout_s)
        self._timeout_s = timeout_s
        self._loop = asyncio.get_running_loop()
        self._waiting = WaitingAppends(compression)
        self._name = f"{ANONYMOUS}{new_uuid().hex}"
        self._producer: Producer | None = None
        self._next_seq = 1
        self._opening: asyncio.Task[None] | None = None
        self._is_scheduled = False
        self._closed: IthacaError | None = None

    def take(self, waiting: Waiting) -> None:
        """Queue an append; never waits."""
        self.under_way.add(waiting.size_bytes, (waiting.slot,))
        self._put(waiting)

    def _put(self, waiting: Waiting) -> None:
        if self._closed is not None:
            self._refuse([waiting], self._closed)
            return
        self._waiting.add(waiting)
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._flush)

    async def close(self, error: IthacaError) -> None:
        """Stop; what is not settled fails. The session goes, if it can be said soon."""
        self._closed = error
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.wait([self._opening])
        self._refuse(self._waiting.take_all(), error)
        self.under_way.close()
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
        while producer.has_room and (cut := self._waiting.cut(len(producer), self._numbers)) is not None:
            producer.send(Outgoing(cut.batch, _Sent(self, cut)))

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
                        self._refuse(self._waiting.take_all(), error)
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
        for waiting in self._waiting.take_answered():
            self.under_way.settle(waiting.size_bytes)

    def _session_ended(self) -> None:
        """It has expired, or was refused: what waits goes through another one."""
        self._producer = None
        self._name = f"{ANONYMOUS}{new_uuid().hex}"
        self._flush()

    # Answers

    def settled(self, cut: Cut, outcome: int | IthacaError, shard: int) -> None:
        """A batch is in the log, or will never be."""
        if isinstance(outcome, SessionExpired) and not outcome.outcome_unknown and self._closed is None:
            for waiting in cut.appends:  # only the session is at its end
                self._put(waiting)
        elif isinstance(outcome, IthacaError):
            self._refuse(cut.appends, outcome)
        else:
            durability = "fsync" if self._producer is None else self._producer.durability
            answer(cut.appends, outcome, shard, durability)
            self.under_way.settle(cut.size_bytes)

    def _refuse(self, appends: Sequence[Waiting], error: IthacaError) -> None:
        for waiting in appends:
            refuse(waiting.slot, error)
            self.under_way.settle(waiting.size_bytes)

    def _has_room(self) -> None:
        if self._waiting and not self._is_scheduled:
            self._flush()
