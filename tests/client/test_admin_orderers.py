"""Orderers that are added and removed through a handle: what is refused, what may be repeated, who is found later."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import ithaca
import ithaca.aio
from ithaca.testing import Cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(orderers=1, replicas=1) as running:
        yield running


@pytest.fixture
def log(cluster: Cluster) -> Iterator[ithaca.ClusterLog]:
    with ithaca.connect(cluster.bootstrap, timeout=10) as handle:
        yield handle


@pytest.mark.parametrize("address", ["", "127.0.0.1", "127.0.0.1:0", "[::1"])
def test_what_is_no_address_is_refused(log: ithaca.ClusterLog, address: str) -> None:
    with pytest.raises(ithaca.InvalidInput):
        log.admin.add_orderer(address)


@pytest.mark.parametrize("number", [0, -1, 1 << 20])
def test_what_is_no_number_is_refused(log: ithaca.ClusterLog, number: int) -> None:
    with pytest.raises(ithaca.InvalidInput, match="use a whole number from 1 to 32767"):
        log.admin.remove_orderer(number)


def test_who_cannot_go_stays(log: ithaca.ClusterLog) -> None:
    with pytest.raises(ithaca.LastOrderer, match="orderer 1 is the last one that votes"):
        log.admin.remove_orderer(1)
    with pytest.raises(ithaca.NoSuchOrderer, match="there is no orderer 7: there are 1"):
        log.admin.remove_orderer(7)
    assert [(each.orderer, each.votes, each.leads) for each in log.admin.orderers()] == [(1, True, True)]


def test_who_is_no_orderer_that_waits_is_not_added(log: ithaca.ClusterLog) -> None:
    replica = log.admin.shards()[0].replicas[0].address
    with pytest.raises(ithaca.AddressInUse, match=f"{replica} is the address of replica 0/0"):
        log.admin.add_orderer(replica)
    with Cluster(orderers=1, replicas=1) as other, ithaca.connect(log.admin.orderers()[0].address, timeout=3) as hasty:
        orderer, store = (str(place.address) for place in other._places.values())
        with pytest.raises(ithaca.ProtocolError, match="looks for log"):
            log.admin.add_orderer(orderer)
        with pytest.raises(ithaca.ProtocolError, match="looks for log"):
            log.admin.add_orderer(store)
        other.stop_server("orderer-1")
        with pytest.raises(ithaca.Unavailable, match="nothing was changed: start it first"):
            hasty.admin.add_orderer(orderer)


async def test_orderers_are_replaced_and_an_old_handle_finds_the_new_ones(tmp_path: Path) -> None:
    with Cluster(tmp_path / "data", orderers=1, replicas=1) as cluster:
        async with ithaca.aio.connect(cluster.bootstrap, timeout=20) as old:
            first = cluster.bootstrap
            assert (cluster.add_orderer(), cluster.add_orderer()) == (2, 3)
            added = [(each.orderer, each.votes) for each in await old.admin.orderers()]
            assert added == [(1, True), (2, True), (3, True)]
            assert await old.admin.add_orderer(str(cluster.file.orderers[1].address)) == 2
            cluster.remove_orderer(1)
            await old.admin.remove_orderer(1)
            assert first not in cluster.bootstrap
            assert await old.tail() == 1
        with ithaca.connect(cluster.bootstrap) as idle:
            assert (cluster.add_orderer(), cluster.add_orderer()) == (4, 5)
            cluster.remove_orderer(2)
            cluster.remove_orderer(3)
            assert idle.append(b"a").position == 1, "replicas know where the orderers are"
            assert [each.orderer for each in idle.admin.orderers()] == [4, 5]
        cluster.wait_healthy()
