"""Orderers that are added and removed in tests, as clients have it done."""

import asyncio
from contextlib import suppress
from dataclasses import replace

from tests.server.orderers import DEADLINE_S, Orderers, client, free_addresses

from ithaca.model.config.cluster import ClusterFile, OrdererPlace
from ithaca.model.errors import Unavailable
from ithaca.protocol.codec import Message
from ithaca.protocol.members import AddOrderer, GetMembers, MembersAre


def with_spares(file: ClusterFile, count: int) -> ClusterFile:
    last = file.orderers[-1].server
    places = [OrdererPlace(last + each, at, joining=True) for each, at in enumerate(free_addresses(count), 1)]
    return replace(file, orderers=(*file.orderers, *places))


async def changed(group: Orderers, message: Message) -> MembersAre:
    """Ask until it is done, as clients do; what can never be done is raised."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            leader = await group.leader()
            with suppress(Unavailable):
                async with client(group.address(leader)) as asking:
                    answer = (await asking.request(message)).message
                    if isinstance(answer, MembersAre):
                        return answer
            await asyncio.sleep(0.02)


async def added(group: Orderers, number: int) -> MembersAre:
    """Add one, and wait until it votes."""
    members = await changed(group, AddOrderer(number, group.address(number)))
    while not any(each.server == number and each.votes for each in members.members):
        members = await changed(group, GetMembers())
        await asyncio.sleep(0.02)
    return members
