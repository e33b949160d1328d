"""Batches that are built already: sent as they are put, answered in their order."""

import time
from collections.abc import Iterator

import pytest

import ithaca
from ithaca.engines.scalog.client.append.part_writer import AsyncPartWriter
from ithaca.engines.tasks import BatchAppends, BatchPart
from ithaca.testing import Cluster
from ithaca.wire.batch import Batch
from ithaca.wire.build import build


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(replicas=1) as running:
        yield running


def batch(*values: bytes) -> Batch:
    return build(values, timestamp_us=7)


def test_receipts_come_in_the_order_of_the_batches(cluster: Cluster) -> None:
    with ithaca.connect(cluster.bootstrap) as log, BatchAppends(cluster.bootstrap, timeout=10) as appends:
        before = log.tail()
        appends.put(batch(b"a", b"b"))
        while not appends._pending[0].done():
            time.sleep(0.001)
        appends.put(batch(b"c"))
        appends.put(batch(b"d"))
        receipts = appends.finish()
        assert [receipt.position for receipt in receipts] == [before, before + 2, before + 3]
        with log.read_range(before) as records:
            assert [record.value for record in records] == [b"a", b"b", b"c", b"d"]


def test_a_part_is_none_without_a_batch_and_gone_unless_it_is_finished(cluster: Cluster) -> None:
    with BatchPart(cluster.bootstrap, timeout=10) as nothing:
        assert nothing.finish() is None
    with ithaca.connect(cluster.bootstrap) as log:
        with BatchPart(cluster.bootstrap, timeout=10) as finished:
            finished.put(batch(b"a"))
            finished.put(batch(b"b", b"c"))
            part = finished.finish()
            assert part is not None
        assert part.length == 3
        assert len(log.publish(1, [part], writer="w").positions) == 3
        with BatchPart(cluster.bootstrap, timeout=10) as left:
            left.put(batch(b"a"))
            assert isinstance(left._writer, AsyncPartWriter)
            unfinished = ithaca.Part(left._writer.lane, 1, left._writer._token)
        with pytest.raises(ithaca.PartGone):
            log.publish(2, [unfinished], writer="w")
