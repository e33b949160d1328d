"""The `synced` file: what was stored last, or nothing."""

from hypothesis import given
from hypothesis import strategies as st
from tests.storage.lanes import disk_of

from ithaca.storage.synced import Progress, ProgressFile


@given(st.lists(st.tuples(*[st.integers(0, (1 << 64) - 1)] * 5), min_size=1, max_size=5))
def test_the_synced_file_says_what_was_stored_last(stored: list[tuple[int, int, int, int, int]]) -> None:
    disk = disk_of()
    reading = ProgressFile(disk, "/lane", writable=False)
    assert reading.load() is None, "the file may be missing"
    writing = ProgressFile(disk, "/lane", writable=True)
    assert writing.load() is None
    for fields in stored:
        writing.store(Progress(*fields))
        assert reading.load() == writing.load() == Progress(*fields)
    data = disk.open("/lane/synced").read(0, 99)
    for at in range(len(data)):
        disk.flip_bit("/lane/synced", at, at % 8)
        assert reading.load() is None
        disk.flip_bit("/lane/synced", at, at % 8)
        assert ProgressFile(disk_of({"synced": data[:at]}), "/lane", writable=False).load() is None
