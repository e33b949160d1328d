"""One producer: a session with one home lane, its batches sent in order and sent again until each is settled.

Numbers stay dense: a batch that was taken stays here until it is known to be ordered, or known never to be,
however long its caller waits. Three things interrupt the sending, and all end in sending everything that is not
settled again, in order, the same bytes:

1. The connection ended: dial the home again.
2. The home cannot take the batch now (`Overloaded`, `Unavailable`): pause first.
3. The home is closed (`WrongLane`, or the view says so): ask a replica of its shard what was ordered there,
   settle that, and move the session to another lane, carrying along what is known of it.

A session that was fenced or has expired ends its producer: everything in it fails.
"""

import asyncio
from contextlib import suppress
from typing import Protocol

from ithaca.client.appending.outgoing import Outgoing
from ithaca.client.appending.send_queue import Refusal, SendQueue
from ithaca.engines.scalog.client.append.home import Homes
from ithaca.engines.scalog.client.links import Link
from ithaca.engines.scalog.ordering.outcomes import Session
from ithaca.model.errors import (
    DeadlineExceeded,
    Fenced,
    IthacaError,
    Overloaded,
    ProtocolError,
    SessionExpired,
    SessionFenced,
    Unavailable,
    WrongLane,
)
from ithaca.model.limits import HOME_LOOK_S, LANE_STALLED_S
from ithaca.model.positions import LaneId
from ithaca.model.records import Durability
from ithaca.runtime.backoff import Backoff
from ithaca.sessions.carried import Carried, decode_carried
from ithaca.wire.batch import Batch

_LATER = (Unavailable, WrongLane, ProtocolError, Fenced)
"""Refusals after which everything is sent again, here or at another home."""


class Watcher(Protocol):
    """Who has made a producer."""

    def has_room(self) -> None:
        """More batches may be handed over."""

    def unreachable(self, error: IthacaError) -> None:
        """The home does not answer; the producer goes on trying."""

    def moved(self) -> None:
        """The session has another home."""

    def failed(self, error: IthacaError) -> None:
        """The producer is at its end."""


class Producer:
    """The batches of one session."""

    def __init__(self, homes: Homes, session: Session, watcher: Watcher, *, one_by_one: bool) -> None:
        """`one_by_one`: a batch that is refused for good fails alone; else it ends the producer."""
        self.session = session
        self.durability: Durability = "fsync"
        self.failure: IthacaError | None = None
        self._homes = homes
        self._watcher = watcher
        self._loop = asyncio.get_running_loop()
        self._queue = SendQueue(one_by_one=one_by_one)
        self._link: Link | None = None
        self._must_settle = False  # whether the home is to be looked up before the next attempt
        self._pauses = Backoff()
        self._is_troubled = False
        self._is_crowded = False
        """Whether the last refusal was for want of room."""
        self._recovery: asyncio.Task[None] | None = None
        self._stall: asyncio.TimerHandle | None = None
        self._looking: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        """Batches that are not settled."""
        return len(self._queue)

    @property
    def has_room(self) -> bool:
        return self.failure is None and self._link is not None and self._queue.has_room

    def unsettled(self) -> list[tuple[int, int]]:
        """(first number, records) of the batches that are not settled, in order."""
        return self._queue.unsettled()

    def send(self, outgoing: Outgoing) -> None:
        """Take a batch; it is sent as soon as the window allows."""
        if self.failure is not None:
            outgoing.waiter.settled(self.failure, self.session.home.shard)
            return
        self._queue.put(outgoing)
        self._pump()

    def start(self) -> None:
        """Find the way to the home, if it is not there yet."""
        if self._link is None and self.failure is None and (self._recovery is None or self._recovery.done()):
            self._recovery = self._loop.create_task(self._recover())

    async def close(self, error: IthacaError) -> None:
        """Stop; what is not settled fails."""
        self._end(error)
        tasks = [task for task in (self._recovery, self._looking) if task not in (None, asyncio.current_task())]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    # Sending

    def _pump(self) -> None:
        link = self._link
        if link is None:
            self.start()
            return
        while (outgoing := self._queue.next_to_send()) is not None:
            outgoing.correlation = link.append(self.session.home, outgoing.batch, self)
        if self._stall is None and self._queue.sent:
            self._watch_stall()

    def _watch_stall(self, silent_s: float = 0) -> None:
        """Look after a while whether the home has answered; so far it was silent for so long."""
        oldest = self._queue[0]

        def look() -> None:
            self._stall = None
            if not self._queue.sent or self.failure is not None:
                return
            if self._queue[0] is not oldest:
                self._watch_stall()
                return
            now_silent_s = silent_s + HOME_LOOK_S
            if now_silent_s // LANE_STALLED_S > silent_s // LANE_STALLED_S:
                self._watcher.unreachable(
                    DeadlineExceeded(f"lane {self.session.home} did not answer for {now_silent_s} s")
                )
            self._look_at_home()
            if self._queue.sent:
                self._watch_stall(now_silent_s)

        self._stall = self._loop.call_later(HOME_LOOK_S, look)

    def _look_at_home(self) -> None:
        """A home that is silent may be closed, and unable to say so."""
        if self._looking is None or self._looking.done():
            self._looking = self._loop.create_task(self._leave_closed_home(self.session.home))

    async def _leave_closed_home(self, home: LaneId) -> None:
        try:
            is_closed = await self._homes.is_closed(home)
        except IthacaError:
            return  # nobody knows: it is asked again
        if is_closed and self._link is not None and self.session.home == home and self.failure is None:
            self._must_settle = True
            self._detach()
            self.start()

    # What the link calls

    def acknowledged(self, correlation: int, position: int) -> None:
        index = self._queue.find(correlation)
        if index is not None:
            self._is_troubled = False
            self._pauses.reset()
            self._queue.settle(index, position, self._shard_of(self._queue[index].batch))
            self._go_on()

    def refused(self, correlation: int, error: IthacaError) -> None:
        index = self._queue.find(correlation)
        if index is None:
            return  # it was sent again since
        if isinstance(error, Unavailable) and error.outcome_unknown:
            # It was ordered, and nobody knows where any more.
            self._queue.settle(index, error, self.session.home.shard)
            self._go_on()
        elif isinstance(error, _LATER):
            if isinstance(error, WrongLane):
                self._must_settle = True
                if self._is_crowded:
                    self._pauses.reset()  # they were for room there, which nobody needs any more
            self._is_crowded = isinstance(error, Overloaded)
            self._is_troubled = True
            self._detach()
            self.start()
        else:
            self._refused_for_good(index, error)

    def _refused_for_good(self, index: int, error: IthacaError) -> None:
        outgoing = self._queue[index]
        match self._queue.refuse(index, error, self.session.home.shard):
            case Refusal.SETTLED:
                self._go_on()
            case Refusal.ENDS:
                self._fail(error, outgoing)

    def lost(self, link: Link) -> None:
        if link is self._link:
            self._detach()
            if self._queue:
                self.start()

    def _shard_of(self, batch: Batch) -> int:
        """Where a batch is that the home has acknowledged: one that it repeats may be in a former home."""
        for first_seq, count, _, shard in decode_carried(self.session.carried):
            if (first_seq, count) == (batch.first_seq, batch.count):
                return shard
        return self.session.home.shard

    def _go_on(self) -> None:
        self._pump()
        self._watcher.has_room()

    def _detach(self) -> None:
        if self._link is not None:
            self._link.leave(self)
            self._link = None
        self._queue.unsend()

    def _fail(self, error: IthacaError, refused: Outgoing | None = None) -> None:
        if self.failure is None:
            self._end(error, refused)
            self._watcher.failed(error)

    def _end(self, error: IthacaError, refused: Outgoing | None = None) -> None:
        """Fail everything; `refused` is the batch that the error is the answer to."""
        self.failure = self.failure or error
        self._detach()
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None
        self._queue.fail(error, refused, self.session.home.shard)

    # Getting back to the home

    async def _recover(self) -> None:
        """Until there is a link to the home, or no hope."""
        if self._is_troubled:
            await self._pauses.pause()
        while self.failure is None:
            try:
                if self._must_settle:
                    await self._settle_home()
                link = await self._reached(self.session.home)
            except (SessionExpired, SessionFenced) as error:
                self._fail(error)
                return
            except IthacaError as error:
                self._must_settle = True
                self._watcher.unreachable(error)
                await self._pauses.pause()
            else:
                self._attach(link)
                return

    async def _reached(self, home: LaneId) -> Link:
        """The link to the home; whoever does not answer is not waited for any longer once the home is closed."""
        dialling = self._loop.create_task(self._homes.link(home))
        closing = self._loop.create_task(self._until_closed(home))
        try:
            await asyncio.wait({dialling, closing}, return_when=asyncio.FIRST_COMPLETED)
            if not dialling.done():
                raise WrongLane(f"lane {home} is closed: append to another lane")
            return dialling.result()
        finally:
            dialling.cancel()
            closing.cancel()

    async def _until_closed(self, home: LaneId) -> None:
        is_closed = False
        while not is_closed:
            await asyncio.sleep(HOME_LOOK_S)
            with suppress(IthacaError):  # nobody knows: it is asked again
                is_closed = await self._homes.is_closed(home)

    def _attach(self, link: Link) -> None:
        self._link = link
        self.durability = link.durability
        link.use(self)
        self._go_on()

    async def _settle_home(self) -> None:
        home = self.session.home
        self.session, placed = await self._homes.settled(self.session)
        self._must_settle = False
        self._settle_placed(placed)
        if self.session.home != home:
            self._pauses.reset()  # they grew by the troubles of the former home
            self._watcher.moved()

    def _settle_placed(self, placed: tuple[Carried, ...]) -> None:
        """These are ordered in former homes: whoever waits for one of them is told.

        Where the position is not known any more the new home says so.
        """
        indexes = {(first_seq, count): (position, shard) for first_seq, count, position, shard in placed}
        index = 0
        while index < len(self._queue):
            outgoing = self._queue[index]
            position, shard = indexes.get((outgoing.batch.first_seq, outgoing.batch.count), (0, 0))
            if position and outgoing.sends:
                self._queue.settle(index, position, shard)
            else:
                index += 1
