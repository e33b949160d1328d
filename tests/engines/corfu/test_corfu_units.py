"""Units that come and go while a cluster runs."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

import ithaca
import ithaca.aio
from ithaca.engines.corfu.client.log import CorfuLog
from ithaca.engines.corfu.sequencing.flows.reconfiguring import reconfigured
from ithaca.model.errors import AddressInUse, InvalidInput, NoSuchUnit, Unavailable
from ithaca.testing import Cluster


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is away is given up soon, and looked for soon."""
    monkeypatch.setattr("ithaca.engines.corfu.sequencing.flows.knowledge.PATIENCE_MS", 500)
    monkeypatch.setattr("ithaca.engines.corfu.server.caretaking.CARE_MS", 100)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path / "cluster", engine="corfu", shards=1, spares=2) as cluster:
        yield cluster


def values(count: int) -> list[bytes]:
    return [b"%d" % n for n in range(count)]


def read(log: ithaca.ClusterLog) -> list[bytes]:
    return [record.value for record in log.read_range("earliest")]


def test_a_unit_is_replaced_while_it_is_there(cluster: Cluster) -> None:
    with ithaca.connect(cluster.bootstrap) as log:
        for n in range(10):
            log.append(b"%d" % n)
        old = next(each for each in log.admin.units() if (each.set, each.place) == (0, 0))
        successor = log.admin.replace_unit(old.unit)
        units = {each.unit: each for each in log.admin.units()}
        assert old.unit not in units
        assert (units[successor].set, units[successor].rows) == (0, 10), "it has copied everything"
        with pytest.raises(NoSuchUnit):
            log.admin.replace_unit(old.unit)
        log.append(b"10")
        assert read(log) == values(11)


def test_units_are_added_for_capacity(cluster: Cluster) -> None:
    with ithaca.connect(cluster.bootstrap) as log:
        for n in range(4):
            log.append(b"%d" % n)
        spares = [each for each in log.admin.units() if each.set is None]
        assert log.admin.add_units([each.address for each in spares]) == 1
        assert log.admin.add_units([each.address for each in spares]) == 1, "the same again is the same"
        for n in range(4, 10):
            log.append(b"%d" % n)
        rows = {each.unit: each.rows for each in log.admin.units()}
        assert [rows[each.unit] for each in spares] == [3, 3]
        assert read(log) == values(10)
        with pytest.raises(AddressInUse):
            log.admin.add_units([spares[0].address])
        with pytest.raises(InvalidInput):
            log.admin.add_units([])
        with pytest.raises(Unavailable, match="no spare"):
            log.admin.replace_unit(spares[0].unit)


def test_a_lost_unit_is_rebuilt_onto_a_spare(cluster: Cluster) -> None:
    with ithaca.connect(cluster.bootstrap) as log:
        for n in range(6):
            log.append(b"%d" % n)
        cluster.kill_server("shard-0-replica-1")
        log.append(b"6")
        log.admin.rebuild_units(timeout=60)
        cluster.kill_server("shard-0-replica-0")
        assert read(log) == values(7)


def test_a_range_that_was_trimmed_frees_its_units(cluster: Cluster) -> None:
    async def run() -> None:
        async with ithaca.aio.connect(cluster.bootstrap) as log:
            assert isinstance(log, CorfuLog)
            await (await log.session("s")).append(b"0")
            units = await log.admin.units()
            old, spares = ([each.unit for each in units if each.set == number] for number in (0, None))
            await log.trim(await log.tail())
            knowledge = log._driver.knowledge
            moved = tuple(zip(old, spares, strict=True))
            assert not await log._driver.run(reconfigured(knowledge, knowledge.projection, moved=moved))
            units = await log.admin.units()
            assert [each.unit for each in units if each.ranges] == spares
            assert (await log.session("s")).next_seq == 2, "what those units knew of sessions is known still"
            await log.append(b"1")
            assert [record.value async for record in log.read_range("earliest")] == [b"1"]

    asyncio.run(run())


def test_units_that_cannot_be_added_are_refused(cluster: Cluster, tmp_path: Path) -> None:
    with (
        Cluster(tmp_path / "other", engine="corfu", shards=1) as other,
        ithaca.connect(cluster.bootstrap) as log,
        ithaca.connect(other.bootstrap) as strange,
    ):
        strange.append(b"precious")
        theirs = strange.admin.units()[0]
        with pytest.raises(InvalidInput, match="has belonged to a cluster"):
            log.admin.add_unit(theirs.address)
        with pytest.raises(AddressInUse):
            log.admin.add_unit(cluster.bootstrap.split(",")[0])
        with pytest.raises(Unavailable):
            log.admin.add_unit("127.0.0.1:1")
        assert read(strange) == [b"precious"]


def test_units_and_sequencers_have_metrics(cluster: Cluster) -> None:
    with ithaca.connect(cluster.bootstrap) as log:
        log.append(b"a")
        log.read(1)
        statuses = {server.place.name: server.place.address for server in cluster.status().servers}
        unit, orderer = (
            urlopen(f"http://{statuses[name]}/metrics").read().decode() for name in ("shard-0-replica-1", "orderer-1")
        )
        assert "ithaca_unit_written_rows_total 1.0" in unit
        assert "ithaca_unit_read_rows_total" in unit
        assert "ithaca_orderer_tokens_total 1.0" in orderer
        assert "ithaca_orderer_is_sequencer 1.0" in orderer
