"""Asynchronous iteration over a cluster's log: one stream per shard, merged by position."""

import asyncio
import copy
import weakref
from datetime import datetime

from ithaca.client.ahead_records import AheadSubscription, BegunRecords
from ithaca.client.deadline import Deadline
from ithaca.client.merge import Merge, Piece
from ithaca.engines.scalog.client.context import Context
from ithaca.engines.scalog.client.read.stream import Ranges, ShardStream
from ithaca.engines.scalog.messages.order import TailReply
from ithaca.model.errors import IthacaError, Unavailable
from ithaca.model.limits import STREAM_BUFFER_BYTES_MAX, STREAM_SILENT_S
from ithaca.model.records import KeyFilter, Start
from ithaca.model.view import View
from ithaca.protocol.filters import sent_filter
from ithaca.runtime.checks import time_us_of
from ithaca.runtime.read_ahead import ReadAhead
from ithaca.wire.positioned import AnyPositioned

Streams = dict[int, ShardStream]


class _Merged:
    """The merge as a source of batches; what is taken from it makes room in the streams."""

    def __init__(self, merge: Merge, streams: Streams, context: Context) -> None:
        self.merge = merge
        self._streams = streams
        self._context = context

    @property
    def position(self) -> int:
        return self.merge.position

    def read(self) -> list[AnyPositioned]:
        """About all that is here, so that a thread that takes it seldom waits for the one that receives."""
        found: list[AnyPositioned] = []
        for piece in self.merge.take(STREAM_BUFFER_BYTES_MAX):
            stream = self._streams.get(piece.shard)
            if stream is not None:
                stream.consumed(piece.bytes)
            if piece.batch is not None:
                found.append(piece.batch)
                if piece.stop - piece.start == len(piece.batch):
                    self._context.seen.add(piece.start, piece.stop, piece.shard)
        return found


class _Feed:
    """What streams call; it does not keep the iteration alive that they feed."""

    def __init__(self, records: "AsyncClusterRecords") -> None:
        self._records = weakref.ref(records)

    def received(self, shard: int, pieces: list[Piece], up_to: int, view: int, strewn: Ranges = ()) -> None:
        records = self._records()
        if records is not None:
            records.received(shard, pieces, up_to, view, strewn)

    def gone(self, shard: int) -> None:
        records = self._records()
        if records is not None:
            records.renew()

    def failed(self, shard: int, error: IthacaError) -> None:
        records = self._records()
        if records is not None:
            records.failed(error)


class AsyncClusterRecords(BegunRecords[_Merged]):
    """A bounded range, of some shards alone if they are named."""

    def __init__(
        self,
        context: Context,
        start: Start,
        until: Start | None,
        where: KeyFilter | None,
        shards: frozenset[int] | None = None,
    ) -> None:
        super().__init__(start)
        self._context = context
        self._until = until
        self._stop: int | None = None
        self._where = None if where is None else sent_filter(where)
        self._shards = shards
        self._error: IthacaError | None = None
        self._streams: Streams = {}
        self._beginning: asyncio.Task[ReadAhead[_Merged]] | None = None
        self._renewing: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._patience: Deadline | None = None
        """Until when nothing may come, counted from the last that did, over however many polls."""
        weakref.finalize(self, _end, asyncio.get_running_loop(), self._streams)
        context.readers[self] = None

    async def close(self) -> None:
        self._closed = True
        self._release()

    # Beginning

    async def _begun(self) -> ReadAhead[_Merged]:
        """Settle where to start; whoever asks first does it for all."""
        self._context.check()
        if self._ahead is not None:
            return self._ahead
        if self._beginning is None:
            self._beginning = asyncio.ensure_future(self._begin(Deadline(self._context.timeout_s)))
        beginning = self._beginning
        try:
            return await asyncio.shield(beginning)
        except asyncio.CancelledError:
            self._context.check()  # a handle that was closed meanwhile says that
            raise
        finally:
            if beginning.done() and self._beginning is beginning:
                self._beginning = None

    async def _begin(self, deadline: Deadline) -> ReadAhead[_Merged]:
        order = self._context.order
        tail = await order.tail(deadline)
        self._context.reading.trimmed(tail.first)
        position, stop = await self._settled(tail, deadline)
        if stop is None or position < stop:
            self._context.reading.check_not_trimmed(position)
        if tail.view > order.view.version:
            await order.refresh(deadline, tail.view)
        merge = Merge(position, stop, is_filtered=self._where is not None or self._shards is not None)
        self._stop = stop
        self._ahead = ReadAhead(_Merged(merge, self._streams, self._context))
        if not merge.is_finished and not self._closed:
            self._follow(order.view)
        return self._ahead

    async def _settled(self, tail: TailReply, deadline: Deadline) -> tuple[int, int | None]:
        """Where to start, and where to stop."""
        stop = tail.tail if self._until is None else min(await self._meant(self._until, tail, deadline), tail.tail)
        return await self._meant(self._start, tail, deadline), stop

    async def _meant(self, where: Start, tail: TailReply, deadline: Deadline) -> int:
        """The position that stands for it."""
        if isinstance(where, datetime):
            return await self._context.reading.seek(time_us_of(where), deadline)
        if isinstance(where, int):
            return where
        return tail.first if where == "earliest" else tail.tail

    # Streams

    def _follow(self, view: View) -> None:
        """Stream from every shard of the view that is wanted."""
        assert self._ahead is not None
        context, merge = self._context, self._ahead.source.merge
        wanted = [each.shard for each in view.shards if self._shards is None or each.shard in self._shards]
        added, removed = merge.know(view.version, wanted)
        if not wanted and self._shards is not None:
            merge.nothing_left()
        for shard in removed:
            self._streams.pop(shard).close()
        for shard in added:
            self._streams[shard] = ShardStream(
                shard,
                merge.position,
                self._stop,
                self._where,
                context.links,
                context.order,
                context.replicas,
                _Feed(self),
            )

    def received(self, shard: int, pieces: list[Piece], up_to: int, view: int, strewn: Ranges = ()) -> None:
        assert self._ahead is not None
        merge = self._ahead.source.merge
        merge.receive(shard, pieces, up_to, view, strewn)
        if merge.wanted_view:
            self.renew()
        self._wake.set()

    def failed(self, error: IthacaError) -> None:
        self._error = error
        self._wake.set()

    def renew(self) -> None:
        """Another view holds: look for it in the background."""
        if self._renewing is None or self._renewing.done():
            self._renewing = asyncio.ensure_future(self._renew())

    async def _renew(self) -> None:
        """Get the view that a stream has named, or in which its shard is gone; what it adds is streamed too."""
        assert self._ahead is not None
        merge = self._ahead.source.merge
        is_first = True
        while not self._closed and not self._context.life.is_closed and (is_first or merge.wanted_view):
            is_first = False
            deadline = Deadline(self._context.timeout_s)
            try:
                view = await self._context.order.refresh(deadline, merge.wanted_view)
                if not self._streams.keys() <= {shard.shard for shard in view.shards}:
                    await self._check_passed(merge, deadline)
            except IthacaError as error:
                if not isinstance(error, Unavailable):
                    self.failed(error)
                    return
            else:
                self._follow(view)
                self._wake.set()

    async def _check_passed(self, merge: Merge, deadline: Deadline) -> None:
        """A shard is gone, since all that it had was trimmed: `Trimmed` if some of that was still to come."""
        self._context.reading.trimmed((await self._context.order.tail(deadline)).first)
        self._context.reading.check_not_trimmed(merge.position)

    # Going on

    async def _advance(self, deadline: Deadline | None) -> bool:
        silence = Deadline(self._context.timeout_s)
        is_first = True
        while not self._closed:
            ahead = await self._begun()
            if self._closed:
                break
            self._wake.clear()
            if ahead.fill():
                self._patience = None
                return True
            if ahead.source.merge.is_finished:
                self._release()
                return False
            error = self._error or ahead.source.merge.loss
            if error is not None:
                raise copy.copy(error)
            if deadline is not None and deadline.passed and not is_first:
                return False
            if self._patience is not None and self._patience.passed:
                await self._impatient(silence)
                self._patience = None
            if self._patience is None:
                self._patience = Deadline(self._patience_s)
            await self._wait(deadline, self._patience, is_first)
            is_first = False
        return False

    async def _wait(self, deadline: Deadline | None, patience: Deadline, is_first: bool) -> None:
        limit_s = patience.left_s if deadline is None else min(patience.left_s, deadline.left_s)
        if limit_s <= 0:
            if is_first:
                await asyncio.sleep(0)  # whoever polls without waiting must let the loop receive
            return
        try:
            async with asyncio.timeout(limit_s):
                await self._wake.wait()
        except TimeoutError:
            pass

    @property
    def _patience_s(self) -> float:
        return min(STREAM_SILENT_S, self._context.timeout_s / 3)

    async def _impatient(self, silence: Deadline) -> None:
        """Nothing has come for a while, though all of it is there: other replicas may have it, up to a point."""
        if not silence.passed:
            self._change_replicas()
            return
        problems = [f"shard {shard}: {stream.problem or 'silent'}" for shard, stream in self._streams.items()]
        raise Unavailable(f"the range did not go on for {silence.timeout_s:.3g} s ({'; '.join(problems)})")

    def _change_replicas(self) -> None:
        """Go on with other replicas of the shards that hold up the rest."""
        assert self._ahead is not None
        for shard in self._ahead.source.merge.laggards():
            if shard in self._streams:
                self._streams[shard].change_replica()

    def handle_closed(self) -> None:
        self._release()

    def _release(self) -> None:
        self._wake.set()
        for task in (self._beginning, self._renewing):
            if task is not None:
                task.cancel()
        _close_all(self._streams)


class AsyncClusterSubscription(AsyncClusterRecords, AheadSubscription[_Merged]):
    """Without end."""

    def __init__(self, context: Context, start: Start, where: KeyFilter | None) -> None:
        super().__init__(context, start, None, where)

    def _read_on(self) -> bool:
        assert self._ahead is not None
        return self._ahead.fill()

    async def _settled(self, tail: TailReply, deadline: Deadline) -> tuple[int, int | None]:
        return await self._meant(self._start, tail, deadline), None

    @property
    def _patience_s(self) -> float:
        return STREAM_SILENT_S

    async def _impatient(self, silence: Deadline) -> None:
        """Ask the leader whether something should have come; if so, go on with other replicas."""
        assert self._ahead is not None
        merge = self._ahead.source.merge
        before = merge.position
        try:
            tail = await self._context.order.tail(Deadline(STREAM_SILENT_S))
        except Unavailable:
            return
        if tail.tail > before == merge.position:
            self._change_replicas()


def _close_all(streams: Streams) -> None:
    for stream in streams.values():
        stream.close()
    streams.clear()


def _end(loop: asyncio.AbstractEventLoop, streams: Streams) -> None:
    """An iteration was abandoned, in whatever thread."""
    if streams and not loop.is_closed():
        loop.call_soon_threadsafe(_close_all, streams)
