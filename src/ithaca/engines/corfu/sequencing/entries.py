"""What a row holds: a batch of a session, or junk."""

from dataclasses import dataclass, field

from ithaca.wire.batch import Batch


@dataclass(frozen=True, slots=True)
class Stamp:
    """Which batch it is. A handle of a session sends other bytes under other numbers, so equal stamps are equal
    bytes.
    """

    producer: int
    epoch: int
    """Of the session."""
    first_seq: int
    count: int
    crc: int
    """`body_crc` of the batch."""


@dataclass(frozen=True, slots=True)
class Entry:
    """The content of a row; `stamp` None is junk. Two are equal if they are the same batch, or both junk."""

    stamp: Stamp | None
    time_us: int = field(default=0, compare=False)
    """The order's time, which came with the token."""
    batch: Batch | None = field(default=None, compare=False, repr=False)
    """None for junk, and in models, where a stamp says it all."""

    @property
    def is_junk(self) -> bool:
        return self.stamp is None


JUNK = Entry(None)


def entry_of(batch: Batch, time_us: int) -> Entry:
    """The entry of a batch that got a token with this time."""
    stamp = Stamp(batch.producer_id, batch.producer_epoch, batch.first_seq, batch.count, batch.body_crc)
    return Entry(stamp, time_us, batch)
