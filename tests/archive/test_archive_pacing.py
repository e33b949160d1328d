"""A backup at a pace: no more than so many bytes a second, whoever waits for them."""

from pathlib import Path

import pytest

import ithaca
from ithaca.archive.backup import back_up
from ithaca.archive.pacing import Pacing
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
