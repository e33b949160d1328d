"""A backup at a pace, no more than so many bytes a second; and one that rests while others append."""

from functools import partial
from pathlib import Path

import pytest

import ithaca
from ithaca.archive.backup import back_up
from ithaca.archive.pacing import REST_S_MAX, RESTS, STRETCH_BYTES, Pacing, Yielding
from ithaca.model.errors import InvalidInput


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


def test_bytes_are_taken_at_the_pace_and_time_is_not_saved_up() -> None:
    clock = Clock()
    pacing = Pacing(1000, now_s=clock, sleep=clock.sleep)
    for _ in range(10):
        pacing.took(500)
    assert clock.now_s == 5
    clock.now_s += 100
    pacing.took(2000)
    assert clock.now_s == 107


def test_without_a_pace_nobody_sleeps() -> None:
    clock = Clock()
    Pacing(None, now_s=clock, sleep=clock.sleep).took(1 << 40)
    assert clock.now_s == 0


def test_a_pace_is_a_size(tmp_path: Path) -> None:
    with ithaca.open(tmp_path / "log", durability="os") as log:
        log.append(b"a")
        with pytest.raises(InvalidInput, match="pace is 'slow'"):
            back_up(log, tmp_path / "kept", pace="slow")
        assert not (tmp_path / "kept").exists()
        assert back_up(log, tmp_path / "kept", pace="1GB").added == 1


class Work:
    """Takes a second for each stretch; others append while `is_busy`."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.is_busy = True
        self.tail = 1
        self.yielding = Yielding(lambda: self.tail, now_s=self.clock, sleep=self.clock.sleep)

    def stretch(self, took_s: float = 0.1) -> float:
        """How long it rested."""
        before_s = self.clock.now_s
        self.yielding.worked(STRETCH_BYTES - 1)
        self.clock.now_s += took_s
        self.tail += self.is_busy
        self.yielding.worked(1)
        return self.clock.now_s - before_s - took_s


def test_it_rests_while_others_append_and_only_then() -> None:
    work = Work()
    assert work.stretch() == pytest.approx(0.1 * RESTS)
    work.is_busy = False
    assert work.stretch() == pytest.approx(0)
    work.is_busy = True
    assert work.stretch() == pytest.approx(0.1 * RESTS)
    assert work.stretch(took_s=60) == pytest.approx(REST_S_MAX)


def test_what_was_appended_during_a_rest_is_no_reason_for_the_next() -> None:
    work = Work()
    rested: list[float] = []

    def sleep(seconds: float) -> None:
        rested.append(seconds)
        work.tail += 1

    work.yielding = Yielding(lambda: work.tail, now_s=work.clock, sleep=sleep)
    work.stretch()
    work.is_busy = False
    work.stretch()
    assert len(rested) == 1


def test_a_backup_rests_while_others_append_unless_it_is_told_not_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rested: list[float] = []
    monkeypatch.setattr("ithaca.archive.pacing.STRETCH_BYTES", 1000)
    monkeypatch.setattr("ithaca.archive.backup.Yielding", partial(Yielding, sleep=rested.append))
    with ithaca.open(tmp_path / "log", durability="os") as log:
        log.append_many([b"x" * 500] * 10)
        back_up(log, tmp_path / "alone", advance=lambda done: None)
        assert rested == []
        back_up(log, tmp_path / "busy", advance=lambda done: log.append(b"y"))
        assert len(rested) >= 1
        rested.clear()
        back_up(log, tmp_path / "quick", advance=lambda done: log.append(b"y"), yields=False)
        assert rested == []
