"""Seen ranges, against a dictionary of positions."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from ithaca.engines.scalog.client.read.seen import SeenRanges

STRETCHES = st.lists(st.tuples(st.integers(1, 6), st.integers(0, 2)), min_size=1, max_size=30)


@given(STRETCHES, st.randoms(use_true_random=False))
def test_whatever_is_remembered_is_right(stretches: list[tuple[int, int]], chance: Random) -> None:
    truth: dict[int, int] = {}
    ranges, position = [], 1
    for count, shard in stretches:
        ranges.append((position, position + count, shard))
        truth.update(dict.fromkeys(range(position, position + count), shard))
        position += count
    chance.shuffle(ranges)
    seen = SeenRanges()
    for start, stop, shard in ranges:
        seen.add(start, stop, shard)
        seen.add(start, stop, shard)
    assert [seen.shard_of(place) for place in range(1, position)] == [truth[place] for place in range(1, position)]
    assert seen.shard_of(position) is None
    assert seen.shard_of(0) is None


def test_neighbours_become_one_and_the_oldest_go_first() -> None:
    seen = SeenRanges(ranges_max=8)
    for start in range(1, 100):
        seen.add(start, start + 1, 0)
    assert len(seen) == 1
    for start in range(100, 130):
        seen.add(start, start + 1, start % 2)
    assert len(seen) <= 8
    assert seen.shard_of(1) is None
    assert seen.shard_of(129) == 1
