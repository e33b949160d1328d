"""A batch on its way: its bytes never change, so that a retry is told from a new batch."""

from typing import Protocol

from ithaca.model.errors import IthacaError, unknown_copy
from ithaca.wire.batch import Batch, sealed


class Waiter(Protocol):
    """Who waits for a batch."""

    def settled(self, outcome: int | IthacaError, shard: int) -> None:
        """The position of its first record, or why it has none; and the shard."""


def numbered(batch: Batch, producer: tuple[int, int, int]) -> Batch:
    """The same batch with its producer's id, epoch and number of the first record."""
    return sealed(batch.kind, batch.flags, batch.count, batch.timestamp_us, producer, batch.pieces, batch.raw_bytes)


def certain(error: IthacaError, outgoing: "Outgoing", refused: "Outgoing | None") -> IthacaError:
    """What a batch failed with: it certainly did if it was never sent, or only once and that was refused."""
    certainly = not outgoing.sends or (outgoing is refused and outgoing.sends == 1)
    return error if certainly or error.outcome_unknown else unknown_copy(error)


class Outgoing:
    """A numbered batch, and who is told its position or why it has none."""

    __slots__ = ("batch", "correlation", "is_held", "sends", "waiter")

    def __init__(self, batch: Batch, waiter: Waiter) -> None:
        self.batch = batch
        self.waiter = waiter
        self.correlation = 0
        """Of the request that is under way; 0 when none is."""
        self.sends = 0
        self.is_held = False
        """Whether it is sent again only once everything before it is settled."""
