"""The sparse index against a list of everything that was noted."""

from bisect import bisect_right

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.storage.lanes import disk_of

from ithaca.model.limits import INDEX_STRIDE_BYTES
from ithaca.storage import index
from ithaca.storage.index import Index


@settings(max_examples=100)
@given(
    steps=st.lists(st.tuples(st.integers(1, 9), st.integers(8, 900), st.integers(0, 5)), max_size=60),
    stored_every=st.integers(1, 12),
)
def test_an_index_finds_the_last_entry_at_or_before(steps: list[tuple[int, int, int]], stored_every: int) -> None:
    built, noted = Index(), list[tuple[int, int, int]]()
    disk = disk_of({"x.idx": b""})
    file = disk.open("/lane/x.idx")
    lsn, offset, time_us, blocks = 0, 64, 100, 0
    for number, (records, size, later_us) in enumerate(steps):
        time_us += later_us
        built.note(lsn, offset, time_us)
        if not noted or offset >= noted[-1][1] + INDEX_STRIDE_BYTES:
            noted.append((lsn, offset, time_us))
        lsn, offset = lsn + records, offset + size * 1000
        if number % stored_every == 0:
            built.store_block(file, offset, lsn)
            built.store_block(file, offset, lsn)  # the second time changes nothing
            blocks += 1
    loaded, problem = index.load(file.read(0, 1 << 20), segment_bytes=offset)
    assert problem == ""
    assert loaded.blocks == built.blocks
    assert len(built.blocks) == blocks
    stored = [entry for entry in noted if loaded.blocks and entry[1] < loaded.blocks[-1].end_offset]
    for found, known in ((built, noted), (loaded, stored)):
        assert list(found.entries()) == [entry[:2] for entry in known]
        for probe in range(-1, lsn + 2):
            at = bisect_right([entry[0] for entry in known], probe) - 1
            assert found.floor(probe) == (known[at][:2] if at >= 0 else None)
        for probe in range(98, time_us + 3):
            before = [entry[:2] for entry in known if entry[2] < probe]
            assert found.floor_time(probe) == (before[-1] if before else None)


def test_a_damaged_index_is_used_up_to_the_damage() -> None:
    built = Index()
    file = disk_of({"x.idx": b""}).open("/lane/x.idx")
    for number in range(1, 4):
        built.note(number, number * 100_000, number)
        built.store_block(file, number * 100_000 + 64, number + 1)
    data = file.read(0, 1 << 20)
    third = len(data) // 3
    for at in range(len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 1
        loaded, problem = index.load(bytes(damaged), segment_bytes=1 << 20)
        assert loaded.blocks == built.blocks[: at // third]
        assert problem
    for size in range(len(data)):
        loaded, problem = index.load(data[:size], segment_bytes=1 << 20)
        assert loaded.blocks == built.blocks[: size // third]
        assert bool(problem) == bool(size % third)
    cut, problem = index.load(data, segment_bytes=250_000)
    assert (cut.blocks, cut.synced_offset) == (built.blocks[:2], 300_064)
    assert "does not fit" in problem


def test_a_block_holds_nothing_behind_its_end() -> None:
    """A segment may be cut there, and go on with other batches: what the block says must hold for both."""
    file = disk_of().open("/lane/0.idx", create=True)
    built = Index()
    for lsn, offset in ((0, 0), (5, 100_000), (9, 200_000)):
        built.note(lsn, offset, lsn)
    built.store_block(file, 150_000, 7)
    loaded, _ = index.load(file.read(0, 1 << 20), segment_bytes=150_000)
    assert list(loaded.entries()) == [(0, 0), (5, 100_000)]
    built.store_block(file, 250_000, 12)
    loaded, wrong = index.load(file.read(0, 1 << 20), segment_bytes=250_000)
    assert (list(loaded.entries()), wrong) == ([(0, 0), (5, 100_000), (9, 200_000)], "")
