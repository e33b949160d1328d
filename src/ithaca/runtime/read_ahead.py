"""What was read and nobody has taken yet: batches at positions, decoded one at a time.

What is held is replaced as a whole, since Ctrl-C may come between any two steps of whoever iterates: an interrupted
step skips nothing.
"""

from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from ithaca.model.interface import Batch
from ithaca.model.limits import POLL_BYTES_MAX
from ithaca.model.records import Record


class Source(Protocol):
    """Where the batches come from."""

    @property
    def position(self) -> int:
        """Everything below was read."""

    def read(self) -> Sequence[Batch]:
        """The next batches; empty when there are none now, and when what was passed over had no match."""


SourceT = TypeVar("SourceT", bound=Source)


class Held(NamedTuple):
    """What was read and not yet taken."""

    records: list[Record]
    """Decoded, the next one last: whoever iterates pops from here first."""
    batch: Batch | None
    """What they were decoded from."""
    batches: list[Batch]
    """Behind them, not decoded, the next one last."""
    left: int
    """How many of those are not taken."""


_NOTHING = Held([], None, [], 0)


class ReadAhead(Generic[SourceT]):
    """Batches of a source on their way to whoever iterates."""

    def __init__(self, source: SourceT) -> None:
        self.source = source
        self.held = _NOTHING

    @property
    def is_empty(self) -> bool:
        """Whether everything that was read was taken."""
        return not self.held.records and not self.held.left

    @property
    def position(self) -> int:
        """The position from which on nothing has been taken."""
        records, _, batches, left = self.held
        if records:
            return records[-1].position
        return batches[left - 1].first_position if left else self.source.position

    def fill(self) -> bool:
        """Read the next chunk once everything was taken; False when there is nothing more to read now."""
        before = self.source.position
        self._hold([*reversed(self.source.read())])
        return self.source.position != before

    def next_batch(self) -> Batch | None:
        """Take the next batch, if one was read and not decoded."""
        if not self.held.left:
            return None
        return self._pop([], None)

    def decode(self) -> bool:
        """Decode the next batch; False when none was read."""
        _, _, batches, left = self.held
        if not left:
            return False
        batch = batches[left - 1]
        records = batch.records()
        records.reverse()
        self._pop(records, batch)
        return True

    def take(self, count: int, read_on: Callable[[], bool] = lambda: False) -> list[Record]:
        """Up to `count` records of those that were read, and of what `read_on` reads once there were some.

        It ends before that once it has decoded `POLL_BYTES_MAX`.
        """
        taken: list[Record] = []
        size = 0
        while count > len(taken):
            if not self.held.records:
                if size >= POLL_BYTES_MAX or not (self.held.left or (taken and read_on())):
                    break
                if self.decode():
                    assert self.held.batch is not None
                    size += self.held.batch.raw_bytes
            missing = count - len(taken)
            taken += self.held.records[: -missing - 1 : -1]
            del self.held.records[-missing:]
        return taken

    def take_batches(self) -> list[Batch]:
        """Everything that was read."""
        self.rewind()
        (_, _, batches, left), self.held = self.held, _NOTHING
        return batches[:left][::-1]

    def rewind(self) -> None:
        """Turn the decoded records that were not taken into a batch again."""
        records, batch, batches, left = self.held
        if records:
            assert batch is not None
            self._hold([*batches[:left], batch.since(records[-1].position)])

    def _hold(self, batches: list[Batch]) -> None:
        self.held = Held([], None, batches, len(batches))

    def _pop(self, records: list[Record], batch: Batch | None) -> Batch:
        """Take the next batch, of which these records are held."""
        batches, left = self.held.batches, self.held.left - 1
        taken = batches[left]
        self.held = Held(records, batch, batches, left)
        del batches[left:]  # not before, and else at the next step
        return taken
