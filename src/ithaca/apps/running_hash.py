"""How those who read the same log compare what they saw: one digest, in the order in which it came."""

from hashlib import blake2b

from ithaca.model.records import Record


class RunningHash:
    """A digest over positions and values.

    >>> one, other = RunningHash(), RunningHash()
    >>> one.add([Record(1, b"a", None, 0, 0)])
    >>> one.hexdigest() == other.hexdigest()
    False
    """

    def __init__(self) -> None:
        self._hash = blake2b(digest_size=16)

    def add(self, records: list[Record]) -> None:
        """Records as they came, a chunk at a time; how they are cut into chunks does not matter."""
        self._hash.update(b"".join([record.position.to_bytes(8, "big") + record.value for record in records]))

    def hexdigest(self) -> str:
        return self._hash.hexdigest()
