"""Appends without waiting for each: what `ithaca append` does with its input."""

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ithaca.cli.output import emit, emit_json
from ithaca.model.limits import COMMAND_PENDING_MAX

if TYPE_CHECKING:
    from ithaca.model.interface import Log, Pending
    from ithaca.model.records import Receipt


@dataclass
class Producer:
    """Appends without waiting for each, at most `COMMAND_PENDING_MAX` at a time, and counts."""

    log: "Log"
    key: bytes | None
    key_separator: bytes | None
    batch_records: int
    each_receipt: bool
    as_json: bool
    records: int = 0
    value_bytes: int = 0
    first: int = 0
    last: int = 0
    _pending: "deque[tuple[Pending, int]]" = field(default_factory=deque)
    _values: list[bytes] = field(default_factory=list)
    _keys: list[bytes | None] = field(default_factory=list)

    def add(self, value: bytes) -> None:
        """Append one record, with the key that the options say."""
        key = self.key
        if self.key_separator is not None:
            head, separator, rest = value.partition(self.key_separator)
            if separator:
                key, value = head, rest
        if self.batch_records == 1:
            self._track(self.log.submit(value, key=key), len(value))
            return
        self._values.append(value)
        self._keys.append(key)
        if len(self._values) == self.batch_records:
            self._submit_batch()

    def settle(self) -> None:
        """Wait until everything added so far is acknowledged."""
        self._submit_batch()
        self.drain()

    def drain(self) -> None:
        """Wait for what is under way; a batch that is not full yet stays behind."""
        while self._pending:
            self._await_oldest()

    def _submit_batch(self) -> None:
        if self._values:
            values, keys, self._values, self._keys = self._values, self._keys, [], []
            self._track(self.log.submit_many(values, keys=keys), sum(map(len, values)))

    def _track(self, pending: "Pending", value_bytes: int) -> None:
        self._pending.append((pending, value_bytes))
        if len(self._pending) > COMMAND_PENDING_MAX:
            self._await_oldest()

    def _await_oldest(self) -> None:
        pending, value_bytes = self._pending.popleft()
        receipt = pending.result()
        self.records += receipt.count
        self.value_bytes += value_bytes
        self.first = self.first or receipt.position
        self.last = receipt.positions[-1]
        if self.each_receipt:
            print_receipt(receipt, self.as_json)


def print_receipt(receipt: "Receipt", as_json: bool) -> None:
    """The positions of one append."""
    if as_json:
        import msgspec

        emit_json(msgspec.to_builtins(receipt))
    else:
        emit("".join(f"{position}\n" for position in receipt.positions).encode())
