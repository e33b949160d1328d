"""Retention by bytes and by age: the oldest records go, the rest stays where it is."""

from datetime import timedelta
from pathlib import Path

import pytest

import ithaca
from ithaca.embedded import engine
from ithaca.model.errors import InvalidInput, Trimmed
from ithaca.model.records import Retention

RECORD_BYTES = 16 << 10
SEGMENT_BYTES = 8 * RECORD_BYTES
RECORDS = 100


@pytest.fixture(autouse=True)
def _checked_always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "RETENTION_CHECK_S", 0.0)


def disk_bytes(directory: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in directory.rglob("*") if path.is_file())


def test_without_retention_everything_stays(tmp_path: Path) -> None:
    with ithaca.open(tmp_path / "log", segment_bytes=SEGMENT_BYTES) as log:
        for n in range(RECORDS):
            log.append(b"%d" % n * 100)
        assert log.first() == 1


def test_by_bytes(tmp_path: Path) -> None:
    kept_bytes = 4 * SEGMENT_BYTES
    with ithaca.open(tmp_path / "log", segment_bytes=SEGMENT_BYTES, retention=Retention(bytes=kept_bytes)) as log:
        for n in range(RECORDS):
            log.append(b"%05d" % n + bytes(RECORD_BYTES))
        first = log.first()
        assert RECORDS - kept_bytes // RECORD_BYTES - 1 <= first <= RECORDS - 2 * SEGMENT_BYTES // RECORD_BYTES
        values = [record.value[:5] for record in log.read_range(first)]
        assert values == [b"%05d" % n for n in range(first - 1, RECORDS)]
        with pytest.raises(Trimmed):
            log.read(first - 1)
    with ithaca.open(tmp_path / "log") as log:
        assert log.first() == first
        assert log.tail() == RECORDS + 1


def test_by_age(tmp_path: Path) -> None:
    with ithaca.open(
        tmp_path / "log", segment_bytes=SEGMENT_BYTES, retention=Retention(age=timedelta(microseconds=1))
    ) as log:
        for n in range(RECORDS):
            log.append(b"%05d" % n + bytes(RECORD_BYTES))
        first = log.first()
        assert RECORDS - 2 * SEGMENT_BYTES // RECORD_BYTES <= first <= RECORDS + 1
        values = [record.value[:5] for record in log.read_range(first)]
        assert values == [b"%05d" % n for n in range(first - 1, RECORDS)]
        with pytest.raises(Trimmed):
            log.read(first - 1)


def test_a_long_age_keeps_everything(tmp_path: Path) -> None:
    with ithaca.open(tmp_path / "log", segment_bytes=SEGMENT_BYTES, retention=Retention(age=timedelta(days=1))) as log:
        for n in range(RECORDS):
            log.append(b"%05d" % n + bytes(RECORD_BYTES))
        assert log.first() == 1


def test_trimmed_space_is_given_back(tmp_path: Path) -> None:
    with ithaca.open(tmp_path / "log", segment_bytes=SEGMENT_BYTES) as log:
        for round_number in range(5):
            for _ in range(RECORDS):
                log.append(bytes(RECORD_BYTES))
            log.trim(log.tail())
            log.append(b"%d" % round_number)
    assert disk_bytes(tmp_path / "log") < RECORDS * RECORD_BYTES


def test_senseless_retention_is_refused() -> None:
    for kept_bytes in (0, -1):
        with pytest.raises(InvalidInput, match="retention"):
            Retention(bytes=kept_bytes)
    with pytest.raises(InvalidInput, match="retention"):
        Retention(age=timedelta(0))
