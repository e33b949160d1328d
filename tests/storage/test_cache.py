"""The tail cache against a list that is cut from the front."""

import gc
import tracemalloc

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.wire.batches import data_of

from ithaca.model.positions import LaneId
from ithaca.storage.cache import CacheBudget, TailCache
from ithaca.wire.batch import Batch, lane_seed, parse
from ithaca.wire.build import build

SEED = lane_seed(LaneId(0, 0, 1))


@settings(max_examples=100)
@given(
    start=st.integers(0, 5),
    shapes=st.lists(st.tuples(st.integers(1, 5), st.integers(0, 200)), max_size=300),
    bytes_max=st.integers(0, 30_000),
)
def test_the_cache_holds_the_newest_batches_that_fit(start: int, shapes: list[tuple[int, int]], bytes_max: int) -> None:
    cache, model, lsn = TailCache(bytes_max), list[Batch](), start
    for count, size in shapes:
        batch = build([bytes(size)] * count, timestamp_us=0).placed(lsn, SEED)
        cache.add(batch)
        cache.add(batch)  # known already
        lsn = batch.end_lsn
        model.append(batch)
        while model and sum(kept.kept_bytes for kept in model) > bytes_max:
            model.pop(0)
    for probe in range(max(0, start - 1), lsn + 2):
        expected = [batch for batch in model if batch.end_lsn > probe]
        held = bool(expected) and expected[0].base_lsn <= probe
        assert cache.get(probe, 1 << 30) == (expected if held else [])
        assert cache.get(probe, 0) == (expected[:1] if held else [])
        if held:
            assert cache.get(probe, expected[0].total_bytes) == expected[:1], "as much as was asked for, and no more"
            for stop in (probe + 1, probe + 4):
                wanted = [batch for batch in expected if batch.base_lsn < stop]
                assert cache.get(probe, 1 << 30, stop) == wanted, "and nothing behind what was asked for"


def test_the_bound_is_on_what_is_kept_in_memory() -> None:
    """Small batches are mostly the objects around them, and compressed ones are looked at, but not kept, as columns."""
    bytes_max = 1 << 20
    cache = TailCache(bytes_max)
    tiny = [data_of(build([b"x"], [b"k"], timestamp_us=1 << 50).placed(lsn, SEED)) for lsn in range(4000)]
    large = build([bytes(1 << 20)], [b"k"], timestamp_us=1 << 50, compress="zstd")
    gc.collect()
    tracemalloc.start()
    try:
        for data in tiny:
            cache.add(parse(data))
        for lsn in range(len(tiny), len(tiny) + 200):
            cache.add(parse(data_of(large.placed(lsn, SEED))))
            (newest,) = cache.get(lsn, 0)
            newest.columns()
        gc.collect()
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(cache.get(len(tiny) - 1, 1 << 30)) > 200, "some of the small ones are left"
    assert kept < bytes_max


@settings(max_examples=100)
@given(
    adds=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3000)), max_size=80),
    together=st.integers(0, 12_000),
    each=st.integers(0, 6000),
)
def test_caches_that_share_a_budget_keep_no_more_than_it(adds: list[tuple[int, int]], together: int, each: int) -> None:
    """The one that was added to last keeps what it may keep alone; the others what is left, the newest first."""
    budget = CacheBudget(together)
    caches = [TailCache(each, budget) for _ in range(4)]
    ends = [0] * 4
    for number, size in adds:
        batch = build([bytes(size)], timestamp_us=0).placed(ends[number], SEED)
        caches[number].add(batch)
        ends[number] = batch.end_lsn
        kept = [cache.bytes for cache in caches]
        assert budget.bytes == sum(kept)
        assert sum(kept) <= max(together, kept[number])
        assert all(size <= each for size in kept)
        assert [bool(cache.get(end - 1, 0)) for cache, end in zip(caches, ends, strict=True) if end] == [
            size > 0 for size, end in zip(kept, ends, strict=True) if end
        ]


def test_the_cache_that_nothing_was_added_to_for_longest_gives_way() -> None:
    batch = build([b"x"], timestamp_us=0)
    budget = CacheBudget(3 * batch.kept_bytes)
    first, second, third = (TailCache(1 << 20, budget) for _ in range(3))
    for cache, lsn in ((first, 0), (second, 0), (first, 1), (third, 0)):
        cache.add(build([b"x"], timestamp_us=0).placed(lsn, SEED))
    assert [len(cache.get(0, 1 << 20)) for cache in (first, second, third)] == [2, 0, 1]
    second.add(build([b"x"], timestamp_us=0).placed(1, SEED))
    assert [len(cache.get(1, 1 << 20)) for cache in (first, second)] == [0, 1], "the first is the oldest now"
    del cache, third
    gc.collect()
    assert budget.bytes == second.bytes == batch.kept_bytes
