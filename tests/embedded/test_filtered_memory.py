"""What reading compressed records takes: bounded by a chunk and one batch, whatever they become."""

import gc
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

import ithaca
from ithaca.model.limits import BATCH_BYTES_MAX, MIB, POLL_BYTES_MAX, READ_CHUNK_BYTES
from ithaca.model.records import KeyFilter

BATCHES = 24
VALUE_BYTES = 4 * MIB


@pytest.fixture
def path(tmp_path: Path) -> str:
    """384 MiB in a few kilobytes: batches of four records with two keys."""
    place = str(tmp_path / "log")
    with ithaca.open(place, compression="zstd", durability="os") as log:
        for _ in range(BATCHES):
            log.append_many([bytes(VALUE_BYTES)] * 4, keys=[b"a", b"b"] * 2)
    return place


def most_bytes(work: Callable[[], None]) -> int:
    """What was allocated at the worst moment of some work."""
    gc.collect()
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("where", [None, KeyFilter.equals(b"a"), KeyFilter.prefix(b"")])
def test_a_range_decompresses_a_batch_at_a_time(path: str, where: KeyFilter | None) -> None:
    def read() -> None:
        with ithaca.open(path, mode="r") as log, log.read_range(1, where=where) as records:
            found = sum(len(record.value) for record in records)
            assert found == BATCHES * (2 if where is not None and where.key else 4) * VALUE_BYTES

    assert most_bytes(read) < READ_CHUNK_BYTES + 2 * BATCH_BYTES_MAX


def test_a_poll_returns_what_it_has_when_it_has_decompressed_enough(path: str) -> None:
    def read() -> None:
        with ithaca.open(path, mode="r") as log, log.subscribe("earliest") as records:
            polled = [0]
            while sum(polled) < BATCHES * 4 * VALUE_BYTES:
                found = [len(record.value) for record in records.poll(timeout=0, max_records=1000)]
                assert found
                polled.append(sum(found))
            assert max(polled) < POLL_BYTES_MAX + BATCH_BYTES_MAX
            assert records.poll(timeout=0) == []

    assert most_bytes(read) < 2 * (POLL_BYTES_MAX + BATCH_BYTES_MAX)
