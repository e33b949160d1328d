"""One part under way: batches go to the replica that writes it, each again until it is synced there.

A batch names its place in the part, so that sending it twice is harmless, and some may be under way at once. Whether
the part is still there is known to the ordering layer alone: it is asked when the replica does not know it.
"""

import asyncio
from collections.abc import Callable

from ithaca.client.deadline import Deadline
from ithaca.client.engine_log import BuiltPart
from ithaca.engines.scalog.client.append.appends import Appends
from ithaca.engines.scalog.client.order import Order
from ithaca.engines.scalog.client.replicas import Replicas, find_replica
from ithaca.engines.scalog.messages.appending import AppendPart, PartSynced
from ithaca.engines.scalog.ordering.prepared.entries import AbortParts, PartName, RenewParts
from ithaca.engines.scalog.ordering.prepared.outcomes import PartsRenewed
from ithaca.model.errors import (
    DeadlineExceeded,
    InvalidInput,
    IthacaError,
    PartGone,
    ProtocolError,
    Unavailable,
    WrongLane,
)
from ithaca.model.limits import ATTEMPT_TIMEOUT_S, GROUP_BYTES_MAX, PART_BATCHES_INFLIGHT, PART_RENEWALS
from ithaca.model.parts import Part
from ithaca.model.positions import LaneId
from ithaca.model.records import Compression, Keys, Values
from ithaca.model.units import Duration, seconds
from ithaca.runtime.backoff import Backoff
from ithaca.runtime.machine import wall_us
from ithaca.wire.batch import Batch
from ithaca.wire.build import build


class AsyncPartWriter(BuiltPart):
    """A part that the ordering layer has opened for this handle."""

    def __init__(
        self,
        lane: LaneId,
        token: bytes,
        order: Order,
        replicas: Replicas,
        appends: Appends,
        *,
        compression: Compression,
        timeout_s: float,
        ttl_s: float,
        check: Callable[[], None],
    ) -> None:
        self.lane = lane
        self.ttl_s = ttl_s
        self._token = token
        self._order = order
        self._replicas = replicas
        self._appends = appends
        self._compression: Compression = compression
        self._timeout_s = timeout_s
        self._check = check
        self._clock = asyncio.get_running_loop().time
        self._opened_s = self._clock()
        self._length = 0
        self._sending: dict[asyncio.Task[None], int] = {}
        self._last: asyncio.Task[None] | None = None
        """Sends the newest batch."""
        self._failure: IthacaError | None = None
        self._part: Part | None = None
        self._is_over = False

    @property
    def length(self) -> int:
        return self._length

    @property
    def is_finished(self) -> bool:
        return self._part is not None

    @property
    def is_under_way(self) -> bool:
        """Whether more may be written: while that is so, it is kept from expiring."""
        return self._part is None and self._failure is None and not self._is_over

    @property
    def name(self) -> PartName:
        return self.lane, self._token

    async def append_many(self, values: Values, *, keys: Keys | None = None, timeout: Duration | None = None) -> None:
        self._check_open()
        timeout_s = self._timeout_s if timeout is None else seconds(timeout)
        batch = build(values, keys, timestamp_us=wall_us(), compress=self._compression)
        await self.send(batch, timeout_s)

    async def send(self, batch: Batch, timeout_s: float) -> None:
        """Send a batch that belongs to no producer, once there is room for it."""
        deadline = Deadline(timeout_s)
        if self._appends.under_way.inflight.is_full:
            await self._appends.under_way.inflight.wait_for_room()
        while self._is_busy(batch.total_bytes):
            await self._one_sent(deadline)
        self._check_open()
        self._appends.under_way.inflight.add(batch.total_bytes)
        before = self._last if self._last in self._sending else None
        self._last = task = asyncio.create_task(self._send(self._length, batch, deadline, before))
        self._sending[task] = batch.total_bytes
        task.add_done_callback(self._sent)
        self._length += batch.count

    async def finish(self, *, timeout: Duration | None = None) -> Part:
        if self._part is not None:
            return self._part
        deadline = Deadline(self._timeout_s if timeout is None else seconds(timeout))
        while self._sending:
            await self._one_sent(deadline)
        self._check_open()
        await self._order.finish_part(self.lane, self._token, self._length, deadline)
        if self._clock() - self._opened_s > self.ttl_s / PART_RENEWALS:  # what it waits from here on counts
            await renew_parts(self._order, (self.name,), self.ttl_s, deadline)
        self._part = Part(self.lane, self._length, self._token)
        return self._part

    async def abort(self) -> None:
        self._is_over = True
        await self._end_sending()
        await self._order.propose(AbortParts(((self.lane, self._token),)), Deadline(self._timeout_s))

    async def close(self) -> None:
        """The handle is closed: what is not finished expires."""
        self._is_over = True
        await self._end_sending()

    async def _one_sent(self, deadline: Deadline) -> None:
        """Wait until one of the batches under way is settled, however."""
        done, _ = await asyncio.wait(self._sending, timeout=deadline.left_s, return_when=asyncio.FIRST_COMPLETED)
        if not done:
            raise DeadlineExceeded(f"part {self.lane} was not written within {deadline.timeout_s:.3g} s")

    async def _end_sending(self) -> None:
        tasks = list(self._sending)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _is_busy(self, size: int) -> bool:
        if self._failure is not None or not self._sending:
            return False
        return len(self._sending) >= PART_BATCHES_INFLIGHT or sum(self._sending.values()) + size > GROUP_BYTES_MAX

    def _check_open(self) -> None:
        self._check()
        if self._failure is not None:
            raise self._failure
        if self._is_over or self._part is not None:
            raise InvalidInput(f"part {self.lane} was {'aborted' if self._part is None else 'finished'}: open another")

    def _sent(self, task: "asyncio.Task[None]") -> None:
        self._appends.settled(self._sending.pop(task))
        error = None if task.cancelled() else task.exception()
        if error is not None and self._failure is None:
            self._failure = error if isinstance(error, IthacaError) else Unavailable(f"part {self.lane}: {error!r}")
            for behind in self._sending:  # no replica takes it without the one that has failed
                behind.cancel()

    async def _send(self, lsn: int, batch: Batch, deadline: Deadline, before: "asyncio.Task[None] | None") -> None:
        """What was refused goes again behind what is `before` it: a replica takes nothing out of turn."""
        pauses, message = Backoff(), AppendPart(self.lane, self._token, lsn)
        while True:
            try:
                attempt_s = max(0.001, min(ATTEMPT_TIMEOUT_S, deadline.left_s))
                replica = find_replica(self._order.view, self.lane)
                if replica is None:
                    raise WrongLane(f"part {self.lane} has no replica any more")
                link = await self._replicas.link(replica.address)
                answer = (await link.request(message, attempt_s, batch.buffers())).message
                if not isinstance(answer, PartSynced):
                    raise ProtocolError(f"a replica answered AppendPart with {type(answer).__name__}")
                return
            except (WrongLane, Unavailable, ProtocolError) as error:
                if deadline.passed:
                    raise
                if before is not None and not before.done():
                    await asyncio.wait([before], timeout=max(0.0, deadline.left_s))
                    continue
                # Its replica may be gone, and have come back without it.
                if await self._order.part(self.lane, self._token, deadline) is None:
                    raise gone(self.lane) from error
            await pauses.pause(deadline)


async def renew_parts(order: Order, names: tuple[PartName, ...], ttl_s: float, deadline: Deadline) -> None:
    """Have parts expire so long from now; `PartGone` names those that are not there."""
    for outcome in await order.propose(RenewParts(names, int(ttl_s * 1e6)), deadline):
        if isinstance(outcome, PartsRenewed) and outcome.gone:
            raise gone(*outcome.gone)


def gone(*lanes: LaneId) -> PartGone:
    names = ", ".join(map(str, lanes))
    return PartGone(
        f"part {names} is not there any more: it was aborted, has expired, or its replica was started again before it "
        "was finished: prepare it again; nothing was published"
    )
