"""Whom a partition cuts off from whom: only ways on which something comes, or it would not be noticed."""

from types import SimpleNamespace
from typing import cast

import pytest

from ithaca.torture.faults.injectors import Scene
from ithaca.torture.faults.link import Partition
from ithaca.torture.proxy import CLIENTS, Network

UNIT, PEER, ORDERER, SPARE = "shard-1-replica-0", "shard-1-replica-1", "orderer-1", "spare-1"


def scene() -> Scene:
    places = dict.fromkeys((UNIT, PEER, "shard-0-replica-0", ORDERER, SPARE))
    return cast(Scene, SimpleNamespace(cluster=SimpleNamespace(places=places), network=Network(seed=1)))


async def cut_off(variant: str, *speaking: str, name: str = UNIT) -> set[str]:
    """Those whose ways to and from a server are cut, where it has just heard some others."""
    where = scene()
    for other in speaking:
        await where.network.way(other, name).passed(1)
    ways = Partition().ways(where, [name], variant)
    found = {
        other
        for other in (*where.cluster.places, CLIENTS)
        if other != name and where.network.way(other, name) in ways and where.network.way(name, other) in ways
    }
    assert len(ways) == 2 * len(found), "both directions of each"
    return found


SERVERS = {PEER, "shard-0-replica-0", ORDERER, SPARE}


@pytest.mark.parametrize(
    ("variant", "speaking", "expected"),
    [
        ("group", (PEER, ORDERER, CLIENTS), {PEER}),
        ("group", (ORDERER, CLIENTS), SERVERS),
        ("group", (CLIENTS,), SERVERS | {CLIENTS}),
        ("servers", (PEER, CLIENTS), SERVERS),
        ("servers", (CLIENTS,), SERVERS | {CLIENTS}),
        ("full", (PEER,), SERVERS | {CLIENTS}),
    ],
)
async def test_a_partition_is_one_that_is_noticed(variant: str, speaking: tuple[str, ...], expected: set[str]) -> None:
    assert await cut_off(variant, *speaking) == expected


async def test_a_spare_has_no_group() -> None:
    assert await cut_off("group", ORDERER, name=SPARE) == SERVERS - {SPARE} | {UNIT}
