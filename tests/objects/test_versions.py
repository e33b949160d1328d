"""Versions on clusters of several shards: objects that move, and an index of what a trim has left."""

import pytest

import ithaca
from ithaca.model.errors import ShardFinalized, Trimmed
from ithaca.objects import Versions
from ithaca.testing import Cluster


def test_an_object_moves_when_its_shard_is_finalized() -> None:
    with (
        Cluster(shards=2, replicas=1) as cluster,
        ithaca.connect(cluster.bootstrap) as log,
        Versions(log) as pages,
        Versions(log) as other,
    ):
        first = pages.put(b"home", b"1", shard=0)
        stays = pages.put(b"news", b"1", shard=1)
        assert other.get(b"home") == b"1"
        log.admin.finalize_shard(0)
        with pytest.raises(ShardFinalized):
            pages.put(b"home", b"refused", shard=0)
        moved = other.put(b"home", b"2")
        assert (first.shard, moved.shard) == (0, 1), "whoever knows of no finalizing is not refused either"
        assert pages.history(b"home") == other.history(b"home") == [first, moved]
        assert pages.get(b"home") == b"2"
        assert pages.get(b"home", as_of=moved.position - 1) == pages.read(first) == b"1"
        assert pages.shards() == {0: 1, 1: 2}
        assert pages.put(b"home", b"3").shard == 1, "it stays where it has moved to"
        with Versions(log) as rebuilt:
            assert rebuilt.newest(b"home", as_of=first.position) == first
            assert rebuilt.objects(1) == [b"home", stays.object]


def test_an_index_is_built_of_what_a_trim_has_left() -> None:
    with (
        Cluster(shards=2, replicas=1) as cluster,
        ithaca.connect(cluster.bootstrap) as log,
        Versions(log) as before,
    ):
        gone = [before.put(b"home", b"1", shard=0), before.put(b"old", b"1", shard=1)]
        kept = [before.put(b"home", b"2", shard=1), before.put(b"home", b"3", shard=0)]
        log.trim(kept[0].position)
        assert log.first() == kept[0].position
        with Versions(log) as after:
            assert after.history(b"home") == before.history(b"home") == kept
            assert (after.get(b"home"), after.get(b"home", as_of=kept[0].position)) == (b"3", b"2")
            assert after.get(b"home", as_of=gone[0].position) is None
            assert after.newest(b"old") is None
            assert after.shards() == {0: 1, 1: 1}
            assert after.put(b"home", b"4").shard == 0, "where the newest version is"
            with pytest.raises(Trimmed):
                after.read(gone[0])
            assert before.get(b"home") == b"4"
