"""Clients that consume: one under a name of its own, and members that share a group.

Each commits, or writes a record for each that it takes, in one transaction with its commit. The first opens its
consumer again and again, while older handles are there that try to commit; members come and go, and are sometimes away
for longer than their lease.
"""

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from random import Random

from ithaca.client.consuming.awaited.member import GroupHandle
from ithaca.client.consuming.held_parts import part_of
from ithaca.model.consumers import PartStands
from ithaca.model.errors import ConsumerFenced, IthacaError, PartGone, Trimmed
from ithaca.model.interface.awaited import ClusterLog, Consumer
from ithaca.model.records import KeyFilter
from ithaca.proof import payload
from ithaca.torture.clients.batches import KEYS
from ithaca.torture.clients.client import RETRY_S, Client, passes, patient
from ithaca.torture.clients.taking import OUT_KEY, OUT_SESSIONS, SUBSCRIPTIONS, Taking

ALONE = "alone"
GROUP = "group"
PARTS = 8
LEASES_S = (1.0, 2.0, 4.0)
ROUNDS_MAX = 60
"""What a handle does before it is given up."""
POLL_S = 0.2
POLL_RECORDS = (10, 1000)
LATE_S = 6.0
"""How long a member is away, at most, when it is; and how often."""
LATE = 0.01
EVERYTHING = 1 << 61
"""A position behind every record."""
PREFIX = "key-"
"""Of the keys of what producers append: what consumers write has others."""


async def consume(client: Client) -> None:
    """Take the records of one key, by a handle that is opened again and again."""
    await _Consuming(client, ALONE, 1, Random(f"consumer {client.errand.seed}").choice(KEYS), 0).run()


async def take_part(client: Client) -> None:
    """Be a member of the group, which takes all records or, if it writes, those with a key."""
    await _Consuming(client, GROUP, PARTS, PREFIX if client.errand.writes else "", 1).run()


class _Consuming:
    """One life of a client."""

    def __init__(self, client: Client, name: str, parts: int, prefix: str, place: int) -> None:
        errand = client.errand
        self._client = client
        self._name = name
        self._parts = parts
        self._prefix = prefix
        self._where = KeyFilter.prefix(prefix.encode()) if prefix else None
        self._out = OUT_SESSIONS + 1000 * place if errand.writes else None
        self._chance = Random(f"{errand.name} {errand.seed} {errand.life}")
        self._numbers = count(errand.number * SUBSCRIPTIONS + errand.life * (SUBSCRIPTIONS // 50))
        self._older: tuple[Consumer, Taking] | None = None

    async def run(self) -> None:
        """Go on until everything is committed."""
        log = await self._client.connected()
        while not await self._has_all(log):
            try:
                await self._use(log)
            except Trimmed:
                with suppress(ConsumerFenced):  # somebody else came before
                    await patient(lambda: log.reset_consumer(self._name, "earliest"))
            except (ConsumerFenced, PartGone):  # what was prepared is lost with its servers, or came too late
                pass
            except IthacaError as error:
                if not passes(error):
                    raise
                await asyncio.sleep(RETRY_S)
        await log.close()

    async def _has_all(self, log: ClusterLog) -> bool:
        """Whether nothing is left to take of what it is to see."""
        if self._client.finish is None:
            return False
        tail = self._client.finish.tail
        known = {each.name: each.positions for each in await patient(log.consumers)}
        positions = known.get(self._name)
        if positions is None:
            return False
        try:
            async with log.read_range(min(*positions, tail), tail, where=self._where) as records:
                async for record in records:
                    if record.position >= positions[part_of(record.key, self._parts)]:
                        return False
        except Trimmed:
            return False
        except IthacaError as error:
            if not passes(error):
                raise
            return False
        return True

    async def _use(self, log: ClusterLog) -> None:
        """Open it, take records, and commit now and then."""
        taking = Taking(self._client, self._name, self._parts, self._prefix, self._numbers, self._out)
        handle = await self._opened(log, taking)
        try:
            if self._older is not None:
                await self._commit_late(*self._older)
            for _ in range(self._chance.randint(1, ROUNDS_MAX)):
                await self._take(handle, taking)
                if self._client.is_finishing and not taking.taken and await self._has_all(log):
                    break
        finally:
            self._older = None if isinstance(handle, GroupHandle) else (handle, taking)
            if isinstance(handle, GroupHandle):
                await handle.close()

    async def _opened(self, log: ClusterLog, taking: Taking) -> Consumer:
        invoked, handles = time.monotonic_ns(), list[GroupHandle]()
        if self._parts == 1:
            consumer = await log.consumer(self._name, where=self._where)
            taking.opened(_standing(consumer), invoked)
            return consumer

        async def assigned(parts: Sequence[int]) -> None:
            for handle in handles:
                taking.opened([each for each in handle.standing if each.part in parts], time.monotonic_ns())

        lease_s = self._chance.choice(LEASES_S)
        member = await log.consumer(
            self._name, group=True, parts=PARTS, where=self._where, lease=lease_s, on_assigned=assigned
        )
        assert isinstance(member, GroupHandle)
        handles.append(member)
        taking.opened(member.standing, invoked)
        return member

    async def _take(self, handle: Consumer, taking: Taking) -> None:
        invoked = time.monotonic_ns()
        records = await handle.poll(POLL_S, self._chance.randint(*POLL_RECORDS))
        taking.handed_out(records, _standing(handle), invoked)
        if not records or self._chance.random() < 0.5:  # what was asked back is handed over when nothing comes
            await self._commit(handle, taking)
        if self._parts > 1 and self._chance.random() < LATE and not self._client.is_finishing:
            await asyncio.sleep(self._chance.uniform(0, LATE_S))

    async def _commit(self, handle: Consumer, taking: Taking) -> None:
        position = EVERYTHING if isinstance(handle, GroupHandle) else handle.position
        if self._out is None or not taking.taken:
            lines = taking.commits(handle.commits(position))
            await handle.commit()
        else:
            try:
                async with handle.transaction() as transaction:
                    ids = taking.writes()
                    lines = taking.commits(handle.commits(position))
                    values = [payload.encode(*each, payload.HEAD_BYTES) for each in ids]
                    await transaction.append_many(values, keys=[OUT_KEY.encode()] * len(ids))
            except BaseException:
                taking.taken.clear()  # it is handed out again
                raise
        taking.committed(lines)

    async def _commit_late(self, older: Consumer, taking: Taking) -> None:
        """By a handle that was fenced: it must be refused."""
        self._older = None
        lines = taking.commits(older.commits(older.position))
        try:
            await older.commit()
        except ConsumerFenced:
            return
        finally:
            await older.close()
        taking.committed(lines)


def _standing(handle: Consumer) -> Sequence[PartStands]:
    """Where each part of it is."""
    if isinstance(handle, GroupHandle):
        return handle.standing
    return (PartStands(handle.name, 0, handle.epoch, handle.position),)
