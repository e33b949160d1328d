"""Durations and sizes as people write them, wherever one may be given."""

from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from tests.model.small_cluster import SMALL, write

from ithaca.model.config.cluster import load_cluster
from ithaca.model.config.log import load_settings
from ithaca.model.errors import ConfigError, InvalidInput
from ithaca.model.paths import local_path
from ithaca.model.records import KeyFilter, Retention
from ithaca.model.units import byte_count, parse_duration, parse_size, seconds


@pytest.mark.parametrize(
    ("text", "expected_s"),
    [
        ("1", 1.0),
        ("0.5", 0.5),
        ("250us", 0.00025),
        ("500ms", 0.5),
        ("30s", 30.0),
        ("30 S", 30.0),
        ("5m", 300.0),
        ("5min", 300.0),
        ("12h", 43_200.0),
        ("7d", 604_800.0),
        (" 2w ", 1_209_600.0),
    ],
)
def test_durations(text: str, expected_s: float) -> None:
    assert parse_duration(text) == expected_s


@pytest.mark.parametrize("text", ["", "d", "-1", "1y", "1e3", "soon", "1 2", "7 days", "nan", "inf"])
def test_what_is_not_a_duration_is_named(text: str) -> None:
    with pytest.raises(InvalidInput, match="is not a duration: write it as 500ms"):
        parse_duration(text)
    with pytest.raises(InvalidInput, match="timeout is"):
        seconds(text)


@pytest.mark.parametrize("value", [None, True, b"1s", [], float("nan"), float("inf"), -1, timedelta(seconds=-1), 1e300])
def test_what_cannot_be_waited_for_is_refused(value: object) -> None:
    with pytest.raises(InvalidInput, match="wait is"):
        seconds(value, "wait")


def test_a_duration_is_a_number_a_timedelta_or_text() -> None:
    assert seconds(2) == seconds(2.0) == seconds("2s") == seconds(timedelta(seconds=2)) == 2


@pytest.mark.parametrize(("text", "size"), [("1", 1), ("64k", 1 << 16), ("1.5G", 3 << 29), ("10GiB", 10 << 30)])
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == byte_count(text, "size") == size


def test_a_large_number_of_bytes_is_exact() -> None:
    assert parse_size(str((1 << 60) + 1)) == (1 << 60) + 1


@pytest.mark.parametrize("value", ["", "0", "1X", 0, -1, 1.5, True, None, b"1K"])
def test_what_is_not_a_size_is_refused(value: object) -> None:
    with pytest.raises(InvalidInput, match="room is"):
        byte_count(value, "room")


def test_retention_takes_all_of_them() -> None:
    expected = Retention(timedelta(days=7), 10 << 30)
    assert Retention(age="7d", bytes="10GB") == Retention(age=7 * 86_400, bytes=10 << 30) == expected
    with pytest.raises(InvalidInput, match="retention age is 'a week': write it as"):
        Retention(age="a week")
    with pytest.raises(InvalidInput, match="retention bytes"):
        Retention(bytes=1 << 70)


def test_a_cluster_file_takes_text(tmp_path: Path) -> None:
    text = (
        '[retention]\nage_s = "7d"\nshard_bytes = "100G"\n[sessions]\nidle_s = "30d"\n[failures]\ndetection_ms = "5s"\n'
    )
    file = load_cluster(write(tmp_path, SMALL + text))
    assert file.retention == Retention("7d", "100G")
    assert (file.session_idle_s, file.failures.detection_ms) == (30 * 86_400, 5000)


def test_settings_take_text(tmp_path: Path) -> None:
    config = tmp_path / "log.toml"
    config.write_text('[log]\nretention_age_s = "90min"\nretention_bytes = "1.5G"\n')
    settings = load_settings(file=config, environ={"ITHACA_SEGMENT_BYTES": "64M", "ITHACA_RETENTION_AGE_S": "60"})
    assert settings.retention_age_s == 60
    assert (settings.retention_bytes, settings.segment_bytes) == (3 << 29, 64 << 20)
    with pytest.raises(ConfigError, match=r'retention_bytes is \'much\': use .* or text with a unit, such as "64K"'):
        load_settings(environ={"ITHACA_RETENTION_BYTES": "much"})


def test_paths_are_text_or_what_stands_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    assert local_path("~/events") == local_path(Path("~/events")) == local_path(b"~/events") == "/home/someone/events"
    for wrong in (None, 7, "", "a\0b"):
        with pytest.raises(InvalidInput, match="path is"):
            local_path(wrong)


def test_key_filters_say_that_keys_are_bytes() -> None:
    with pytest.raises(InvalidInput, match=r"keys are bytes; write b'u'"):
        KeyFilter.prefix("u")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="keys are bytes"):
        KeyFilter.equals(7)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="no kind of filter"):
        KeyFilter("suffix")  # type: ignore[arg-type]


@pytest.mark.parametrize("count", [1, 2, 3, 7, 1000])
def test_parts_share_all_hashes(count: int) -> None:
    parts = [KeyFilter.part(index, count) for index in range(count)]
    assert (parts[0].low, parts[-1].high) == (0, 1 << 64)
    assert all(one.high == other.low for one, other in pairwise(parts))
    sizes = [part.high - part.low for part in parts]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize(("index", "count"), [(0, 0), (3, 3), (-1, 3), (0.5, 3), (True, 2), ("0", 2)])
def test_what_is_no_part_is_refused(index: int, count: int) -> None:
    with pytest.raises(InvalidInput, match="part"):
        KeyFilter.part(index, count)
