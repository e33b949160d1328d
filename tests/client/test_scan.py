"""Scans: chunks of a range, of some shards alone, that end cleanly wherever they are left."""

from collections.abc import Iterator

import pytest

import ithaca
from ithaca.engines.tasks import Scan
from ithaca.testing import Cluster


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(shards=2) as cluster:
        yield cluster


def fill(cluster: Cluster, count: int) -> list[ithaca.Record]:
    with ithaca.connect(cluster.bootstrap, shard_policy="round_robin") as log:
        for n in range(count):
            log.append_many([b"%d" % n] * 5, keys=[b"even" if n % 2 == 0 else b"odd"] * 5)
        return list(log.read_range(1))


@pytest.fixture(params=[True, False], ids=["files", "network"])
def local(request: pytest.FixtureRequest) -> bool:
    """Whether the files of the replicas, which are on this machine, may be read."""
    return bool(request.param)


def positions(scan: Scan) -> list[int]:
    return [position for chunk in scan for stretch in chunk for position in stretch.positions.tolist()]


def test_chunks_are_of_the_size_that_was_asked_for(cluster: Cluster, local: bool) -> None:
    fill(cluster, 30)
    with Scan(cluster.bootstrap, 1, 151, chunk_bytes=200, local=local) as scan:
        chunks = list(scan)
    sizes = [sum(stretch.raw_bytes for stretch in chunk) for chunk in chunks]
    assert all(size >= 200 for size in sizes[:-1])
    assert len(chunks) > 5
    assert [int(stretch.positions[0]) for chunk in chunks for stretch in chunk] == list(range(1, 151, 5))


def test_shards_that_are_not_named_are_left_out(cluster: Cluster, local: bool) -> None:
    records = fill(cluster, 20)
    for shard in (0, 1):
        with Scan(cluster.bootstrap, 3, 98, shards=frozenset({shard}), chunk_bytes=100, local=local) as scan:
            wanted = [record.position for record in records if record.shard == shard and 3 <= record.position < 98]
            assert positions(scan) == wanted != []


def test_a_filter_and_shards_go_together(cluster: Cluster) -> None:
    records = fill(cluster, 20)
    where = ithaca.KeyFilter.equals(b"odd")
    with Scan(cluster.bootstrap, 1, 101, where=where, shards=frozenset({1}), chunk_bytes=1 << 20) as scan:
        assert positions(scan) == [each.position for each in records if each.shard == 1 and each.key == b"odd"]


def test_a_shard_that_is_not_there_has_nothing(cluster: Cluster, local: bool) -> None:
    fill(cluster, 2)
    with Scan(cluster.bootstrap, 1, 11, shards=frozenset({7}), chunk_bytes=100, local=local) as scan:
        assert positions(scan) == []


def test_a_scan_may_be_left_early(cluster: Cluster, local: bool) -> None:
    fill(cluster, 30)
    with Scan(cluster.bootstrap, 1, 151, chunk_bytes=50, local=local) as scan:
        next(iter(scan))
        assert 1 < scan.position < 151
    scan.close()


def test_what_is_trimmed_is_told(cluster: Cluster, local: bool) -> None:
    fill(cluster, 10)
    with ithaca.connect(cluster.bootstrap) as log:
        log.trim(20)
    with Scan(cluster.bootstrap, 5, 51, chunk_bytes=100, local=local) as scan, pytest.raises(ithaca.Trimmed):
        positions(scan)


def test_nobody_there_is_told() -> None:
    with pytest.raises(ithaca.Unavailable):
        Scan("127.0.0.1:9", 1, 2, chunk_bytes=1, timeout=0.3)
