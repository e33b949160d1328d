"""What a log does for named consumers, awaited, when it can change them and tell which there are."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from ithaca.client.consuming.awaited.handle import ConsumerHandle
from ithaca.client.consuming.awaited.lagging import lag_of
from ithaca.client.consuming.awaited.member import GroupHandle, Membership
from ithaca.client.consuming.committing import CommitRule
from ithaca.client.consuming.held_parts import HeldParts
from ithaca.client.consuming.known import Known, info_of, new_owner
from ithaca.client.consuming.wanted import Wanted
from ithaca.consumers.limits import CONSUMER_RESETS_MAX
from ithaca.model.consumers import (
    ConsumerCommand,
    ConsumerInfo,
    ConsumerOutcome,
    ConsumerRefused,
    DeleteConsumer,
    GroupStands,
    Lag,
    MakeGroup,
    OpenConsumer,
    PartStands,
    ResetConsumer,
    check_consumer_name,
    refusal_error,
)
from ithaca.model.errors import InvalidInput, NoSuchConsumer, Trimmed
from ithaca.model.interface.awaited.consumers import PartsChanged
from ithaca.model.interface.awaited.log import Log
from ithaca.model.records import KeyFilter, Start
from ithaca.model.units import Duration
from ithaca.runtime.checks import check_start


async def open_consumer(
    log: Log, wanted: Wanted, on_assigned: PartsChanged | None, on_revoked: PartsChanged | None, *, is_dense: bool
) -> ConsumerHandle | GroupHandle:
    """Go on as this consumer, or become a member of this group, on a log that can change consumers."""
    name, start, where, rule, grouping = wanted
    at = await resolved(log, start)
    command = OpenConsumer(name, new_owner(), at) if grouping is None else MakeGroup(name, at, grouping.parts)
    (outcome,) = await log.change_consumers((command,))
    if isinstance(outcome, ConsumerRefused):
        raise refusal_error(outcome)
    if isinstance(outcome, PartStands):
        return ConsumerHandle(log, outcome, where, rule, is_dense=is_dense)
    assert isinstance(outcome, GroupStands)
    assert grouping is not None
    membership = Membership(grouping.lease_s, on_assigned, on_revoked)
    handle = GroupHandle(log, HeldParts(name, outcome.parts), membership, where, rule, is_dense=is_dense)
    await handle.join()
    return handle


async def resolved(log: Log, start: Start) -> int:
    """The position that is meant; `Trimmed` for one that is gone, `InvalidInput` for one behind the tail."""
    if start == "earliest":
        return await log.first()
    if start == "latest":
        return await log.tail()
    if not isinstance(start, int):
        async with log.subscribe(start) as records:
            return records.position
    first = await log.first()
    if start < first:
        raise Trimmed(f"position {start} was trimmed; the first one left is {first}", first=first)
    if start > first:
        tail = await log.tail()
        if start > tail:
            raise InvalidInput(f"a consumer cannot stand at {start}: the tail is {tail}")
    return start


class ConsumerBook(Log, ABC):
    """A log with named consumers."""

    @property
    @abstractmethod
    def has_dense_positions(self) -> bool:
        """Whether every position holds a record, so that those between two count records."""

    @abstractmethod
    async def known_consumers(self) -> Known:
        """All of them, as they were at some time after this call began."""

    @abstractmethod
    async def change_consumers(
        self, commands: Sequence[ConsumerCommand], *, timeout: Duration | None = None
    ) -> tuple[ConsumerOutcome, ...]: ...

    async def consumer(
        self,
        name: str,
        *,
        start: Start = "earliest",
        where: KeyFilter | None = None,
        commit_records: int | None = None,
        commit_s: Duration | None = None,
        group: bool = False,
        parts: int | None = None,
        lease: Duration | None = None,
        on_assigned: PartsChanged | None = None,
        on_revoked: PartsChanged | None = None,
    ) -> ConsumerHandle | GroupHandle:
        wanted = Wanted.checked(
            name,
            start,
            where,
            CommitRule(commit_records, commit_s),
            group=group,
            parts=parts,
            lease=lease,
            on_assigned=on_assigned,
            on_revoked=on_revoked,
        )
        return await open_consumer(self, wanted, on_assigned, on_revoked, is_dense=self.has_dense_positions)

    async def consumers(self) -> tuple[ConsumerInfo, ...]:
        known = await self.known_consumers()
        if not known.consumers:
            return ()
        tail = await self.tail()
        lags: dict[int, Lag] = {}
        for position in {each.position for each in known.consumers}:
            lags[position] = await lag_of(self, position, tail, is_dense=self.has_dense_positions)
        return tuple(info_of(each, lags[each.position], known.time_us) for each in known.consumers)

    async def reset_consumer(self, name: str, to: Start) -> int:
        check_consumer_name(name)
        check_start(to, "to")
        owner, outcome = new_owner(), ConsumerRefused(name, "unknown")
        at = await resolved(self, to)
        for _ in range(CONSUMER_RESETS_MAX):
            found = (await self.known_consumers()).find(name)
            if found is None:
                raise refusal_error(ConsumerRefused(name, "unknown"))
            (told,) = await self.change_consumers((ResetConsumer(name, owner, found.stamp, at),))
            if isinstance(told, PartStands):
                return told.position
            assert isinstance(told, ConsumerRefused)
            outcome = told
        raise refusal_error(outcome)

    async def delete_consumer(self, name: str) -> None:
        check_consumer_name(name)
        found = (await self.known_consumers()).find(name)
        if found is None:
            raise refusal_error(ConsumerRefused(name, "unknown"))
        (told,) = await self.change_consumers((DeleteConsumer(name, found.made),))
        if isinstance(told, ConsumerRefused):
            raise NoSuchConsumer(
                f"consumer {name!r} was deleted meanwhile, and made again: look at it, and repeat this"
            )
