"""Scans of a server's files: the same records as over the network, whatever becomes of the files meanwhile."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import ithaca
from ithaca.engines.tasks import Scan
from ithaca.model.limits import SEGMENT_BYTES_MIN
from ithaca.testing import Cluster

RECORDS = 2000
TEXT = b"x" * 90


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """With segments so small that every lane has some."""
    cluster = Cluster(tmp_path / "cluster", engine="raft", orderers=1)
    cluster.file = replace(cluster.file, segment_bytes=SEGMENT_BYTES_MIN)
    with cluster, ithaca.connect(cluster.bootstrap) as log:
        for first in range(1, RECORDS, 10):
            log.append_many([b"%d " % number + TEXT for number in range(first, first + 10)])
        yield cluster


def found(scan: Scan) -> Iterator[int]:
    for chunk in scan:
        for stretch in chunk:
            records = stretch.batch.records(0, stretch.shard, stretch.low, stretch.high)
            for position, record in zip(stretch.positions.tolist(), records, strict=True):
                assert record.value == b"%d " % position + TEXT
                yield position


@pytest.mark.parametrize("local", [True, False])
@pytest.mark.parametrize(("start", "stop"), [(1, RECORDS + 1), (15, 16), (7, 1234)])
def test_files_have_what_the_network_has(cluster: Cluster, start: int, stop: int, local: bool) -> None:
    with Scan(cluster.bootstrap, start, stop, chunk_bytes=5000, local=local) as scan:
        assert scan.is_local is local
        assert list(found(scan)) == list(range(start, stop))


def test_files_that_end_are_gone_on_with_over_the_network(cluster: Cluster) -> None:
    segments = sorted(cluster.directory.rglob("*.seg"))
    assert len(segments) > 2
    with Scan(cluster.bootstrap, 1, RECORDS + 1, chunk_bytes=5000) as scan:
        positions = found(scan)
        seen = [next(positions) for _ in range(300)]
        segments[-1].write_bytes(bytes(segments[-1].stat().st_size))  # the server has its records in memory
        assert seen + list(positions) == list(range(1, RECORDS + 1))
        assert not scan.is_local


def test_what_was_trimmed_is_said_by_the_network(cluster: Cluster) -> None:
    with ithaca.connect(cluster.bootstrap) as log:
        log.trim(5)  # in the middle of a segment
    with Scan(cluster.bootstrap, 1, RECORDS + 1, chunk_bytes=5000) as scan, pytest.raises(ithaca.Trimmed):
        list(found(scan))


def test_a_shard_that_is_not_there_has_no_records(cluster: Cluster) -> None:
    with Scan(cluster.bootstrap, 1, RECORDS + 1, shards=frozenset({1}), chunk_bytes=5000) as scan:
        assert list(found(scan)) == []


def test_a_reader_elsewhere_reads_no_files(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ithaca.engines.raft.client.scan.machine_name", lambda: "another")
    with Scan(cluster.bootstrap, 1, 3, chunk_bytes=5000) as scan:
        assert not scan.is_local
        assert list(found(scan)) == [1, 2]
