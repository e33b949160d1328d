"""Two bare replicas really hold the same bytes; otherwise their ceiling would be too high."""

from pathlib import Path

import pytest

from ithaca.bench.bare import CeilingSettings, batches_of
from ithaca.bench.replicated import replicated_contenders


@pytest.mark.parametrize("kind", ["prewritten", "append"])
def test_an_acknowledged_batch_is_in_both_files(tmp_path: Path, kind: str) -> None:
    settings = CeilingSettings(record_bytes=1000, batch=5, seconds=None, bytes=20_000, window=2, file_bytes=20_000)
    with replicated_contenders(tmp_path, settings) as contenders:
        sample = contenders[kind]()
        assert (sample.records, sample.bytes) == (20, 20_000)
        expected = b"".join(batches_of(settings.batch_bytes)[:4])
        for replica in ("primary", "backup"):
            assert (tmp_path / replica / f"{kind}.0").read_bytes() == expected
