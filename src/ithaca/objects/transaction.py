"""A transaction as it is being made: what it has read, at which positions, and what it wants to write. Pure."""

from ithaca.model.errors import InvalidInput
from ithaca.objects.limits import STORE_KEY_BYTES_MAX
from ithaca.objects.store_state import Scan, StoreState, Writes, scanned, table_of


class Transaction:
    """What the function given to `transact` reads and writes; all of it sees one position, and its own writes.

    >>> from ithaca.objects.store_state import StoreState
    >>> transaction = Transaction(StoreState())
    >>> transaction.put(b"a", b"1")
    >>> transaction.get(b"a"), transaction.get(b"b")
    (b'1', None)
    """

    def __init__(self, state: StoreState) -> None:
        self._state = state
        self.reads: dict[bytes, int] = {}
        self.scans: list[Scan] = []
        self.writes: Writes = {}

    def get(self, key: bytes) -> bytes | None:
        """The value of a key, or None."""
        checked_key(key)
        if key in self.writes:
            return self.writes[key]
        entry = table_of(self._state).get(key)
        self.reads[key] = 0 if entry is None else entry.position
        return None if entry is None else entry.value

    def put(self, key: bytes, value: bytes) -> None:
        """Write a key when the transaction commits."""
        self.writes[checked_key(key)] = checked_value(value)

    def delete(self, key: bytes) -> None:
        """Have no such key from the commit on."""
        self.writes[checked_key(key)] = None

    def scan(self, prefix: bytes = b"") -> list[tuple[bytes, bytes]]:
        """The keys that begin so, with their values, in order; that there are no others is part of what was read."""
        self.scans.append(scanned(self._state, prefix))
        found = {key: entry.value for key, entry in table_of(self._state).scan(prefix)}
        for key, value in self.writes.items():
            if value is None:
                found.pop(key, None)
            elif key.startswith(prefix):
                found[key] = value
        return sorted(found.items())


def checked_key(key: bytes) -> bytes:
    if not isinstance(key, bytes) or len(key) > STORE_KEY_BYTES_MAX:
        raise InvalidInput(f"a key of a store is bytes, at most {STORE_KEY_BYTES_MAX} of them, not {key!r:.80}")
    return key


def checked_value(value: bytes) -> bytes:
    if not isinstance(value, bytes):
        raise InvalidInput(f"a value of a store is bytes, not {type(value).__name__}: encode it first")
    return value


def checked_writes(writes: Writes) -> Writes:
    """Keys and values of a multi-put."""
    if not isinstance(writes, dict):
        raise InvalidInput(f"keys and values are a dictionary, not {type(writes).__name__}")
    for key, value in writes.items():
        checked_key(key)
        if value is not None:
            checked_value(value)
    return writes
