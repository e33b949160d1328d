"""Named sessions: the same number again gives the same receipt, whoever appended it."""

import asyncio
from collections.abc import Callable

from ithaca.engines.corfu.client.driving import Driver
from ithaca.engines.corfu.client.writers import NumberedWriter, append_as, shard_of
from ithaca.engines.corfu.sequencing.entries import Entry
from ithaca.engines.corfu.sequencing.flows.opening import OpenedSession
from ithaca.engines.corfu.sequencing.flows.reading import looked
from ithaca.engines.corfu.sequencing.placed import PlacedBatch
from ithaca.engines.corfu.sequencing.rows import first_position, row_of
from ithaca.model.errors import SessionFenced
from ithaca.model.interface import awaited
from ithaca.model.limits import SESSION_BATCHES_MAX
from ithaca.model.records import Compression, Durability, Keys, Receipt, Values
from ithaca.model.units import Duration, optional_seconds
from ithaca.runtime.checks import check_seq
from ithaca.runtime.futures import within
from ithaca.runtime.machine import wall_us
from ithaca.sessions.continuing import conflict, earlier
from ithaca.wire.batch import Batch
from ithaca.wire.build import build
from ithaca.wire.repeats import same_records


class CorfuSession(awaited.Session):
    """A session under the epoch at which this handle opened it. One batch of it is under way at a time."""

    def __init__(
        self,
        name: str,
        opened: OpenedSession,
        driver: Driver,
        *,
        compression: Compression,
        durability: Durability,
        check: Callable[[], None],
    ) -> None:
        self.name = name
        self.epoch = opened.writer.epoch
        self.placed: list[PlacedBatch] = list(opened.placed)
        """The last batches, in the order of their numbers."""
        self._writer = NumberedWriter(opened.writer, opened.next_seq)
        self._driver = driver
        self._compression: Compression = compression
        self._durability: Durability = durability
        self._check = check
        self._is_fenced = False
        self._turn = asyncio.Lock()
        self._appending: set[asyncio.Task[Receipt]] = set()

    @property
    def next_seq(self) -> int:
        return self._writer.next_seq

    async def append_many(
        self, values: Values, *, keys: Keys | None = None, seq: int | None = None, timeout: Duration | None = None
    ) -> Receipt:
        timeout_s = optional_seconds(timeout)
        self._check()
        if seq is not None:
            check_seq(seq)
        batch = build(values, keys, timestamp_us=wall_us(), compress=self._compression)

        async def in_turn() -> Receipt:
            async with self._turn:
                if self._is_fenced:
                    raise self._fenced()
                first_seq = self.next_seq if seq is None else seq
                repeated = earlier(self, first_seq, batch.count)
                if repeated is not None:
                    await self._check_same(repeated, batch)
                    return Receipt(
                        first_position(repeated.row),
                        repeated.count,
                        shard_of(self._driver, repeated.row),
                        self._durability,
                    )
                try:
                    receipt = await append_as(self._driver, self._writer, batch, self._durability)
                except SessionFenced:
                    self._is_fenced = True
                    raise self._fenced() from None
                row = row_of(receipt.position)
                self.placed.append(PlacedBatch(first_seq, batch.count, row, self.epoch, 0))
                del self.placed[:-SESSION_BATCHES_MAX]
                return receipt

        task = asyncio.create_task(in_turn())  # goes on when whoever waits does not: the next one needs its outcome
        self._appending.add(task)
        task.add_done_callback(self._appending.discard)
        return await within(asyncio.shield(task), timeout_s)

    async def _check_same(self, repeated: PlacedBatch, batch: Batch) -> None:
        """`SequenceConflict` if other records are there; what was trimmed is known by nobody any more."""
        found = await self._driver.run(looked(self._driver.knowledge, repeated.row))
        if isinstance(found, Entry) and found.batch is not None and not same_records(found.batch, batch):
            raise conflict(self.name, repeated.first_seq, repeated.count)

    def _fenced(self) -> SessionFenced:
        return SessionFenced(
            f"session {self.name!r} was opened again; this handle has epoch {self.epoch} and may not append any more"
        )
