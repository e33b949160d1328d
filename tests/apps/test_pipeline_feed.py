"""Sources append all they have, wait when they are held, and say so when they cannot append."""

from collections.abc import Iterator

import pytest

import ithaca
from ithaca.apps.demo_cast import DemoFailed
from ithaca.apps.pipelines.claims import Claims
from ithaca.apps.pipelines.events import Event, encode, read_all
from ithaca.apps.pipelines.feed import Feed
from ithaca.testing import Cluster

RECORDS = 100


def made(source: int) -> Iterator[Event]:
    for number in range(RECORDS):
        yield b"key", encode({"source": source, "number": number})


def sources() -> dict[int, Iterator[Event]]:
    return {source: made(source) for source in (0, 1)}


def test_everything_is_appended_in_order_and_a_held_feed_waits_for_new_shards() -> None:
    with Cluster(shards=2) as cluster, ithaca.connect(cluster.bootstrap) as log:
        with Feed(cluster.bootstrap, sources(), batch_records=10, hold_at=150) as feed:
            feed.wait_for(150)
            added = cluster.add_shard()
            log.admin.finalize_shard(0)
            log.admin.finalize_shard(1)
            before = log.tail()
            assert before < 2 * RECORDS - 10  # the held sources may each have had one batch under way
            feed.go_on()
            feed.finish()
        assert feed.acknowledged == 2 * RECORDS
        Claims(lambda text: None).log_holds(read_all(log), sources())
        assert {record.shard for record in log.read_range(before)} == {added}


def test_a_source_that_fails_is_told() -> None:
    def broken() -> Iterator[Event]:
        yield b"key", b"value"
        raise ValueError("no more ink")

    with (
        Cluster() as cluster,
        Feed(cluster.bootstrap, {0: broken()}) as feed,
        pytest.raises(DemoFailed, match="a source could not append: no more ink"),
    ):
        feed.finish()
