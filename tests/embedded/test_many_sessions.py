"""Many named sessions in one log."""

from pathlib import Path

import pytest

import ithaca
from ithaca.embedded.stats import collect
from ithaca.model.limits import SEGMENT_BYTES_MIN, SESSIONS_MAX


def test_a_session_table_larger_than_a_segment_does_not_make_every_append_one(tmp_path: Path) -> None:
    with ithaca.open(tmp_path / "log", durability="os", segment_bytes=SEGMENT_BYTES_MIN) as log:
        for number in range(SEGMENT_BYTES_MIN // 64):
            log.session(f"{number:064}")
        segments = collect(tmp_path / "log").segments
        for _ in range(50):
            log.append(b"x")
        assert collect(tmp_path / "log").segments <= segments + 1


def test_one_session_too_many_expires_the_one_unused_for_longest(tmp_path: Path) -> None:
    with ithaca.open(tmp_path / "log", durability="os") as log:
        oldest = log.session("oldest")
        receipt = oldest.append(b"x")
        for number in range(SESSIONS_MAX):
            log.session(str(number))
        with pytest.raises(ithaca.SessionExpired, match=str(SESSIONS_MAX)):
            oldest.append(b"x", seq=1)
        assert log.tail() == receipt.position + 1
