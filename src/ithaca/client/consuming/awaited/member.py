"""The handle of a member of a group, awaited: it asks which parts are its own, and hands out their records."""

from collections.abc import Iterable
from contextlib import suppress
from types import TracebackType
from typing import NamedTuple

from ithaca.client.consuming.awaited.lagging import lag_of
from ithaca.client.consuming.awaited.transaction import PartTransaction
from ithaca.client.consuming.awaited.waiting import pause
from ithaca.client.consuming.committing import CommitRule
from ithaca.client.consuming.held_parts import HeldParts
from ithaca.client.consuming.known import checked_commit, new_owner, own_label, trimmed_error
from ithaca.consumers.limits import GROUP_BEAT_S, GROUP_BEAT_SOON_S, GROUP_LEAVE_S, GROUP_SURE
from ithaca.model.consumers import (
    CommitPosition,
    ConsumerRefused,
    Lag,
    OpenGroupPart,
    PartStands,
    refusal_error,
)
from ithaca.model.errors import ConsumerFenced, IthacaError, LogClosed, Trimmed, Unavailable
from ithaca.model.groups import GroupBeat, GroupTold
from ithaca.model.interface.awaited.consumers import Consumer, PartsChanged
from ithaca.model.interface.awaited.log import Log
from ithaca.model.interface.awaited.records import Subscription
from ithaca.model.limits import GROUP_LEASE_S, POLL_RECORDS_MAX
from ithaca.model.records import KeyFilter, Record
from ithaca.model.units import Duration, optional_seconds
from ithaca.runtime.checks import check_max_records, check_position
from ithaca.runtime.machine import monotonic_s


class Membership(NamedTuple):
    """How somebody takes part in a group."""

    lease_s: float = GROUP_LEASE_S
    on_assigned: PartsChanged | None = None
    on_revoked: PartsChanged | None = None


class GroupHandle(Consumer):
    """`Log.consumer` with `group`.

    Whoever asks for the next record has processed those before it. So what was asked back is committed there, if the
    handle commits by itself, and handed over; else when its user commits.
    """

    def __init__(
        self,
        log: Log,
        parts: HeldParts,
        membership: Membership,
        where: KeyFilter | None,
        rule: CommitRule,
        *,
        is_dense: bool,
    ) -> None:
        self.name = parts.name
        self._log = log
        self._parts = parts
        self._membership = membership
        self._where = where
        self._rule = rule
        self._is_dense = is_dense
        self._member = new_owner()
        self._label = own_label()
        self._number = 0
        self._beat_at_s = 0.0
        self._sure_until_s = 0.0
        """Until then nobody else is given the parts that it has, whatever it hears."""
        self._records: Subscription | None = None
        self._fetched: list[Record] = []
        """What is handed out next, last first."""
        self._fetched_to = 1
        """Where reading is, once these are handed out."""
        self._is_closed = False

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else "open"
        return f"<ithaca.Consumer of group {self.name!r} with parts {list(self.parts)} of {self._parts.count}, {state}>"

    @property
    def parts(self) -> tuple[int, ...]:
        return self._parts.numbers

    @property
    def position(self) -> int:
        return self._parts.position

    @property
    def committed(self) -> int:
        return self._parts.committed

    @property
    def epoch(self) -> int:
        return self._parts.epoch

    @property
    def standing(self) -> tuple[PartStands, ...]:
        """Where each of its parts is: behind what was handed out of it."""
        return self._parts.standing

    def commits(self, position: int) -> tuple[CommitPosition, ...]:
        check_position(position)
        return self._parts.commits(position)

    # Records

    async def __anext__(self) -> Record:
        try:
            await self._wait(None, POLL_RECORDS_MAX)
        except LogClosed:
            if not self._is_closed:
                raise
            raise StopAsyncIteration from None
        return self._taken(1)[0]

    async def poll(self, timeout: Duration | None = 0, max_records: int = POLL_RECORDS_MAX) -> list[Record]:
        timeout_s = optional_seconds(timeout)
        check_max_records(max_records)
        await self._wait(timeout_s, max_records)
        return self._taken(max_records)

    def _taken(self, count: int) -> list[Record]:
        """Hand out so many of what was fetched."""
        count = min(count, len(self._fetched))
        if not count:
            return []
        records = self._fetched[: -count - 1 : -1]
        del self._fetched[len(self._fetched) - count :]
        self._parts.frontier = records[-1].position + 1 if self._fetched else self._fetched_to
        if self._rule.is_set:
            self._rule.handed_out(count, monotonic_s())
        return records

    async def _wait(self, timeout_s: float | None, max_records: int) -> None:
        """Have something to hand out, if it comes in time; what is due is done meanwhile."""
        until_s = None if timeout_s is None else monotonic_s() + timeout_s
        is_over = False
        while True:
            await self._keep_up()
            if self._fetched or is_over:
                return
            now_s = monotonic_s()
            waits_s = [self._beat_at_s - now_s]
            if until_s is not None:
                waits_s.append(until_s - now_s)
                is_over = until_s - now_s <= 0
            due_s = self._rule.due_in_s(now_s)
            if due_s is not None:
                waits_s.append(due_s)
            await self._fetch(max(0.0, min(waits_s)), max_records)
            is_over = is_over or (until_s is not None and monotonic_s() >= until_s)

    async def _fetch(self, wait_s: float, max_records: int) -> None:
        start = self._parts.start
        if start is None:
            await pause(wait_s)
            return
        if self._records is None:
            try:
                self._records = await self._log.subscribe(start, where=self._where).__aenter__()
            except Trimmed as error:
                raise trimmed_error(self.name, start, error) from error
        records = await self._records.poll(wait_s, max_records)
        if records:
            self._fetched = self._parts.selected(records)[::-1]
            self._fetched_to = records[-1].position + 1
            if not self._fetched:
                self._parts.frontier = self._fetched_to

    async def _read_again(self) -> None:
        """What is read is not what it has any more."""
        self._fetched = []
        records, self._records = self._records, None
        if records is not None:
            await records.close()

    # Being a member

    async def _keep_up(self) -> None:
        """Ask which parts are its own, and commit, where that is due. Everything that was handed out is processed."""
        if self._is_closed:
            raise LogClosed(f"the handle of group {self.name!r} was closed: open it again")
        if self._rule.is_due(monotonic_s()):
            await self._commit_by_itself()
        # Last, since nothing is awaited then before a record is handed out.
        while monotonic_s() >= min(self._beat_at_s, self._sure_until_s):
            await self._beat()

    async def join(self) -> None:
        """Be a member from now on."""
        await self._beat()

    async def _beat(self) -> None:
        sent_s = monotonic_s()
        left_s = self._sure_until_s - sent_s
        self._number += 1
        try:
            told = await self._log.beat_group(self._said(), timeout=min(left_s, GROUP_BEAT_S) if left_s > 0 else None)
            self._sure_until_s = sent_s + GROUP_SURE * min(self._membership.lease_s, GROUP_LEASE_S)
            self._beat_at_s = monotonic_s() + min(told.again_ms / 1000, self._membership.lease_s / 4)
            await self._follow(told)
        except Unavailable:
            if monotonic_s() >= self._sure_until_s:
                raise
            self._beat_at_s = monotonic_s() + GROUP_BEAT_SOON_S

    def _said(self, *, is_leaving: bool = False) -> GroupBeat:
        lease_ms = round(self._membership.lease_s * 1000)
        return GroupBeat(self.name, self._member, self._number, self.parts, lease_ms, is_leaving, self._label)

    async def _follow(self, told: GroupTold) -> None:
        granted, asked_back, held = set(told.granted), set(told.asked_back), set(self.parts)
        await self._lose(held - granted - asked_back)
        if back := (asked_back & held) - self._parts.leaving:
            self._parts.leave(back)
            self._fetched = self._parts.selected(self._fetched)
            await self._revoked(back)
        if stays := granted & self._parts.leaving:
            self._parts.stay(stays)
            await self._read_again()
        if self._parts.leaving and self._rule.is_set and not self._parts.leaving <= self._parts.finished:
            await self._commit_by_itself()
        self._hand_over()
        if new := granted - set(self.parts):
            await self._open(sorted(new))

    async def _open(self, numbers: list[int]) -> None:
        commands = tuple(OpenGroupPart(self.name, number, self._member) for number in numbers)
        outcomes = await self._log.change_consumers(commands)
        for outcome in outcomes:
            if isinstance(outcome, ConsumerRefused):
                raise refusal_error(outcome)
        self._parts.opened(outcome for outcome in outcomes if isinstance(outcome, PartStands))
        await self._read_again()
        if self._membership.on_assigned is not None:
            await self._membership.on_assigned(tuple(numbers))

    async def _lose(self, numbers: Iterable[int], *, is_known: bool = False) -> None:
        """These are another's."""
        lost = sorted(set(numbers) & set(self.parts))
        if lost:
            self._parts.drop(lost, is_known=is_known)
            self._fetched = self._parts.selected(self._fetched)
            await self._revoked(lost)

    async def _revoked(self, numbers: Iterable[int]) -> None:
        if self._membership.on_revoked is not None:
            await self._membership.on_revoked(tuple(sorted(numbers)))

    def _hand_over(self) -> None:
        """What was asked back and is finished is not its own any more, which is said at once."""
        finished = self._parts.finished
        if finished:
            self._parts.drop(finished)
            self._beat_at_s = 0.0

    # Commits

    async def commit(self, position: int | None = None, *, timeout: Duration | None = None) -> int:
        timeout_s = optional_seconds(timeout)
        if position is not None:
            checked_commit(self.name, position, self.position)
        commits = self._parts.commits(position)
        if commits:
            outcomes = await self._log.change_consumers(commits, timeout=timeout_s)
            if position is None or position == self.position:
                self._rule.committed()
            refused = self._parts.settled(commits, outcomes)
            self._hand_over()
            if refused:
                await self._lose(self._parts.among(refused), is_known=True)
                raise ConsumerFenced(
                    f"parts {sorted({each.part for each in refused})} of group {self.name!r} are another member's, or "
                    "were reset: what was handed out of them comes again there; the rest is committed, and this member "
                    "goes on"
                )
        return self.committed

    async def _commit_by_itself(self) -> None:
        with suppress(ConsumerFenced):  # on_revoked has said so, and whoever has the parts now goes on with them
            await self.commit()

    def transaction(self) -> PartTransaction:
        return PartTransaction(self._log, self, self._moved, self._undone)

    def _moved(self, position: int) -> None:
        """The position was committed with a transaction."""
        commits = self._parts.commits(position)
        self._parts.settled(commits, [PartStands(self.name, each.part, each.epoch, each.position) for each in commits])
        self._rule.committed()
        self._hand_over()

    async def _undone(self, is_certain: bool) -> None:
        """A transaction was not published, or perhaps it was: come back as another member, which fences this one, so
        that it is certain then what was. All that was not committed comes again.
        """
        gone = self.parts
        self._parts.clear()
        self._rule.committed()
        await self._read_again()
        await self._leave()
        self._member, self._number = new_owner(), 0
        self._beat_at_s = self._sure_until_s = 0.0
        if gone:
            await self._revoked(gone)

    async def lag(self) -> Lag:
        start = self._parts.start
        tail = await self._log.tail()
        return await lag_of(self._log, tail if start is None else start, tail, is_dense=self._is_dense)

    # The end

    async def _leave(self) -> None:
        self._number += 1
        with suppress(IthacaError):  # else its parts are free when its lease ends
            await self._log.beat_group(self._said(is_leaving=True), timeout=GROUP_LEAVE_S)

    async def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        await self._read_again()
        await self._leave()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        try:
            if error is None and self._rule.is_set and not self._is_closed:
                await self._commit_by_itself()
        finally:
            await self.close()
