"""The client that does what it may not: refused all along by a real cluster, and seen when it is not."""

import asyncio
import multiprocessing
from dataclasses import replace
from pathlib import Path

import pytest

import ithaca.aio
from ithaca.testing import Cluster
from ithaca.torture.clients.client import Client, Errand, Finish, Proof
from ithaca.torture.clients.outsider import intrude
from ithaca.torture.people import KNOWN_S, REVOKED

CALLS = 12
"""Of one turn of it."""


async def tried(cluster: Cluster, home: Path, rights: list[str]) -> int:
    """How many calls were refused of a user with these rights, in two turns."""
    async with ithaca.aio.connect(cluster.bootstrap, token=cluster.token) as operator:
        token = await operator.admin.add_user("outsider-1", rights)
        gone = await operator.admin.add_user(REVOKED, ["read"])
        await operator.admin.revoke_user(REVOKED)
    await asyncio.sleep(KNOWN_S / 3)
    ours, theirs = multiprocessing.Pipe()
    errand = Errand("outsider-1", 1, 0, cluster.bootstrap, home, 7, 1.0)
    errand = replace(errand, proof=Proof(token=token), revoked=Proof(token=gone))
    client = Client(theirs, errand)
    task = asyncio.create_task(intrude(client))
    while client.records < 2 * CALLS and not task.done():
        await asyncio.wait([task], timeout=0.05)
    client.finish = Finish()
    try:
        await task
    finally:
        client.history.close()
        ours.close()
        theirs.close()
    return client.records


async def test_an_outsider_is_refused_whatever_it_does(tmp_path: Path) -> None:
    with Cluster(users=True) as cluster:
        assert await tried(cluster, tmp_path, ["read"]) >= 2 * CALLS
        async with ithaca.aio.connect(cluster.bootstrap, token=cluster.token) as operator:
            assert await operator.tail() == 1
            assert [each.name for each in await operator.admin.users()] == ["outsider-1"]


async def test_an_outsider_that_is_not_refused_says_so(tmp_path: Path) -> None:
    with Cluster(users=True) as cluster, pytest.raises(AssertionError, match="who may only read was told Receipt"):
        await tried(cluster, tmp_path, ["read", "append"])
