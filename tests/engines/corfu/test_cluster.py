"""A cluster of this engine, with real servers: used through the interface of all engines, and through failures."""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import ithaca
import ithaca.aio
from ithaca.engines.corfu.sequencing.limits import ROW_POSITIONS
from ithaca.engines.registry import make_server
from ithaca.model.config.cluster import ClusterFile, OrdererPlace, ReplicaPlace, ShardPlace
from ithaca.model.errors import ConfigError, InvalidInput, NotWritten, SessionFenced, Trimmed, Unsupported
from ithaca.model.records import Retention
from ithaca.model.server_place import ServerPlace
from ithaca.model.view import Address
from ithaca.testing import Cluster


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is away is given up soon, and looked for soon."""
    monkeypatch.setattr("ithaca.engines.corfu.sequencing.flows.knowledge.PATIENCE_MS", 500)
    monkeypatch.setattr("ithaca.engines.corfu.server.caretaking.CARE_MS", 100)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path / "cluster", engine="corfu", shards=2) as cluster:
        yield cluster


def test_what_is_appended_is_read_by_everybody(cluster: Cluster) -> None:
    with ithaca.connect(cluster.bootstrap) as log, ithaca.connect(cluster.bootstrap) as other:
        first = log.append(b"hello", key=b"k")
        many = log.append_many([b"a", b"b", b"c"])
        assert (first.position, many.position) == (1, ROW_POSITIONS + 1)
        assert other.read(1).value == b"hello"
        assert other.read(many.position + 2).value == b"c"
        assert [record.value for record in other.read_range(1)] == [b"hello", b"a", b"b", b"c"]
        assert other.tail() == 2 * ROW_POSITIONS + 1
        with pytest.raises(NotWritten):
            other.read(other.tail())
        with other.subscribe("earliest") as subscription:
            assert [next(subscription).value for _ in range(4)] == [b"hello", b"a", b"b", b"c"]
            log.append(b"later")
            assert next(subscription).value == b"later"


def test_a_subscriber_at_the_tail_waits_at_a_unit(cluster: Cluster) -> None:
    with ithaca.connect(cluster.bootstrap) as log, log.subscribe("latest") as subscription:
        assert subscription.poll(timeout=0.3) == []
        waiting = [each["waiting_readers"] for each in cluster_statuses(cluster).values() if "waiting_readers" in each]
        assert sorted(map(str, waiting)) == ["0", "0", "0", "1"], (
            "one of four units has a request that it has not answered"
        )
        log.append(b"a")
        assert [record.value for record in subscription.poll(timeout=10)] == [b"a"]


def test_many_appends_at_once_keep_their_order(cluster: Cluster) -> None:
    async def run() -> None:
        async with ithaca.aio.connect(cluster.bootstrap) as log:
            pending = [await log.submit(b"%d" % n) for n in range(200)]
            positions = [(await each.result()).position for each in pending]
            assert positions == sorted(set(positions))
            values = [record.value async for record in log.read_range(1)]
            assert values == [b"%d" % n for n in range(200)]

    asyncio.run(run())


def test_a_session_appends_once_and_fences_older_handles(cluster: Cluster) -> None:
    with ithaca.connect(cluster.bootstrap) as log:
        older = log.session("importer")
        receipt = older.append(b"one", seq=1)
        assert older.append(b"one", seq=1) == receipt
        newer = log.session("importer")
        assert newer.next_seq == 2
        assert newer.append(b"one", seq=1).position == receipt.position
        newer.append(b"two")
        with pytest.raises(SessionFenced):
            older.append(b"two")
        assert [record.value for record in log.read_range(1)] == [b"one", b"two"]


def test_trimming(cluster: Cluster) -> None:
    with ithaca.connect(cluster.bootstrap) as log:
        positions = [log.append(b"%d" % n).position for n in range(5)]
        with pytest.raises(InvalidInput):
            log.trim(log.tail() + 1)
        log.trim(positions[3])
        assert log.first() == positions[3]
        with pytest.raises(Trimmed):
            log.read(positions[0])
        assert [record.value for record in log.read_range(positions[3])] == [b"3", b"4"]


def test_a_trim_inside_a_row_holds_for_every_handle(cluster: Cluster) -> None:
    with ithaca.connect(cluster.bootstrap) as log, ithaca.connect(cluster.bootstrap) as other:
        position = log.append_many([b"a", b"b", b"c"]).position
        assert other.read(position).value == b"a"
        log.trim(position + 1)
        with pytest.raises(Trimmed) as raised:
            other.read(position)
        assert raised.value.first == position + 1
        assert [record.value for record in other.read_range("earliest")] == [b"b", b"c"]


def test_positions_are_filled_and_trimmed_one_by_one(cluster: Cluster) -> None:
    with ithaca.connect(cluster.bootstrap) as log:
        assert isinstance(log, ithaca.ClusterLog)
        positions = [log.append(b"%d" % n).position for n in range(5)]
        assert log.fill(positions[0]), "it was written"
        with pytest.raises(NotWritten):
            log.fill(log.tail())
        log.trim_position(positions[1])
        log.trim_position(positions[2], positions[4])
        for position in positions[1:4]:
            with pytest.raises(Trimmed):
                log.read(position)
            with pytest.raises(Trimmed):
                log.fill(position)
        assert [record.value for record in log.read_range(1)] == [b"0", b"4"]
        assert log.first() == 1
        with pytest.raises(NotWritten):
            log.trim_position(log.tail())
        log.trim_position(positions[4] + 1, log.tail())
        assert log.read(positions[4]).value == b"4", "an append that begins before the range stays"


def test_other_engines_say_that_they_cannot(tmp_path: Path) -> None:
    with Cluster(tmp_path / "cluster", engine="raft", orderers=1) as cluster, ithaca.connect(cluster.bootstrap) as log:
        assert isinstance(log, ithaca.ClusterLog)
        with pytest.raises(Unsupported, match="corfu"):
            log.fill(1)
        with pytest.raises(Unsupported, match="corfu"):
            log.trim_position(1)
        with pytest.raises(Unsupported, match="corfu"):
            log.write(1, [b"a"])
        with pytest.raises(Unsupported, match="corfu"):
            log.admin.units()


def test_a_time_stands_for_where_the_order_was_then(cluster: Cluster) -> None:
    with ithaca.connect(cluster.bootstrap) as log:
        log.append(b"before")
        then = datetime.now(UTC)
        time.sleep(0.002)
        log.append(b"after")
        assert [record.value for record in log.read_range(then)] == [b"after"]
        assert [record.value for record in log.read_range(then + timedelta(days=1))] == []


def test_everything_is_there_after_a_restart(cluster: Cluster) -> None:
    with ithaca.connect(cluster.bootstrap) as log:
        positions = [log.append(b"%d" % n).position for n in range(20)]
        for name in cluster.names:
            cluster.kill_server(name)
        for name in cluster.names:
            cluster.start_server(name)
        assert [record.value for record in log.read_range(1)] == [b"%d" % n for n in range(20)]
        assert log.append(b"more").position > positions[-1]


def test_a_cluster_that_is_started_as_a_whole_keeps_its_units(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sequencer ends its epoch as soon as each chain has one unit, and must not lose the others by that."""
    for module in ("knowledge", "reconfiguring"):
        monkeypatch.setattr(f"ithaca.engines.corfu.sequencing.flows.{module}.UNIT_GONE_MS", 60_000)
    with ithaca.connect(cluster.bootstrap) as log:
        log.append(b"0")
        assert isinstance(log, ithaca.ClusterLog)
        units = [each.unit for each in log.admin.units()]
        for name in cluster.names:
            cluster.kill_server(name)
        for name in sorted(cluster.names):
            cluster.start_server(name)
            while not cluster_statuses(cluster)[name]:
                time.sleep(0.01)
        log.append(b"1")
        assert [each.unit for each in log.admin.units()] == units
        assert [record.value for record in log.read_range(1)] == [b"0", b"1"]


def test_a_unit_that_stays_away_is_reconfigured_away(tmp_path: Path) -> None:
    with Cluster(tmp_path / "cluster", engine="corfu", shards=2) as cluster, ithaca.connect(cluster.bootstrap) as log:
        positions = [log.append(b"%d" % n).position for n in range(4)]
        cluster.kill_server("shard-0-replica-0")
        more = [log.append(b"%d" % n).position for n in range(4, 8)]
        assert positions + more == sorted(positions + more)
        with ithaca.connect(cluster.bootstrap) as other:
            assert [record.value for record in other.read_range(1)] == [b"%d" % n for n in range(8)]


def test_a_unit_that_was_given_up_comes_back_and_has_everything(tmp_path: Path) -> None:
    with Cluster(tmp_path / "cluster", engine="corfu", shards=1) as cluster, ithaca.connect(cluster.bootstrap) as log:
        session = log.session("s")
        session.append(b"trimmed")
        log.trim(log.tail())
        for n in range(8):
            if n == 4:
                cluster.kill_server("shard-0-replica-0")
            log.append(b"%d" % n)
        cluster.start_server("shard-0-replica-0")
        while cluster_statuses(cluster)["orderer-1"]["short_chains"] or cluster.status().health.problems:
            time.sleep(0.02)
        cluster.kill_server("shard-0-replica-1")
        with ithaca.connect(cluster.bootstrap) as other:
            assert [record.value for record in other.read_range("earliest")] == [b"%d" % n for n in range(8)]
            assert other.session("s").next_seq == 2, "what was trimmed is known, too"


def test_the_sequencer_is_replaced(tmp_path: Path) -> None:
    with Cluster(tmp_path / "cluster", engine="corfu", orderers=3) as cluster, ithaca.connect(cluster.bootstrap) as log:
        session = log.session("s")
        first = session.append(b"one")
        sequencer = next(name for name, status in cluster_statuses(cluster).items() if status.get("is_sequencer"))
        cluster.kill_server(sequencer)
        second = session.append(b"two")
        assert second.position > first.position
        assert log.session("s").next_seq == 3
        assert [record.value for record in log.read_range(1)] == [b"one", b"two"]


def cluster_statuses(cluster: Cluster) -> dict[str, dict[str, object]]:
    return {server.place.name: server.status or {} for server in cluster.status().servers}


def test_what_the_engine_does_not_do_is_refused_by_its_servers(tmp_path: Path) -> None:
    addresses = tuple(Address("127.0.0.1", 1 + number) for number in range(2))
    file = ClusterFile(
        name="c",
        engine="corfu",
        orderers=(OrdererPlace(1, addresses[0]),),
        shards=(ShardPlace(0, 0, False, (ReplicaPlace(0, addresses[1]),)),),
        durability="fsync",
        order_interval_us=0,
        segment_bytes=1 << 20,
    )
    place = ServerPlace("orderer", 1, addresses[0])
    for wrong in (replace(file, durability="os"), replace(file, retention=Retention(age="7d"))):
        with pytest.raises(ConfigError, match=r"use fsync|no retention"):
            make_server(wrong, place, str(tmp_path))
