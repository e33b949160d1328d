"""The tail cache against a list that is cut from the front."""

from hypothesis import given, settings
from hypothesis import strategies as st

from ithaca.model.positions import LaneId
from ithaca.storage.cache import TailCache
from ithaca.wire.batch import Batch, lane_seed
from ithaca.wire.build import build

SEED = lane_seed(LaneId(0, 0, 1))


@settings(max_examples=100)
@given(
    start=st.integers(0, 5),
    shapes=st.lists(st.tuples(st.integers(1, 5), st.integers(0, 200)), max_size=300),
    bytes_max=st.integers(0, 3000),
)
def test_the_cache_holds_the_newest_batches_that_fit(start: int, shapes: list[tuple[int, int]], bytes_max: int) -> None:
    cache, model, lsn = TailCache(bytes_max), list[Batch](), start
    for count, size in shapes:
        batch = build([bytes(size)] * count, timestamp_us=0).placed(lsn, SEED)
        cache.add(batch)
        cache.add(batch)  # known already
        lsn = batch.end_lsn
        model.append(batch)
        while model and sum(kept.total_bytes for kept in model) > bytes_max:
            model.pop(0)
    for probe in range(max(0, start - 1), lsn + 2):
        expected = [batch for batch in model if batch.end_lsn > probe]
        held = bool(expected) and expected[0].base_lsn <= probe
        assert cache.get(probe, 1 << 30) == (expected if held else [])
        assert cache.get(probe, 0) == (expected[:1] if held else [])
