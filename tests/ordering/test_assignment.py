"""Which aggregator a shard gets, and that few shards move when aggregators come and go."""

from collections import Counter

from ithaca.engines.scalog.ordering.assignment import chosen

SHARDS = range(600)


def test_nobody_is_chosen_from_nobody() -> None:
    assert chosen(3, []) is None
    assert chosen(3, [7]) == 7


def test_the_order_of_aggregators_does_not_matter() -> None:
    assert [chosen(shard, [1, 2, 3]) for shard in SHARDS] == [chosen(shard, [3, 1, 2]) for shard in SHARDS]


def test_every_aggregator_gets_its_share() -> None:
    counts = Counter(chosen(shard, [1, 2, 3]) for shard in SHARDS)
    assert set(counts) == {1, 2, 3}
    assert all(160 < count < 240 for count in counts.values())


def test_only_the_shards_of_an_aggregator_that_goes_move() -> None:
    for shard in SHARDS:
        before, after = chosen(shard, [1, 2, 3]), chosen(shard, [1, 3])
        assert after == before or before == 2
