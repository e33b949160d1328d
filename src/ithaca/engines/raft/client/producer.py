"""One producer: a session, its batches sent in order to the leader, and sent again until each is settled.

Numbers stay dense: a batch that was taken stays here until it is known to be in the log, or known never to be, however
long its caller waits. When the connection ends, or its server does not lead any more, the leader is looked for, and
everything that is not settled is sent to it again, in order, the same bytes. A session that was fenced or has expired
ends its producer: everything in it fails.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from ithaca.client.deadline import Deadline
from ithaca.client.outgoing import Outgoing, certain
from ithaca.engines.raft.client.links import Link
from ithaca.engines.raft.client.servers import Servers
from ithaca.engines.raft.messages import SessionIs
from ithaca.model.errors import (
    Fenced,
    IthacaError,
    ProtocolError,
    SequenceGap,
    SessionExpired,
    SessionFenced,
    StorageFull,
    Unavailable,
)
from ithaca.model.limits import CALL_TIMEOUT_S, SESSION_BATCHES_MAX
from ithaca.model.records import Durability
from ithaca.runtime.backoff import Backoff

SHARD = 0
"""The whole log is one."""
_LATER = (Unavailable, ProtocolError, Fenced, StorageFull)
"""Refusals after which everything is sent again, here or to another leader."""


class Producer:
    """The batches of one session."""

    def __init__(
        self,
        servers: Servers,
        session: SessionIs,
        *,
        one_by_one: bool,
        has_room: Callable[[], None],
        failed: Callable[[], None],
    ) -> None:
        """`one_by_one`: a batch that is refused for good fails alone; else the producer ends, and `failed` is told."""
        self.session = session
        self.durability: Durability = "fsync"
        self.failure: IthacaError | None = None
        self._servers = servers
        self._one_by_one = one_by_one
        self._on_room = has_room
        self._on_failed = failed
        self._queue: deque[Outgoing] = deque()
        self._sent = 0  # of the queue, from its head on, over the present link
        self._link: Link | None = None
        self._pauses = Backoff()
        self._is_troubled = False
        self._recovery: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        """Batches that are not settled."""
        return len(self._queue)

    @property
    def has_room(self) -> bool:
        return self.failure is None and len(self._queue) < SESSION_BATCHES_MAX

    def unsettled(self) -> list[tuple[int, int]]:
        """(first number, records) of the batches that are not settled, in order."""
        return [(each.batch.first_seq, each.batch.count) for each in self._queue]

    def send(self, outgoing: Outgoing) -> None:
        """Take a batch; it is sent as soon as the window allows."""
        if self.failure is not None:
            outgoing.waiter.settled(self.failure, SHARD)
            return
        self._queue.append(outgoing)
        self._pump()

    async def close(self, error: IthacaError) -> None:
        """Stop; what is not settled fails."""
        self._end(error)
        if self._recovery is not None and self._recovery is not asyncio.current_task():
            self._recovery.cancel()
            await asyncio.wait([self._recovery])

    def _pump(self) -> None:
        link = self._link
        if link is None:
            self._start()
            return
        while self._sent < min(len(self._queue), SESSION_BATCHES_MAX):
            outgoing = self._queue[self._sent]
            if outgoing.is_held and self._sent > 0:
                break
            outgoing.sends += 1
            outgoing.correlation = link.append(outgoing.batch, self)
            self._sent += 1

    # What the link calls

    def acknowledged(self, correlation: int, position: int) -> None:
        index = self._find(correlation)
        if index is not None:
            self._is_troubled = False
            self._pauses.reset()
            self._settle(index, position)
            self._go_on()

    def refused(self, correlation: int, error: IthacaError) -> None:
        index = self._find(correlation)
        if index is None:
            return  # it was sent again since
        if isinstance(error, _LATER):
            if self._link is not None:
                self._servers.lost(self._link.address)
            self._is_troubled = True
            self._detach()
            self._start()
        elif isinstance(error, SessionExpired | SessionFenced):
            self._fail(error, self._queue[index])
        elif isinstance(error, SequenceGap) and index > 0:
            # It may have come before the one that it continues, which was refused or is still on its way.
            self._queue[index].is_held = True
            self._unsend(index)
        elif self._one_by_one:
            outgoing = self._queue[index]
            self._settle(index, certain(error, outgoing, outgoing))
            self._go_on()
        else:
            self._fail(error, self._queue[index])

    def lost(self, link: Link) -> None:
        if link is self._link:
            self._servers.lost(link.address)
            self._detach()
            if self._queue:
                self._start()

    def _find(self, correlation: int) -> int | None:
        """Where in the queue a request's batch is; None when it is not the newest request for it."""
        return next((at for at in range(self._sent) if self._queue[at].correlation == correlation), None)

    def _settle(self, index: int, outcome: int | IthacaError) -> None:
        outgoing = self._queue[index]
        del self._queue[index]
        if index < self._sent:
            self._sent -= 1
        outgoing.waiter.settled(outcome, SHARD)

    def _go_on(self) -> None:
        self._pump()
        self._on_room()

    def _unsend(self, start: int) -> None:
        """Take everything from here on as not sent."""
        for index in range(start, self._sent):
            self._queue[index].correlation = 0
        self._sent = min(self._sent, start)

    def _detach(self) -> None:
        if self._link is not None:
            self._link.leave(self)
            self._link = None
        self._unsend(0)

    def _fail(self, error: IthacaError, refused: Outgoing | None = None) -> None:
        if self.failure is None:
            self._end(error, refused)
            self._on_failed()

    def _end(self, error: IthacaError, refused: Outgoing | None = None) -> None:
        """Fail everything; `refused` is the batch that the error is the answer to."""
        self.failure = self.failure or error
        self._detach()
        queue, self._queue = self._queue, deque()
        for outgoing in queue:
            outgoing.waiter.settled(certain(error, outgoing, refused), SHARD)

    # Getting to the leader

    def _start(self) -> None:
        if self._link is None and self.failure is None and (self._recovery is None or self._recovery.done()):
            self._recovery = asyncio.get_running_loop().create_task(self._recover())

    async def _recover(self) -> None:
        """Until there is a link to the leader."""
        if self._is_troubled:
            await self._pauses.pause()
        while self.failure is None:
            try:
                link = await self._servers.leading_link(Deadline(CALL_TIMEOUT_S))
            except IthacaError:
                self._servers.leader = None
                await self._pauses.pause()
            else:
                self._link = link
                self.durability = link.durability
                link.use(self)
                self._go_on()
                return
