"""Scans of files: the same records as over the network, whatever becomes of the files meanwhile."""

import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import ithaca
from ithaca.client.deadline import Deadline
from ithaca.engines.scalog.client.read import local
from ithaca.engines.scalog.client.read.local import LocalRange, _asked
from ithaca.engines.scalog.messages.places import LocateRecords, RecordLocations
from ithaca.engines.scalog.storage.limits import PACK_LANES_MIN
from ithaca.engines.tasks import Scan
from ithaca.model.errors import ProtocolError
from ithaca.model.limits import SEGMENT_BYTES_MIN
from ithaca.model.view import Address
from ithaca.testing import Cluster

BATCHES = 300
RECORDS = 10 * BATCHES
PARTS = 4 * PACK_LANES_MIN


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """With segments so small that every lane has some."""
    cluster = Cluster(shards=2, replicas=2)
    cluster.file = replace(cluster.file, segment_bytes=SEGMENT_BYTES_MIN)
    with cluster:
        yield cluster


def fill(cluster: Cluster, first: int = 0) -> None:
    with ithaca.connect(cluster.bootstrap, shard_policy="round_robin") as log:
        pending = [
            log.submit_many([b"%06d" % (first + 10 * number + row) * 20 for row in range(10)])
            for number in range(BATCHES)
        ]
        for each in pending:
            each.result()


def values(scan: Scan, limit: int | None = None) -> list[tuple[int, bytes]]:
    """Positions and values, of so many chunks at most."""
    found: list[tuple[int, bytes]] = []
    for number, chunk in enumerate(scan, 1):
        for stretch in chunk:
            records = stretch.batch.records(0, stretch.shard, stretch.low, stretch.high)
            found += zip(stretch.positions.tolist(), [record.value for record in records], strict=True)
        if number == limit:
            break
    return found


def told(cluster: Cluster) -> list[tuple[int, bytes]]:
    with ithaca.connect(cluster.bootstrap) as log:
        return [(record.position, record.value) for record in log.read_range(log.first())]


def segments(cluster: Cluster) -> list[Path]:
    return sorted(cluster.directory.rglob("*.seg"))


def test_files_have_what_the_network_has(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    ranges: list[LocalRange] = []

    class Kept(LocalRange):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            ranges.append(self)

    monkeypatch.setattr(local, "LocalRange", Kept)
    fill(cluster)
    wanted = told(cluster)
    assert len(wanted) == RECORDS
    assert len(segments(cluster)) > 8, "some lanes have several"
    for start, stop in ((1, RECORDS + 1), (1, 2), (RECORDS // 2 + 3, RECORDS - 7)):
        with Scan(cluster.bootstrap, start, stop, chunk_bytes=5000) as scan:
            assert scan.is_local
            assert values(scan) == wanted[start - 1 : stop - 1]
            assert scan.is_local
            assert scan.position == stop
    assert [len(each._lanes) for each in ranges] == [0, 0, 0], "lanes that were read to their end are let go"


def test_lanes_in_packs_are_read_from_the_packs(cluster: Cluster) -> None:
    """Also by one who began before there were any."""
    with ithaca.connect(cluster.bootstrap, shard_policy="round_robin") as log:
        for key in range(1, PARTS + 1):
            log.publish(key, [log.prepare([b"%d of %d" % (row, key) for row in range(3)])], writer="w")
            if key == PARTS // 2:
                early = Scan(cluster.bootstrap, 1, 3 * key + 1, chunk_bytes=10)
                found = values(early, limit=2)
    wanted = told(cluster)
    assert len(wanted) == 3 * PARTS
    for name in ("shard-0-replica-0", "shard-0-replica-1", "shard-1-replica-0", "shard-1-replica-1"):
        cluster.stop_server(name)  # which ends when all that was begun is done
        assert list((cluster.directory / name / "lanes").glob("pack-*"))
        cluster.start_server(name)
    cluster.wait_healthy()
    with early:
        assert found + values(early) == wanted[: 3 * (PARTS // 2)]
    with Scan(cluster.bootstrap, 1, 3 * PARTS + 1, chunk_bytes=100) as scan:
        assert values(scan) == wanted
        assert scan.is_local


def test_a_reader_of_another_machine_uses_the_network(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(cluster)
    monkeypatch.setattr(local, "machine_name", lambda: "another")
    with Scan(cluster.bootstrap, 1, RECORDS + 1, chunk_bytes=5000) as scan:
        assert not scan.is_local
        assert values(scan) == told(cluster)


def test_a_directory_of_the_same_name_that_is_another_is_not_read(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(cluster)
    monkeypatch.setattr(local, "place_of", lambda path: (path, 1, 1))
    with Scan(cluster.bootstrap, 1, RECORDS + 1, chunk_bytes=5000) as scan:
        assert not scan.is_local
        assert values(scan) == told(cluster)


def test_what_is_appended_later_is_not_seen_and_disturbs_nobody(cluster: Cluster) -> None:
    fill(cluster)
    wanted = told(cluster)
    with Scan(cluster.bootstrap, 1, RECORDS + 1, chunk_bytes=2000) as scan:
        found = values(scan, limit=3)
        fill(cluster, first=RECORDS)
        assert found + values(scan) == wanted
        assert scan.is_local


@pytest.mark.parametrize("harm", ["damaged", "gone"])
def test_files_that_cannot_be_read_any_more_are_left_for_the_network(cluster: Cluster, harm: str) -> None:
    """The replicas have it in memory, or from a peer."""
    fill(cluster)
    wanted = told(cluster)
    with Scan(cluster.bootstrap, 1, RECORDS + 1, chunk_bytes=2000) as scan:
        assert scan.is_local
        found = values(scan, limit=3)
        for path in segments(cluster):
            if harm == "gone":
                path.rename(path.with_suffix(".away"))
                os.truncate(path.with_suffix(".away"), 0)
            else:
                data = bytearray(path.read_bytes())
                for at in range(2048, len(data), 512):
                    data[at] ^= 0xFF
                path.write_bytes(data)
        found += values(scan)
        assert not scan.is_local
    assert found == wanted


def test_what_is_trimmed_meanwhile_is_told(cluster: Cluster) -> None:
    fill(cluster)
    with Scan(cluster.bootstrap, 1, RECORDS + 1, chunk_bytes=2000) as scan:
        assert scan.is_local
        values(scan, limit=1)
        for path in segments(cluster):
            os.truncate(path, 0)
        with ithaca.connect(cluster.bootstrap) as log:
            log.trim(RECORDS - 10)
        with pytest.raises(ithaca.Trimmed):
            values(scan)


def test_a_shard_that_is_finalized_and_one_that_is_added_are_read(cluster: Cluster) -> None:
    fill(cluster)
    cluster.add_shard(replicas=2)
    with ithaca.connect(cluster.bootstrap) as log:
        log.admin.finalize_shard(0)
    fill(cluster, first=RECORDS)
    with Scan(cluster.bootstrap, 1, 2 * RECORDS + 1, chunk_bytes=50_000) as scan:
        assert scan.is_local
        assert values(scan) == told(cluster)
        assert scan.is_local


class Stubborn:
    """A replica that says again and again that it has said nothing new."""

    async def link(self, address: Address) -> "Stubborn":
        return self

    async def request(self, message: LocateRecords, timeout_s: float) -> Any:
        return SimpleNamespace(message=RecordLocations("/nowhere", 1, 1, (), message.start))


async def test_a_replica_that_does_not_get_on_is_not_asked_for_ever() -> None:
    context: Any = SimpleNamespace(replicas=Stubborn())
    with pytest.raises(ProtocolError, match="nothing new"):
        await _asked(context, Address("a", 1), LocateRecords("machine", 3, 9), Deadline(10))


def test_a_shard_of_which_all_was_trimmed_is_told_of_and_not_passed_over(cluster: Cluster) -> None:
    """Between the plan of a task and its scan."""
    with ithaca.connect(cluster.bootstrap) as log:
        for number in range(4):
            log.append_to_shard(1, b"%d" % number)
        log.append_to_shard(0, b"left")
        log.admin.finalize_shard(1)
        log.trim(5)
        deadline = time.monotonic() + 60
        while any(each.shard == 1 for each in log.admin.shards()):
            assert time.monotonic() < deadline, "a shard that has nothing is gone some time"
        with (
            pytest.raises(ithaca.Trimmed),
            Scan(cluster.bootstrap, 1, 6, shards=frozenset({1}), chunk_bytes=5000) as scan,
        ):
            values(scan)
        with Scan(cluster.bootstrap, 5, 6, shards=frozenset({0}), chunk_bytes=5000) as scan:
            assert scan.is_local
            assert [value for _, value in values(scan)] == [b"left"]
