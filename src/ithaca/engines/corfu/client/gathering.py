"""Single records that wait for a writer together become one batch."""

from ithaca.client.intake import Slot
from ithaca.engines.corfu.sequencing.limits import GATHER_BYTES_MAX, GATHER_RECORDS_MAX
from ithaca.model.records import Compression, Receipt
from ithaca.runtime.machine import wall_us
from ithaca.wire.batch import Batch
from ithaca.wire.build import build, record_bytes


class Gathered:
    """Records in the order in which they came, until their batch is made."""

    def __init__(self, compression: Compression) -> None:
        self._compression: Compression = compression
        self._values: list[bytes] = []
        self._keys: list[bytes | None] = []
        self._slots: list[Slot] = []
        self.size_bytes = 0
        self.is_closed = False
        """Whether nothing more may be added."""

    def add(self, value: bytes, key: bytes | None, slot: Slot) -> int:
        """Takes a record; how many bytes it counts for."""
        size = record_bytes(value, key)
        self._values.append(value)
        self._keys.append(key)
        self._slots.append(slot)
        self.size_bytes += size
        self.is_closed = self.size_bytes >= GATHER_BYTES_MAX or len(self._values) >= GATHER_RECORDS_MAX
        return size

    def make(self) -> Batch:
        """The batch of all of them; nothing is added any more."""
        self.is_closed = True
        keys = self._keys if any(key is not None for key in self._keys) else None
        return build(self._values, keys, timestamp_us=wall_us(), compress=self._compression)

    def is_answered(self) -> bool:
        """Whether nobody waits for any of them."""
        return all(slot.done() for slot in self._slots)

    def done(self, receipt: Receipt) -> None:
        """Tell everybody where its record is."""
        for at, slot in enumerate(self._slots):
            if not slot.done():
                slot.set_result(Receipt(receipt.position + at, 1, receipt.shard, receipt.durability))

    def failed(self, error: BaseException) -> None:
        for slot in self._slots:
            if not slot.done():
                slot.set_exception(error)
