"""Asynchronous iteration over the log: one stream from one server."""

import asyncio
import weakref
from datetime import datetime
from typing import TYPE_CHECKING

from ithaca.client.ahead_records import AheadSubscription, BegunRecords
from ithaca.client.deadline import Deadline
from ithaca.engines.raft.client.stream import Stream
from ithaca.engines.raft.messages import LogIs, PositionIs, SeekTime
from ithaca.model.errors import IthacaError, LogClosed, ProtocolError, Trimmed, Unavailable
from ithaca.model.limits import STREAM_SILENT_S
from ithaca.model.records import KeyFilter, Start
from ithaca.protocol.filters import sent_filter
from ithaca.runtime.checks import time_us_of
from ithaca.runtime.read_ahead import ReadAhead

if TYPE_CHECKING:
    from ithaca.engines.raft.client.log import RaftLog


class _Wake:
    """What streams call; it does not keep the iteration alive that they feed."""

    def __init__(self, event: asyncio.Event) -> None:
        self._event = event

    def __call__(self) -> None:
        self._event.set()


class RaftRecords(BegunRecords[Stream]):
    """A bounded range."""

    _is_endless = False

    def __init__(self, log: "RaftLog", start: Start, until: Start | None, where: KeyFilter | None) -> None:
        super().__init__(start)
        self._log = log
        self._until = until
        self._where = None if where is None else sent_filter(where)
        self._event = asyncio.Event()
        self._beginning: asyncio.Task[ReadAhead[Stream]] | None = None
        self._patience: Deadline | None = None
        """Until when nothing may come, counted from the last that did, over however many polls."""
        log.readers.add(self)

    async def close(self) -> None:
        self._closed = True
        self.handle_closed()

    def handle_closed(self) -> None:
        """Whoever waits is told."""
        if self._beginning is not None:
            self._beginning.cancel()
        if self._ahead is not None:
            self._ahead.source.close()
        self._event.set()

    async def _begun(self) -> ReadAhead[Stream]:
        """Settle where to start; whoever asks first does it for all."""
        self._log.check()
        if self._ahead is not None:
            return self._ahead
        if self._beginning is None:
            self._beginning = asyncio.ensure_future(self._begin(Deadline(self._log.timeout_s)))
        beginning = self._beginning
        try:
            return await asyncio.shield(beginning)
        except asyncio.CancelledError:
            self._log.check()
            raise
        finally:
            if beginning.done() and self._beginning is beginning:
                self._beginning = None

    async def _begin(self, deadline: Deadline) -> ReadAhead[Stream]:
        found = await self._log.servers.log(deadline)
        start, stop = await self._settled(found, deadline)
        if start < found.first and (stop is None or start < stop):
            raise Trimmed(f"position {start} was trimmed; the first one left is {found.first}", first=found.first)
        stream = Stream(start, stop, self._where, self._log.servers, _Wake(self._event))
        weakref.finalize(self, _end, asyncio.get_running_loop(), stream)
        self._ahead = ReadAhead(stream)
        if self._closed:
            stream.close()
        return self._ahead

    async def _settled(self, found: LogIs, deadline: Deadline) -> tuple[int, int | None]:
        """Where to start, and where to stop."""
        start = await self._meant(self._start, found, deadline)
        stop = found.tail if self._until is None else min(await self._meant(self._until, found, deadline), found.tail)
        return start, max(stop, start)

    async def _meant(self, where: Start, found: LogIs, deadline: Deadline) -> int:
        """The position that stands for it."""
        if isinstance(where, datetime):
            answer = await self._log.servers.ask(SeekTime(time_us_of(where)), deadline)
            if not isinstance(answer, PositionIs):
                raise ProtocolError(f"a server answered SeekTime with {type(answer).__name__}")
            return max(answer.position, found.first)
        if isinstance(where, int):
            return where
        return found.first if where == "earliest" else found.tail

    async def _advance(self, deadline: Deadline | None) -> bool:
        while not self._closed:
            ahead = await self._begun()
            if ahead.fill():
                self._patience = None
                return True
            stream = ahead.source
            if stream.error is not None:
                raise stream.error
            if stream.is_over:
                self._log.check()
                return False
            if deadline is not None and deadline.passed:
                return False
            await self._wait(stream, deadline)
        return False

    async def _wait(self, stream: Stream, deadline: Deadline | None) -> None:
        """Until something comes, the time is up, or it has been silent for so long that the leader is asked."""
        if self._patience is None:
            self._patience = Deadline(STREAM_SILENT_S)
        left_s = self._patience.left_s if deadline is None else min(self._patience.left_s, deadline.left_s)
        self._event.clear()
        try:
            async with asyncio.timeout(left_s):
                await self._event.wait()
        except TimeoutError:
            if self._patience.passed:
                self._patience = None
                await self._ask_leader(stream)
        self._log.check()

    async def _ask_leader(self, stream: Stream) -> None:
        """A server that does not follow the others any more says nothing."""
        try:
            found = await self._log.servers.log(Deadline(STREAM_SILENT_S))
        except IthacaError as error:
            if stream.problem is not None and not self._is_endless:
                raise Unavailable(f"nothing comes: {stream.problem}; and nobody leads: {error}") from error
            return
        if found.tail > stream.position:
            stream.change_server()


class RaftSubscription(RaftRecords, AheadSubscription[Stream]):
    """Without end."""

    _is_endless = True

    async def _settled(self, found: LogIs, deadline: Deadline) -> tuple[int, int | None]:
        return await self._meant(self._start, found, deadline), None

    def _read_on(self) -> bool:
        return self._ahead is not None and self._ahead.fill()


def _end(loop: asyncio.AbstractEventLoop, stream: Stream) -> None:
    """The iteration is not used any more."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(stream.close)


def closed(name: str) -> LogClosed:
    return LogClosed(f"the handle of {name} was closed")
