"""Retention by bytes and by age: the oldest records go, the rest stays where it is."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.embedded.clock import Clock

import ithaca
from ithaca.embedded import retention
from ithaca.model.errors import InvalidInput, Trimmed
from ithaca.model.limits import RETENTION_STEPS, RETENTION_WAIT_S
from ithaca.model.records import Retention

RECORD_BYTES = 16 << 10
SEGMENT_BYTES = 8 * RECORD_BYTES
RECORDS = 100


@pytest.fixture(autouse=True)
def _checked_always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "RETENTION_CHECK_S", 0.0)


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


DAY_S = 86_400.0
A_DAY = Retention(age=timedelta(days=1))


@pytest.mark.parametrize("ahead_s", [25 * 3600.0, 365 * DAY_S])
def test_a_clock_that_is_ahead_for_a_moment_trims_nothing(
    tmp_path: Path, clock: Clock, ahead_s: float, caplog: pytest.LogCaptureFixture
) -> None:
    with ithaca.open(tmp_path / "log", retention=A_DAY) as log:
        for n in range(RECORDS):
            log.append(b"%d" % n)
        clock.ahead_s = ahead_s
        for _ in range(3):
            log.append(b"while it was wrong")
        clock.ahead_s = 0.0
        clock.passed_s = 3600.0
        for _ in range(3):
            log.append(b"after that")
        assert log.first() == 1
    assert "are too old by this machine's clock" in caplog.text


@pytest.mark.parametrize("ahead_s", [25 * 3600.0, 365 * DAY_S])
def test_a_clock_that_was_ahead_at_the_opening_trims_nothing(tmp_path: Path, clock: Clock, ahead_s: float) -> None:
    with ithaca.open(tmp_path / "log", retention=A_DAY) as log:
        log.append(b"a")
    clock.ahead_s = ahead_s
    with ithaca.open(tmp_path / "log", retention=A_DAY) as log:
        log.append(b"b")
        assert log.first() == 1
    clock.ahead_s = 0.0
    with ithaca.open(tmp_path / "log", retention=A_DAY) as log:
        log.append(b"c")
        assert log.first() == 1


def test_a_clock_that_stays_ahead_is_believed_after_a_while(tmp_path: Path, clock: Clock) -> None:
    with ithaca.open(tmp_path / "log", retention=A_DAY) as log:
        for n in range(RECORDS):
            log.append(b"%d" % n)
        clock.ahead_s = 25 * 3600.0
        log.append(b"announced")
        clock.passed_s += RETENTION_WAIT_S
        firsts = []
        for _ in range(RETENTION_STEPS + 1):  # a trim goes with the next commit
            log.append(b"another")
            firsts.append(log.first())
        assert firsts[0] <= RECORDS // RETENTION_STEPS + 2, "in steps"
        assert firsts == sorted(firsts)
        assert firsts[-1] == RECORDS + 1


def test_what_grew_old_while_nobody_was_there_goes_after_a_while(tmp_path: Path, clock: Clock) -> None:
    with ithaca.open(tmp_path / "log", retention=A_DAY) as log:
        log.append_many([b"old"] * RECORDS)
        clock.passed_s += DAY_S / 2
        log.append_many([b"older than a day soon"] * RECORDS)
    clock.passed_s += DAY_S / 4 * 3
    with ithaca.open(tmp_path / "log", retention=A_DAY) as log:
        log.append(b"new")
        assert log.first() == 1, "it was not too old when the last process wrote"
        clock.passed_s += RETENTION_WAIT_S
        for _ in range(RETENTION_STEPS + 1):  # a trim goes with the next commit
            log.append(b"new")
        assert log.first() == RECORDS + 1
    clock.passed_s += DAY_S
    with ithaca.open(tmp_path / "log", retention=A_DAY) as log:
        log.append(b"newer")
    clock.passed_s += 1
    with ithaca.open(tmp_path / "log", retention=A_DAY) as log:
        log.append(b"newer")
        assert log.first() == 1 + RECORDS, "more than half of the log waits"
        clock.passed_s += RETENTION_WAIT_S
        for _ in range(RETENTION_STEPS + 1):  # a trim goes with the next commit
            log.append(b"newer")
        assert log.first() > 2 * RECORDS


def test_it_waits_for_consumers_that_are_behind(tmp_path: Path) -> None:
    kept = Retention(bytes=2 * SEGMENT_BYTES, keep_for_consumers=["slow"])
    with ithaca.open(tmp_path / "log", segment_bytes=SEGMENT_BYTES, retention=kept) as log:
        consumer = log.consumer("slow")
        log.consumer("nobody waits for it")
        for n in range(RECORDS):
            log.append(b"%05d" % n + bytes(RECORD_BYTES))
        assert log.first() == 1
        consumer.poll(max_records=20)
        consumer.commit()
        log.append(b"one more")
        assert log.first() == 21
        log.delete_consumer("slow")
        log.append(b"one more")
        assert log.first() > RECORDS // 2


@pytest.mark.parametrize("wrong", ["billing", 7, [b"billing"], None])
def test_whom_it_waits_for_is_checked(wrong: Any) -> None:
    with pytest.raises(InvalidInput, match="keep_for_consumers"):
        Retention("1h", keep_for_consumers=wrong)
