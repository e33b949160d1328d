"""Changes of the cluster by a torture: what is struck afterwards is a shard that is still in use."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from ithaca.model.view import Address
from ithaca.torture.cluster_under_test import ClusterUnderTest
from ithaca.torture.faults import view as view_faults
from ithaca.torture.faults.view import Finalize
from ithaca.torture.plan import Strike
from ithaca.torture.proxy import Network

NAMES = ["shard-0-replica-0", "shard-0-replica-1", "shard-1-replica-0", "spare-1", "spare-2", "spare-3", "spare-4"]


class Admin:
    """Of two shards, to which others come."""

    def __init__(self, cluster: Any) -> None:
        self._addresses = {name: str(route[0]) for name, route in cluster.routes.items()}
        self.live = {0: NAMES[:2], 1: NAMES[2:3]}
        self._cluster = cluster

    async def shards(self) -> list[Any]:
        return [
            SimpleNamespace(
                shard=shard,
                phase="live",
                replicas=[SimpleNamespace(address=self._addresses[name]) for name in names],
            )
            for shard, names in self.live.items()
        ]

    async def add_shard(self, addresses: list[str], *, masking: bool) -> int:
        number = max(self.live) + 1
        self.live[number] = [self._cluster.name_of(address) for address in addresses]
        return number

    async def finalize_shard(self, shard: int, *, grace_cuts: int, grace: float) -> None:
        del self.live[shard]


async def test_a_shard_that_was_added_is_struck_in_the_place_of_the_finalized_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster: Any = object.__new__(ClusterUnderTest)
    cluster.shape = SimpleNamespace(replicas=2, masking=False)
    cluster.routes = {name: (Address("127.0.0.1", 7000 + at), None) for at, name in enumerate(NAMES)}
    cluster.places = dict.fromkeys(NAMES)
    cluster.stand_ins, cluster._unused = {}, NAMES[3:]
    admin = Admin(cluster)

    @asynccontextmanager
    async def connected(_: object) -> AsyncIterator[Any]:
        yield SimpleNamespace(admin=admin)

    monkeypatch.setattr(view_faults, "_connected", connected)
    told: list[str] = []
    network = Network(1)
    scene: Any = SimpleNamespace(cluster=cluster, network=network)
    strike = Strike(1, 0.0, "finalize", (), 0.0, "at once")
    await Finalize().strike(scene, strike, told.append)
    assert told == ["shard 0"]
    assert network.way("shard-2-replica-1", "orderer-1") in network.ways(["spare-2"], ["orderer-1"])
    assert [await cluster.resolved(name) for name in NAMES[:3]] == ["spare-1", "spare-2", "shard-1-replica-0"]
    await Finalize().strike(scene, strike, told.append)
    assert told == ["shard 0", "shard 1"]
    resolved = [await cluster.resolved(name) for name in NAMES[:3]]
    assert resolved == ["spare-1", "spare-2", "spare-3"]
