"""One producer: a session, its batches sent in order to the leader, and sent again until each is settled.

Numbers stay dense: a batch that was taken stays here until it is known to be in the log, or known never to be, however
long its caller waits. When the connection ends, or its server does not lead any more, the leader is looked for, and
everything that is not settled is sent to it again, in order, the same bytes. A session that was fenced or has expired
ends its producer: everything in it fails.
"""

import asyncio
from collections.abc import Callable

from ithaca.client.appending.outgoing import Outgoing
from ithaca.client.appending.send_queue import Refusal, SendQueue
from ithaca.client.deadline import Deadline
from ithaca.engines.raft.client.links import Link
from ithaca.engines.raft.client.servers import Servers
from ithaca.engines.raft.messages import SessionIs
from ithaca.model.errors import Fenced, IthacaError, ProtocolError, StorageFull, Unavailable
from ithaca.model.limits import CALL_TIMEOUT_S
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
        self._on_room = has_room
        self._on_failed = failed
        self._queue = SendQueue(one_by_one=one_by_one)
        self._link: Link | None = None
        self._pauses = Backoff()
        self._is_troubled = False
        self._recovery: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        """Batches that are not settled."""
        return len(self._queue)

    @property
    def has_room(self) -> bool:
        return self.failure is None and self._queue.has_room

    def unsettled(self) -> list[tuple[int, int]]:
        """(first number, records) of the batches that are not settled, in order."""
        return self._queue.unsettled()

    def send(self, outgoing: Outgoing) -> None:
        """Take a batch; it is sent as soon as the window allows."""
        if self.failure is not None:
            outgoing.waiter.settled(self.failure, SHARD)
            return
        self._queue.put(outgoing)
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
        while (outgoing := self._queue.next_to_send()) is not None:
            outgoing.correlation = link.append(outgoing.batch, self)

    # What the link calls

    def acknowledged(self, correlation: int, position: int) -> None:
        index = self._queue.find(correlation)
        if index is not None:
            self._is_troubled = False
            self._pauses.reset()
            self._queue.settle(index, position, SHARD)
            self._go_on()

    def refused(self, correlation: int, error: IthacaError) -> None:
        index = self._queue.find(correlation)
        if index is None:
            return  # it was sent again since
        if isinstance(error, _LATER):
            if self._link is not None:
                self._servers.lost(self._link.address)
            self._is_troubled = True
            self._detach()
            self._start()
            return
        outgoing = self._queue[index]
        refusal = self._queue.refuse(index, error, SHARD)
        if refusal is Refusal.SETTLED:
            self._go_on()
        elif refusal is Refusal.ENDS and self.failure is None:
            self._end(error, outgoing)
            self._on_failed()

    def lost(self, link: Link) -> None:
        if link is self._link:
            self._servers.lost(link.address)
            self._detach()
            if self._queue:
                self._start()

    def _go_on(self) -> None:
        self._pump()
        self._on_room()

    def _detach(self) -> None:
        if self._link is not None:
            self._link.leave(self)
            self._link = None
        self._queue.unsend()

    def _end(self, error: IthacaError, refused: Outgoing | None = None) -> None:
        """Fail everything; `refused` is the batch that the error is the answer to."""
        self.failure = self.failure or error
        self._detach()
        self._queue.fail(error, refused, SHARD)

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
