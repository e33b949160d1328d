"""The bare file writes what it is told where it should: a ceiling over other bytes would be no ceiling."""

from pathlib import Path

import pytest

from ithaca.bench.bare import BareFile, CeilingSettings, bare_contender, batches_of

SETTINGS = CeilingSettings(record_bytes=10, batch=2, file_bytes=50, seconds=None, bytes=100)


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


def test_a_prewritten_file_keeps_its_size_and_is_written_over(tmp_path: Path) -> None:
    file = BareFile(tmp_path / "file", "prewritten", SETTINGS)
    assert contents(tmp_path) == {"file.0": bytes(40)}
    for letter in b"abc":
        file.write(memoryview(bytes([letter]) * 20))
    assert contents(tmp_path) == {"file.0": b"c" * 20 + b"b" * 20}
    file.close()
    assert contents(tmp_path) == {}


def test_a_growing_file_grows_and_another_follows(tmp_path: Path) -> None:
    file = BareFile(tmp_path / "file", "append", SETTINGS)
    assert contents(tmp_path) == {"file.0": b""}
    for letter in b"abc":
        file.write(memoryview(bytes([letter]) * 20))
    assert contents(tmp_path) == {"file.0": b"a" * 20 + b"b" * 20, "file.1": b"c" * 20}
    file.reset()
    assert contents(tmp_path) == {"file.0": b""}
    file.close()
    assert contents(tmp_path) == {}


@pytest.mark.parametrize("kind", ["prewritten", "append"])
def test_a_contender_counts_what_it_wrote(tmp_path: Path, kind: str) -> None:
    file = BareFile(tmp_path / "file", kind, SETTINGS)
    got = bare_contender(file, batches_of(SETTINGS.batch_bytes), SETTINGS)()
    assert (got.records, got.bytes) == (10, 100)
    assert got.latency.max > 0
    file.close()


def test_batches_are_slices_that_differ() -> None:
    batches = batches_of(1 << 20)
    assert {len(batch) for batch in batches} == {1 << 20}
    assert len({bytes(batch) for batch in batches}) == len(batches) == 16
    assert len(batches_of(17 << 20)) == 1
