"""What a task has applied and not published: the pure rule of when to publish and what to undo."""

from collections import deque
from typing import Generic, NamedTuple, TypeVar

from ithaca.model.records import Record

State = TypeVar("State")


class Applied(NamedTuple, Generic[State]):
    """A record, and what `apply` returned for it."""

    record: Record
    state: State


class Ledger(Generic[State]):
    """Applied records, oldest first. The log holds back what would go too far ahead, and so bounds their number.

    >>> ledger: Ledger[str] = Ledger(position=1)
    >>> for at in (1, 2, 3):
    ...     ledger.add(Record(position=at, value=b"", key=None, timestamp_us=0, shard=0), f"before {at}")
    >>> ledger.confirm(1)
    >>> ledger.fail(1)
    >>> [taken.state for taken in iter(ledger.take_undone, None)]
    ['before 3', 'before 2']
    >>> ledger.ready().state, ledger.position
    ('before 1', 1)
    >>> ledger.publish()
    >>> ledger.ready(), ledger.position
    (None, 2)
    """

    def __init__(self, position: int) -> None:
        self.position = position
        """Everything below was published, or holds nothing for this task: start here again."""
        self._confirmed = position - 1
        """Everything up to here is final."""
        self._failed_after: int | None = None
        """What is behind it has to be undone."""
        self._applied: deque[Applied[State]] = deque()

    def add(self, record: Record, state: State) -> None:
        """A record was delivered and applied."""
        assert record.position >= self.position
        assert not self._applied or record.position > self._applied[-1].record.position
        assert record.position > self._confirmed
        self._applied.append(Applied(record, state))

    def confirm(self, up_to: int) -> None:
        """Everything up to there is final."""
        assert up_to >= self._confirmed
        self._confirmed = up_to
        self._settle()

    def ready(self) -> Applied[State] | None:
        """The next to publish."""
        if self._applied and self._applied[0].record.position <= self._confirmed:
            return self._applied[0]
        return None

    def publish(self) -> None:
        """The one that was ready is published."""
        self.position = self._applied.popleft().record.position + 1
        self._settle()

    def fail(self, after: int) -> None:
        """What was applied behind there is wrong; nothing that was confirmed is."""
        assert after >= self._confirmed
        self._failed_after = after

    def give_up(self, *, published: bool) -> None:
        """The task ends: all that is not published has to be undone; `published`: whether the one that was ready is."""
        if published and self.ready() is not None:
            self.publish()
        self._failed_after = self.position - 1

    def forget(self) -> None:
        """Nothing more can be undone: what is left cannot be told from what is right."""
        self._applied.clear()

    def take_undone(self) -> Applied[State] | None:
        """The next one to undo, newest first; None when nothing is left of a failure."""
        if self._failed_after is not None:
            if self._applied and self._applied[-1].record.position > self._failed_after:
                return self._applied.pop()
            self._failed_after = None
        return None

    def _settle(self) -> None:
        if not self._applied or self._applied[0].record.position > self._confirmed:
            self.position = max(self.position, self._confirmed + 1)
