"""The handle of a named consumer, awaited: a subscription, and the epoch under which it commits."""

from types import TracebackType

from ithaca.client.consuming.awaited.lagging import lag_of
from ithaca.client.consuming.awaited.transaction import PartTransaction
from ithaca.client.consuming.committing import CommitRule
from ithaca.client.consuming.known import checked_commit, trimmed_error
from ithaca.model.consumers import CommitPosition, ConsumerRefused, Lag, PartStands, refusal_error
from ithaca.model.errors import LogClosed, Trimmed
from ithaca.model.interface.awaited.consumers import Consumer
from ithaca.model.interface.awaited.log import Log
from ithaca.model.interface.awaited.records import Subscription
from ithaca.model.limits import POLL_RECORDS_MAX
from ithaca.model.records import KeyFilter, Record
from ithaca.model.units import Duration, optional_seconds
from ithaca.runtime.checks import check_max_records, check_position
from ithaca.runtime.machine import monotonic_s


class ConsumerHandle(Consumer):
    """`Log.consumer`."""

    def __init__(
        self, log: Log, opened: PartStands, where: KeyFilter | None, rule: CommitRule, *, is_dense: bool
    ) -> None:
        self.name = opened.name
        self._log = log
        self._epoch = opened.epoch
        self._position = self._committed = opened.position
        self._where = where
        self._rule = rule
        self._is_dense = is_dense
        self._records: Subscription | None = None
        self._fetched: list[Record] = []
        """What the next steps of the iteration hand out, last first."""
        self._is_closed = False
        self._is_uncertain = False
        """Whether a transaction failed that may have been published all the same."""

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else "open"
        return f"<ithaca.Consumer {self.name!r} at position {self._position}, committed {self._committed}, {state}>"

    @property
    def position(self) -> int:
        return self._position

    @property
    def committed(self) -> int:
        return self._committed

    async def __anext__(self) -> Record:
        if not self._fetched:
            try:
                self._fetched = (await self._fetch(None, POLL_RECORDS_MAX))[::-1]
            except LogClosed:
                if not self._is_closed:
                    raise
                raise StopAsyncIteration from None
        elif self._rule.is_set and self._rule.is_due(monotonic_s()):
            await self.commit()
        record = self._fetched.pop()
        self._hand_out(record, 1)
        return record

    async def poll(self, timeout: Duration | None = 0, max_records: int = POLL_RECORDS_MAX) -> list[Record]:
        timeout_s = optional_seconds(timeout)
        check_max_records(max_records)
        if self._fetched:
            if self._rule.is_due(monotonic_s()):
                await self.commit()
            count = min(max_records, len(self._fetched))
            records = self._fetched[: -count - 1 : -1] if count else []
            del self._fetched[len(self._fetched) - count :]
        else:
            records = await self._fetch(timeout_s, max_records)
        if records:
            self._hand_out(records[-1], len(records))
        return records

    def _hand_out(self, last: Record, count: int) -> None:
        self._position = last.position + 1
        if self._rule.is_set:
            self._rule.handed_out(count, monotonic_s())

    async def _fetch(self, timeout_s: float | None, max_records: int) -> list[Record]:
        """The next records, which are not handed out yet; what is due is committed meanwhile."""
        subscription = await self._subscription()
        until_s = None if timeout_s is None else monotonic_s() + timeout_s
        while True:
            now_s = monotonic_s()
            if self._rule.is_due(now_s):
                await self.commit()
            left_s = None if until_s is None else max(0.0, until_s - now_s)
            due_s = self._rule.due_in_s(now_s)
            wait_s = left_s if due_s is None else due_s if left_s is None else min(left_s, due_s)
            records = await subscription.poll(wait_s, max_records)
            if records or (until_s is not None and monotonic_s() >= until_s):
                return records

    async def _subscription(self) -> Subscription:
        if self._is_closed:
            raise LogClosed(f"the handle of consumer {self.name!r} was closed: open it again")
        if self._is_uncertain:
            raise LogClosed(
                f"a transaction of consumer {self.name!r} failed, and may have been published all the same: open the "
                "consumer again, which says where it is"
            )
        if self._records is None:
            try:
                self._records = await self._log.subscribe(self._position, where=self._where).__aenter__()
            except Trimmed as error:
                raise trimmed_error(self.name, self._position, error) from error
        return self._records

    async def commit(self, position: int | None = None, *, timeout: Duration | None = None) -> int:
        timeout_s = optional_seconds(timeout)
        if position is None:
            position = self._position
        else:
            checked_commit(self.name, position, self._position)
        (outcome,) = await self._log.change_consumers(self.commits(position), timeout=timeout_s)
        if isinstance(outcome, ConsumerRefused):
            raise refusal_error(outcome)
        assert isinstance(outcome, PartStands)
        self._committed = outcome.position
        if position == self._position:
            self._rule.committed()
        return outcome.position

    @property
    def epoch(self) -> int:
        return self._epoch

    @property
    def parts(self) -> tuple[int, ...]:
        return (0,)

    def commits(self, position: int) -> tuple[CommitPosition, ...]:
        check_position(position)
        return (CommitPosition(self.name, 0, self._epoch, position),)

    def transaction(self) -> PartTransaction:
        return PartTransaction(self._log, self, self._moved, self._undone)

    def _moved(self, position: int) -> None:
        """The position was committed with a transaction."""
        self._committed = max(self._committed, position)
        if position == self._position:
            self._rule.committed()

    async def _undone(self, is_certain: bool) -> None:
        """A transaction was not published: all that was not committed comes again. If perhaps it was, only opening the
        consumer again says so.
        """
        self._is_uncertain = not is_certain
        self._position = self._committed
        self._fetched = []
        self._rule.committed()
        records, self._records = self._records, None
        if records is not None:
            await records.close()

    async def lag(self) -> Lag:
        return await lag_of(self._log, self._position, await self._log.tail(), is_dense=self._is_dense)

    async def close(self) -> None:
        self._is_closed = True
        if self._records is not None:
            await self._records.close()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        try:
            if error is None and self._rule.is_set and self._position > self._committed and not self._is_closed:
                await self.commit()
        finally:
            await self.close()
