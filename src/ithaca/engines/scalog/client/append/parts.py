"""Prepared appends of a handle: parts are opened where the policy says, and published through the leader."""

import asyncio
from collections.abc import Iterable
from contextlib import suppress

from ithaca.client.deadline import Deadline
from ithaca.engines.scalog.client.append.appends import Appends
from ithaca.engines.scalog.client.append.part_writer import AsyncPartWriter, gone, renew_parts
from ithaca.engines.scalog.client.context import Context
from ithaca.engines.scalog.client.replicas import check_live
from ithaca.engines.scalog.messages.order import AppliedOutcome
from ithaca.engines.scalog.ordering.outcomes import RefusedEntry
from ithaca.engines.scalog.ordering.prepared.entries import AbortParts, OpenPart, PartName, Publish
from ithaca.engines.scalog.ordering.prepared.outcomes import (
    ConsumptionRefused,
    PartOpened,
    PartsPublished,
    PartsUnfit,
    PublishConflicts,
)
from ithaca.model.arguments import is_integer, items
from ithaca.model.consumers import CommitPosition, refusal_error
from ithaca.model.errors import (
    InvalidInput,
    IthacaError,
    NamesFull,
    Overloaded,
    PartGone,
    ProtocolError,
    PublishConflict,
    StorageFull,
    Unavailable,
    unknown_copy,
)
from ithaca.model.limits import (
    ATTEMPT_TIMEOUT_S,
    LANE_STALLED_S,
    PART_RENEWALS,
    PART_TTL_S_MAX,
    PART_TTL_S_MIN,
    PARTS_MAX,
    PARTS_PUBLISHED_MAX,
    PUBLISH_KEY_MAX,
    WRITER_NAME_BYTES_MAX,
    WRITERS_MAX,
)
from ithaca.model.parts import Part, Published
from ithaca.model.records import Compression
from ithaca.model.units import Duration, seconds
from ithaca.runtime.backoff import Backoff
from ithaca.runtime.machine import new_uuid
from ithaca.wire.batch import Batch


class Parts:
    """What a handle prepares and publishes."""

    def __init__(self, context: Context, appends: Appends, compression: Compression) -> None:
        self._context = context
        self._appends = appends
        self._compression: Compression = compression
        self._writers: dict[AsyncPartWriter, None] = {}
        """Those that were opened and not finished."""
        self._renewing: asyncio.Task[None] | None = None

    async def open(self, shard: int | None, ttl: float, deadline: Deadline) -> AsyncPartWriter:
        context, token, pauses = self._context, new_uuid().bytes, Backoff()
        reason = "no lane is open"
        while True:
            home = self._appends.lane_for(shard)
            outcomes: tuple[AppliedOutcome, ...] = ()
            if home is not None:
                outcomes = await context.order.propose(OpenPart(home, token, int(ttl * 1e6)), deadline)
            for outcome in outcomes:
                if isinstance(outcome, PartOpened):
                    return self._writer(outcome, token, ttl)
                if isinstance(outcome, RefusedEntry) and home is not None:
                    reason = outcome.reason
                    self._appends.leave(home)
            if deadline.passed:
                raise _not_opened(reason, deadline)
            await pauses.pause(deadline)
            await context.order.fresh_view(deadline)
            context.check()
            if shard is not None:
                check_live(context.order.view, shard)

    async def prepare(self, batch: Batch, shard: int | None, ttl: float, deadline: Deadline) -> Part:
        """A part of one batch: if the replica that was to write it fails, another does."""
        while True:
            writer = await self.open(shard, ttl, deadline)
            attempt = Deadline(min(max(deadline.left_s, 0.001), ATTEMPT_TIMEOUT_S + LANE_STALLED_S))
            try:
                await writer.send(batch, attempt.timeout_s)
                return await writer.finish(timeout=max(attempt.left_s, 0.001))
            except (Unavailable, PartGone, StorageFull):
                self._context.check()
                if deadline.passed:
                    raise
                self._appends.leave(writer.lane)
                with suppress(IthacaError):
                    await writer.abort()
            finally:
                self._writers.pop(writer, None)

    async def publish(
        self,
        key: int,
        parts: Iterable[Part],
        writer: str,
        owner: str,
        consumed: tuple[CommitPosition, ...],
        deadline: Deadline,
    ) -> Published:
        check_publication(key, writer, owner)
        entry = Publish(writer, key, owner, _names(checked_parts(parts)), consumed=consumed)
        return await self._published(entry, deadline)

    async def publish_once(
        self, parts: Iterable[Part], consumed: tuple[CommitPosition, ...], deadline: Deadline
    ) -> Published:
        """Without a name: the lanes of the parts tell a repeated call where they are. Empty ones have none."""
        checked = checked_parts(parts)
        names = _names([part for part in checked if part.length])
        published = await self._published(Publish("", 0, "", names, consumed=consumed), deadline)
        empty = [part for part in checked if not part.length]
        if empty:
            await self.abort(empty, deadline)
        return published

    async def renew(self, parts: Iterable[Part], ttl: float, deadline: Deadline) -> None:
        names = _names(checked_parts(parts))
        if names:
            await renew_parts(self._context.order, names, ttl, deadline)

    async def _published(self, entry: Publish, deadline: Deadline) -> Published:
        try:
            outcomes = await self._context.order.propose(entry, deadline)
        except Unavailable as error:
            raise unknown_copy(error) from error  # one of the tries may have been heard
        for outcome in outcomes:
            match outcome:
                case PartsPublished(published):
                    return published
                case PublishConflicts(published):
                    raise _conflict(entry.key, entry.owner, published)
                case ConsumptionRefused(refused):
                    raise refusal_error(refused)
                case RefusedEntry(reason="too many writers"):
                    raise _no_place(entry.writer)
                case PartsUnfit(missing, unfinished):
                    if missing:
                        raise gone(*missing)
                    raise InvalidInput(f"part {', '.join(map(str, unfinished))} is not finished: nothing was published")
        raise ProtocolError("an orderer did not say what became of a publication")

    async def abort(self, parts: Iterable[Part], deadline: Deadline) -> None:
        await self._context.order.propose(AbortParts(_names(checked_parts(parts))), deadline)

    async def _keep_renewed(self) -> None:
        """While parts are written, keep them from expiring: those of one time to live together."""
        while under_way := [each for each in self._writers if each.is_under_way]:
            pause_s = min(each.ttl_s for each in under_way) / PART_RENEWALS
            await asyncio.sleep(pause_s)
            names_by_ttl: dict[float, list[PartName]] = {}
            for each in self._writers:
                if each.is_under_way:
                    names_by_ttl.setdefault(each.ttl_s, []).append(each.name)
            for ttl_s, names in names_by_ttl.items():
                with suppress(IthacaError):  # it is tried again in time, and whoever writes is told what is gone
                    await renew_parts(self._context.order, tuple(names), ttl_s, Deadline(pause_s))

    async def close(self) -> None:
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.wait([self._renewing])
        for writer in self._writers:
            await writer.close()

    def _writer(self, opened: PartOpened, token: bytes, ttl_s: float) -> AsyncPartWriter:
        """The token is the one that was asked for: where the cluster has users it is kept as another."""
        context = self._context
        writer = AsyncPartWriter(
            opened.part.lane,
            token,
            context.order,
            context.replicas,
            self._appends,
            compression=self._compression,
            timeout_s=context.timeout_s,
            ttl_s=ttl_s,
            check=context.check,
        )
        self._writers = {each: None for each in self._writers if not each.is_finished}
        self._writers[writer] = None
        if self._renewing is None or self._renewing.done():
            self._renewing = asyncio.create_task(self._keep_renewed())
        return writer


def _not_opened(reason: str, deadline: Deadline) -> Unavailable:
    text = f"no part could be opened within {deadline.timeout_s:.3g} s: {reason}"
    match reason:
        case "too many parts":
            return Overloaded(f"{text}; publish or abort some, or wait until they expire")
        case "the state is full":
            return Overloaded(f"{text}: of the ordering layer; trim, or publish or abort some")
        case "too many published parts":
            return Overloaded(f"{text} of one shard, {PARTS_PUBLISHED_MAX}; trim, add a shard, or prepare larger ones")
        case _:
            return Unavailable(text)


def _no_place(writer: str) -> NamesFull:
    return NamesFull(
        f"writer {writer!r} cannot be remembered, since {WRITERS_MAX} others are: nothing was published; have one that "
        "does not come back forgotten (ithaca writer list, ithaca writer forget NAME), set idle_s under [writers] in "
        "the cluster's file, or publish without a writer"
    )


def _names(parts: Iterable[Part]) -> tuple[PartName, ...]:
    return tuple((part.lane, part.token) for part in parts)


def checked_ttl(ttl: Duration) -> float:
    """How long a part shall wait, in seconds."""
    ttl_s = seconds(ttl, "ttl")
    if not PART_TTL_S_MIN <= ttl_s <= PART_TTL_S_MAX:
        raise InvalidInput(f"ttl is {ttl!r}: use {PART_TTL_S_MIN:g} to {PART_TTL_S_MAX:g} seconds")
    return ttl_s


def check_publication(key: int, writer: str, owner: str) -> None:
    if not is_integer(key) or not 0 <= key <= PUBLISH_KEY_MAX:
        raise InvalidInput(f"key is {key!r}: use an integer from 0 to {PUBLISH_KEY_MAX}, such as a batch's number")
    if not isinstance(writer, str) or not 0 < len(writer.encode()) <= WRITER_NAME_BYTES_MAX:
        raise InvalidInput(f"a writer's name has 1 to {WRITER_NAME_BYTES_MAX} bytes, not {writer!r}")
    if not isinstance(owner, str) or len(owner.encode()) > WRITER_NAME_BYTES_MAX:
        raise InvalidInput(f"an owner has at most {WRITER_NAME_BYTES_MAX} bytes, not {owner!r}")


def checked_parts(parts: Iterable[Part]) -> list[Part]:
    """The parts, each a part, each once, and not too many."""
    found: list[Part] = []
    for part in items(parts, "parts", "a list of what prepare or finish gave"):
        if not isinstance(part, Part):
            raise InvalidInput(f"{part!r} is no prepared part: pass what prepare or finish gave")
        found.append(part)
        if len(found) > PARTS_MAX:
            raise InvalidInput(f"more than {PARTS_MAX} parts cannot be published at once: prepare larger ones")
    if len({part.lane for part in found}) < len(found):
        raise InvalidInput("a part stands twice among those that were passed")
    return found


def _conflict(key: int, owner: str, published: Published) -> PublishConflict:
    what = f"{published.count} record(s) from position {published.position} on"
    return PublishConflict(
        f"key {key} of writer {published.writer!r} by owner {owner!r} cannot be published: key {published.key} by "
        f"owner {published.owner!r} is its newest, with {what}; nothing was published now",
        writer=published.writer,
        key=published.key,
        owner=published.owner,
        position=published.position,
        count=published.count,
    )
