"""What was read and nobody has taken yet: batches at positions, decoded one at a time."""

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from ithaca.model.limits import POLL_BYTES_MAX
from ithaca.model.records import Record
from ithaca.wire.positioned import AnyPositioned


class Source(Protocol):
    """Where the batches come from."""

    @property
    def position(self) -> int:
        """Everything below was read."""

    def read(self) -> list[AnyPositioned]:
        """The next batches; empty when there are none now, and when what was passed over had no match."""


SourceT = TypeVar("SourceT", bound=Source)


class ReadAhead(Generic[SourceT]):
    """Batches of a source on their way to whoever iterates."""

    def __init__(self, source: SourceT) -> None:
        self.source = source
        self._batches: list[AnyPositioned] = []  # the next one last
        self._decoded: AnyPositioned | None = None
        self.records: list[Record] = []
        """Decoded and not yet taken, the next one last: whoever iterates pops from here first."""

    @property
    def position(self) -> int:
        """The position from which on nothing has been taken."""
        if self.records:
            return self.records[-1].position
        if self._batches:
            return self._batches[-1].first_position
        return self.source.position

    def fill(self) -> bool:
        """Read the next chunk once everything was taken; False when there is nothing more to read now."""
        before = self.source.position
        self._batches = self.source.read()
        self._batches.reverse()
        return self.source.position != before

    def next_batch(self) -> AnyPositioned | None:
        return self._batches.pop() if self._batches else None

    def decode(self) -> bool:
        """Decode the next batch into `records`; False when none was read."""
        if not self._batches:
            return False
        self._decoded = self._batches.pop()
        self.records = self._decoded.records()
        self.records.reverse()
        return True

    def take(self, count: int, read_on: Callable[[], bool] = lambda: False) -> list[Record]:
        """Up to `count` records of those that were read, and of what `read_on` reads once there were some.

        It ends before that once it has decoded `POLL_BYTES_MAX`.
        """
        taken: list[Record] = []
        size = 0
        while count > len(taken):
            if not self.records:
                if size >= POLL_BYTES_MAX or not (self._batches or (taken and read_on())):
                    break
                if self.decode():
                    assert self._decoded is not None
                    size += self._decoded.raw_bytes
            missing = count - len(taken)
            taken += self.records[: -missing - 1 : -1]
            del self.records[-missing:]
        return taken

    def rewind(self) -> None:
        """Turn the decoded records that were not taken into a batch again."""
        if self.records:
            assert self._decoded is not None
            self._batches.append(self._decoded.since(self.records[-1].position))
            self.records = []
