"""The state machine of a store: what a multi-put, a test and a transaction do, decided by the order of the log. Pure.

One command holds all keys of an operation, so that it is atomic wherever it stands. A test compares values, and a
transaction the positions that gave the keys it has read: who stands first in the log wins, on every replica alike.
"""

from typing import Final

import msgspec

from ithaca.model.decoding import UNDECODABLE
from ithaca.model.errors import Corrupt
from ithaca.objects.context import current
from ithaca.objects.store_tables import Entry, MemoryTable, Table
from ithaca.wire.batch import crc32c

KIND: Final = "ithaca.Store"
Writes = dict[bytes, bytes | None]
"""What is put, by key; None deletes."""

_ENTRIES: Final = msgspec.msgpack.Decoder(list[tuple[bytes, bytes, int]])
_MASK: Final = (1 << 64) - 1
_MIX: Final = 0x9E3779B97F4A7C15


class Scan(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a transaction saw under a prefix: how many keys, and the newest position among them."""

    prefix: bytes
    count: int
    position: int


class StoreState:
    """Keys and values. Its public methods are the commands of a store."""

    def __init__(self, table: Table | None = None) -> None:
        self._table: Table = MemoryTable() if table is None else table
        kept = self._table.kept()
        self._digest = 0 if kept is None else kept[1]

    # Commands

    def put(self, writes: Writes) -> int:
        """Put all of it; returns where it stands in the log."""
        return self._put(writes)

    def test_and_put(self, expected: Writes, writes: Writes) -> int:
        """Put all of it if every expected key has the expected value, or none (None); returns the position, or 0."""
        for key, value in expected.items():
            entry = self._table.get(key)
            if (None if entry is None else entry.value) != value:
                return 0
        return self._put(writes)

    def commit(self, reads: dict[bytes, int], scans: list[Scan], writes: Writes) -> int:
        """Put all of it if nothing that was read has changed since; returns the position, or 0."""
        for key, position in reads.items():
            entry = self._table.get(key)
            if (0 if entry is None else entry.position) != position:
                return 0
        if any(self._scanned(scan.prefix) != scan for scan in scans):
            return 0
        return self._put(writes)

    def _put(self, writes: Writes) -> int:
        position = current().position
        for key, value in writes.items():
            self._forget(key)
            if value is None:
                self._table.delete(key)
            else:
                self._table.put(key, value, position)
                self._digest = (self._digest + _mixed(key, value, position)) & _MASK
        return position

    def _forget(self, key: bytes) -> None:
        old = self._table.get(key)
        if old is not None:
            self._digest = (self._digest - _mixed(key, old.value, old.position)) & _MASK

    def _scanned(self, prefix: bytes) -> Scan:
        count = position = 0
        for _, entry in self._table.scan(prefix):
            count += 1
            position = max(position, entry.position)
        return Scan(prefix, count, position)

    # As a state

    @property
    def _entries(self) -> Table:
        return self._table

    def to_snapshot(self) -> bytes:
        return msgspec.msgpack.encode([(key, value, at) for key, (value, at) in self._table.scan(b"")])

    @classmethod
    def from_snapshot(cls, data: bytes) -> "StoreState":
        try:
            entries = {key: Entry(value, position) for key, value, position in _ENTRIES.decode(data)}
        except UNDECODABLE as error:
            raise Corrupt(f"a snapshot of a store cannot be decoded: {error}") from error
        state = cls(MemoryTable(entries))
        for key, (value, position) in entries.items():
            state._digest = (state._digest + _mixed(key, value, position)) & _MASK
        return state

    def state_hash(self) -> bytes:
        return self._digest.to_bytes(8, "little") * 2

    def kept_head(self) -> bytes | None:
        kept = self._table.kept()
        return None if kept is None else kept[0]

    def keep(self, head: bytes) -> None:
        self._table.keep(head, self._digest)

    def release(self) -> None:
        self._table.release()


def table_of(state: StoreState) -> Table:
    """For those who read."""
    return state._entries


def scanned(state: StoreState, prefix: bytes) -> Scan:
    """What a transaction sees under a prefix."""
    return state._scanned(prefix)


def _mixed(key: bytes, value: bytes, position: int) -> int:
    """A number for an entry; a store's digest is their sum, whatever the order in which they came."""
    word: int = (crc32c(key) << 32 | crc32c(value)) ^ (position * _MIX & _MASK)
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    return word ^ word >> 27
