"""A second engine is a folder: a toy of 150 lines is connected to, used and looked after like any other."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.engines import toy

import ithaca
import ithaca.aio
from ithaca.client.settings import ClientSettings
from ithaca.cluster.local import Wanted, refuse_difference
from ithaca.cluster.status import cluster_status, places_of
from ithaca.engines import registry
from ithaca.engines.registry import make_server
from ithaca.engines.tasks import BatchAppends, Scan
from ithaca.model.addresses import parse_address
from ithaca.model.engine import Feature, engines_with
from ithaca.model.errors import ConfigError, EngineMismatch, InvalidInput, Unsupported
from ithaca.testing import Cluster
from ithaca.wire.build import build


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path / "cluster", engine="toy") as cluster:
        yield cluster


def test_it_is_small() -> None:
    assert len(Path(toy.__file__).read_text().splitlines()) <= 150


def test_nobody_names_it_in_code(cluster: Cluster) -> None:
    assert cluster.names == ["orderer-1"]
    with ithaca.connect(cluster.bootstrap) as log:
        receipt = log.append(b"hello", key=b"k")
        assert log.read(receipt.position).value == b"hello"
        with log.subscribe("earliest") as subscription:
            assert next(subscription).key == b"k"
        assert (log.status().healthy, log.status().tail) == (True, 2)

    async def awaited() -> int:
        async with ithaca.aio.connect(cluster.bootstrap) as log:
            return await log.tail()

    assert asyncio.run(awaited()) == 2


def test_tasks_that_share_a_subscription_get_each_record_once(cluster: Cluster) -> None:
    async def taken(subscription: ithaca.aio.Subscription, count: int) -> list[int]:
        return [(await anext(subscription)).position for _ in range(count)]

    async def shared() -> list[list[int]]:
        async with ithaca.aio.connect(cluster.bootstrap) as log, log.subscribe("earliest") as subscription:
            readers = [asyncio.create_task(taken(subscription, 20)) for _ in range(3)]
            for n in range(60):
                await log.append(b"%d" % n)
            return await asyncio.gather(*readers)

    found = asyncio.run(shared())
    assert all(positions == sorted(positions) for positions in found)
    assert sorted(position for positions in found for position in positions) == list(range(1, 61))


def test_tasks_read_and_append_through_it(cluster: Cluster) -> None:
    with BatchAppends(cluster.bootstrap, timeout=10) as appends:
        for n in range(3):
            appends.put(build([b"%d" % n, b"x"], timestamp_us=n))
        assert [receipt.position for receipt in appends.finish()] == [1, 3, 5]
    with Scan(cluster.bootstrap, 2, 6, chunk_bytes=1) as scan:
        chunks = list(scan)
    assert [position for chunk in chunks for rows in chunk for position in rows.positions.tolist()] == [2, 3, 4, 5]
    assert scan.position == 6
    with Scan(cluster.bootstrap, 1, 7, shards=frozenset({1}), chunk_bytes=1) as scan:
        assert list(scan) == []


def test_the_verdict_on_it_is_its_own(cluster: Cluster) -> None:
    places = asyncio.run(places_of([parse_address(cluster.bootstrap)], None))
    found = asyncio.run(cluster_status(places, None))
    assert (found.engine, found.problems(), found.health.tail) == ("toy", [], 1)
    cluster.stop_server("orderer-1")
    silent = asyncio.run(cluster_status(places, None))
    assert "does not answer" in silent.problems()[0]


def test_what_it_lacks_names_engines_that_have_it(cluster: Cluster) -> None:
    assert "toy" in engines_with(Feature.TRIM)
    assert "toy" not in engines_with(Feature.SESSIONS)
    with ithaca.connect(cluster.bootstrap) as log:
        with pytest.raises(Unsupported, match="no sessions: use a cluster with the engine scalog"):
            log.session("importer")
        with pytest.raises(Unsupported, match="prepared appends"):
            log.open_part()
        with pytest.raises(Unsupported, match="shards"):
            log.admin.add_shard(["127.0.0.1:1"])


def test_a_name_is_one_engines_only() -> None:
    registry.register("toy", registry.engine("toy"))
    with pytest.raises(InvalidInput, match="there is an engine 'toy' already"):
        registry.register("toy", toy.Toy())


def test_an_engine_that_this_version_does_not_know_is_named(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(registry._known, "toy")
    with pytest.raises(EngineMismatch, match="has the engine 'toy', and this version knows scalog") as caught:
        ithaca.connect(cluster.bootstrap)
    assert caught.value.engine == "toy"


def test_a_directory_belongs_to_one_engine(cluster: Cluster, tmp_path: Path) -> None:
    with Cluster(tmp_path / "other") as other:
        place, of_other = other._places["orderer-1"], str(other.directory / "orderer-1")
        both = re.escape(of_other) + " belongs to a server of the engine scalog, and the cluster's file says toy"
        with pytest.raises(ConfigError, match=both):
            make_server(cluster.file, place, of_other)
        own = str(cluster.directory / "orderer-1")
        with pytest.raises(
            ConfigError, match="belongs to a server of the engine toy, and the cluster's file says scalog"
        ):
            make_server(other.file, place, own)
    with pytest.raises(InvalidInput, match="was made with --engine toy, not scalog"):
        refuse_difference(cluster.directory, cluster.file, Wanted(engine="scalog"))


def test_servers_of_two_engines_are_no_cluster(cluster: Cluster, tmp_path: Path) -> None:
    """A handle of one engine is refused by servers of another, which a file may name by mistake."""
    with Cluster(tmp_path / "other") as other:

        async def connect_wrongly() -> None:
            address = parse_address(other.bootstrap)
            await registry.engine("toy").connect((address,), ClientSettings())

        with pytest.raises(EngineMismatch, match=r"has the engine toy, and .* has scalog"):
            asyncio.run(connect_wrongly())
