"""The batches of one session that are not settled: sent in order over the present link, and again over the next one.

The head of the queue is under way; what follows waits for the window. Numbers stay dense: a batch stays here until it
is known to be in the log, or known never to be.
"""

from collections import deque
from enum import Enum

from ithaca.client.appending.outgoing import Outgoing, certain
from ithaca.model.errors import IthacaError, SequenceGap, SessionExpired, SessionFenced
from ithaca.model.limits import SESSION_BATCHES_MAX


class Refusal(Enum):
    """What the refusal of a batch leads to."""

    HELD = "it is sent again once everything before it is settled"
    SETTLED = "it has failed alone"
    ENDS = "the session is at its end"


class SendQueue:
    """The queue of one producer; its shell sends, and says what came of it."""

    def __init__(self, *, one_by_one: bool) -> None:
        """`one_by_one`: a batch that is refused for good fails alone; else its session ends."""
        self.sent = 0
        """So many, from the head on, are under way over the present link."""
        self._one_by_one = one_by_one
        self._batches: deque[Outgoing] = deque()

    def __len__(self) -> int:
        """Batches that are not settled."""
        return len(self._batches)

    def __getitem__(self, index: int) -> Outgoing:
        return self._batches[index]

    @property
    def has_room(self) -> bool:
        return len(self._batches) < SESSION_BATCHES_MAX

    def unsettled(self) -> list[tuple[int, int]]:
        """(first number, records) of the batches that are not settled, in order."""
        return [(each.batch.first_seq, each.batch.count) for each in self._batches]

    def put(self, outgoing: Outgoing) -> None:
        self._batches.append(outgoing)

    def next_to_send(self) -> Outgoing | None:
        """Another one that may be sent now; it counts as sent."""
        if self.sent >= min(len(self._batches), SESSION_BATCHES_MAX):
            return None
        outgoing = self._batches[self.sent]
        if outgoing.is_held and self.sent > 0:
            return None
        outgoing.sends += 1
        self.sent += 1
        return outgoing

    def find(self, correlation: int) -> int | None:
        """Where in the queue a request's batch is; None when it is not the newest request for it."""
        for index in range(self.sent):
            if self._batches[index].correlation == correlation:
                return index
        return None

    def settle(self, index: int, outcome: int | IthacaError, shard: int) -> None:
        """A batch is in the log, or will never be: whoever waits for it is told."""
        outgoing = self._batches[index]
        del self._batches[index]
        if index < self.sent:
            self.sent -= 1
        outgoing.waiter.settled(outcome, shard)

    def refuse(self, index: int, error: IthacaError, shard: int) -> Refusal:
        """A batch was refused, and not because of where it was sent to."""
        outgoing = self._batches[index]
        if isinstance(error, SequenceGap) and index > 0:
            # It may have come before the one that it continues, which was refused or is still on its way.
            outgoing.is_held = True
            self.unsend(index)
            return Refusal.HELD
        if self._one_by_one and not isinstance(error, SessionExpired | SessionFenced):
            self.settle(index, certain(error, outgoing, outgoing), shard)
            return Refusal.SETTLED
        return Refusal.ENDS

    def unsend(self, start: int = 0) -> None:
        """Take everything from here on as not sent."""
        for index in range(start, self.sent):
            self._batches[index].correlation = 0
        self.sent = min(self.sent, start)

    def fail(self, error: IthacaError, refused: Outgoing | None, shard: int) -> None:
        """Everything fails; `refused` is the batch that the error is the answer to."""
        batches, self._batches = self._batches, deque()
        for outgoing in batches:
            outgoing.waiter.settled(certain(error, outgoing, refused), shard)
