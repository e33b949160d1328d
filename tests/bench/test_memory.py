"""A tiny run of the memory bench: what it reports, and that it reads along."""

from pathlib import Path

import pytest

from ithaca.bench.memory import SAMPLES, MemorySettings, private_memory_bytes, run_memory
from ithaca.model.limits import KIB, MIB


def test_private_memory_grows_with_what_is_held() -> None:
    before = private_memory_bytes()
    held = bytearray(64 * MIB)
    held[:: 4 * KIB] = b"x" * (len(held) // (4 * KIB))  # touch every page
    assert private_memory_bytes() - before > 48 * MIB
    assert len(held) == 64 * MIB


@pytest.mark.parametrize(("baseline_bytes", "noted_at"), [(MIB, MIB), (3 * MIB, 12 * 32 * KIB)])
def test_memory_is_noted_early_and_at_the_end(tmp_path: Path, baseline_bytes: int, noted_at: int) -> None:
    settings = MemorySettings(
        bytes=4 * MIB,
        baseline_bytes=baseline_bytes,
        record_bytes=4 * KIB,
        batch=8,
        retention_bytes=256 * KIB,
        segment_bytes=64 * KIB,
        durability="os",
    )
    told: list[str] = []
    report = run_memory(tmp_path / "bench", settings, told.append)
    assert report["end_at_bytes"] == 4 * MIB
    assert report["baseline_at_bytes"] == noted_at, "as asked, or a tenth of a run that is too short for it"
    assert report["records_read"] == 4 * MIB // (4 * KIB)
    assert report["growth_bytes"] == report["end_rss_anon_bytes"] - report["baseline_rss_anon_bytes"]
    assert report["peak_rss_anon_bytes"] >= report["end_rss_anon_bytes"] > 0
    assert len(told) >= SAMPLES
    assert list(tmp_path.iterdir()) == []
