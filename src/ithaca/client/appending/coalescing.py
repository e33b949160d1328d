"""Appends that wait to be sent through one session: records are gathered into batches while others are in flight.

At most `COALESCED_BATCHES_INFLIGHT` batches that are not full are in flight; beyond that a batch waits to be full.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

from ithaca.client.appending.outgoing import numbered
from ithaca.client.intake import RecordSlot, Slot
from ithaca.model.limits import COALESCE_BYTES_MAX, COALESCED_BATCHES_INFLIGHT
from ithaca.model.records import Compression, Durability, Receipt
from ithaca.runtime.machine import wall_us
from ithaca.wire.batch import Batch
from ithaca.wire.build import build, record_bytes


class Single(NamedTuple):
    """One record."""

    value: bytes
    key: bytes | None
    slot: Slot
    shard: int | None = None
    """Where it must go, whatever else decides on that."""

    @property
    def size_bytes(self) -> int:
        """What it counts for while it is under way."""
        return record_bytes(self.value, self.key)

    @property
    def records(self) -> int:
        return 1


class Whole(NamedTuple):
    """One atomic batch."""

    batch: Batch
    slot: Slot

    @property
    def size_bytes(self) -> int:
        """What it counts for while it is under way."""
        return self.batch.total_bytes

    @property
    def records(self) -> int:
        return self.batch.count


Waiting = Single | RecordSlot | Whole
Numbers = Callable[[int], tuple[int, int, int]]
"""Takes the next so many numbers of a session: producer, epoch, first number."""


class Cut(NamedTuple):
    """Appends that travel in one batch, and what they count for."""

    batch: Batch
    appends: Sequence[Waiting]
    size_bytes: int


class WaitingAppends:
    """What waits, in the order in which it came."""

    def __init__(self, compression: Compression) -> None:
        self._compression: Compression = compression
        self._waiting: deque[Waiting] = deque()
        self._bytes = 0
        self._wholes = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, waiting: Waiting) -> None:
        self._waiting.append(waiting)
        self._bytes += waiting.size_bytes
        self._wholes += isinstance(waiting, Whole)

    def add_all(self, run: Sequence[RecordSlot]) -> None:
        self._waiting.extend(run)
        self._bytes += sum([each.size_bytes for each in run])

    def take_all(self) -> list[Waiting]:
        """What was not sent yet, to be sent elsewhere or refused."""
        waiting, self._waiting, self._bytes, self._wholes = list(self._waiting), deque(), 0, 0
        return waiting

    def take_answered(self) -> list[Waiting]:
        """Those that nobody waits for any more."""
        answered = [each for each in self._waiting if each.slot.done()]
        for waiting in answered:
            self._waiting.remove(waiting)
            self._bytes -= waiting.size_bytes
            self._wholes -= isinstance(waiting, Whole)
        return answered

    def cut(self, inflight: int, numbers: Numbers) -> Cut | None:
        """The next batch, beside so many that are in flight; None when it waits to be full, or nothing is there."""
        if not self._waiting:
            return None
        head = self._waiting[0]
        if isinstance(head, Whole):
            self._waiting.popleft()
            self._bytes -= head.size_bytes
            self._wholes -= 1
            return Cut(numbered(head.batch, numbers(head.batch.count)), [head], head.size_bytes)
        if inflight < COALESCED_BATCHES_INFLIGHT or self._bytes >= COALESCE_BYTES_MAX:
            return self._cut_singles(numbers)
        return None

    def _cut_singles(self, numbers: Numbers) -> Cut:
        gathered, size = self._gather()
        self._bytes -= size
        keys = [each.key for each in gathered]
        batch = build(
            [each.value for each in gathered],
            keys if keys.count(None) < len(keys) else None,
            timestamp_us=wall_us(),
            compress=self._compression,
            producer=numbers(len(gathered)),
        )
        return Cut(batch, gathered, size)

    def _gather(self) -> tuple[list[Single | RecordSlot], int]:
        """Records for one batch, and what they count for."""
        waiting, size = self._waiting, 0
        gathered: list[Single | RecordSlot] = []
        if not self._wholes and self._bytes <= COALESCE_BYTES_MAX:
            gathered = cast("list[Single | RecordSlot]", list(waiting))
            waiting.clear()
            return gathered, self._bytes
        while waiting:
            head = waiting[0]
            if isinstance(head, Whole):
                break
            head_bytes = head.size_bytes
            if gathered and size + head_bytes > COALESCE_BYTES_MAX:
                break
            waiting.popleft()
            size += head_bytes
            gathered.append(head)
        return gathered, size


def answer(appends: Sequence[Waiting], position: int, shard: int, durability: Durability) -> None:
    """These, which travelled in one batch, are in the log from this position on."""
    first = appends[0]
    if isinstance(first, RecordSlot) and len(set(map(type, appends))) == 1:
        first.set_results(cast(Sequence[RecordSlot], appends), position, shard, durability)
        return
    for waiting in appends:
        count = waiting.records
        if not waiting.slot.done():
            waiting.slot.set_result(Receipt(position, count, shard, durability))
        position += count
