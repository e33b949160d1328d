"""Bytes that change on disk: detected and named, never served, and never taken for a shorter log."""

from pathlib import Path

import pytest

import ithaca
from ithaca.model.errors import Corrupt, IthacaError, NotWritten
from ithaca.model.limits import TAIL_CACHE_BYTES_MAX

RECORD_BYTES = 64 << 10
RECORDS = 64


def value_of(n: int) -> bytes:
    return b"record %03d " % n * (RECORD_BYTES // 11)


def segments(directory: Path) -> list[Path]:
    return sorted(directory.rglob("*.seg"))


def flip(path: Path, offset: int) -> None:
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 0x01]))


def find(directory: Path, needle: bytes) -> tuple[Path, int]:
    """The segment and offset at which some bytes stand."""
    for path in segments(directory):
        offset = path.read_bytes().find(needle)
        if offset >= 0:
            return path, offset
    raise AssertionError(f"{needle!r} is in no segment")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A log of several segments, each with several batches, closed."""
    with ithaca.open(tmp_path / "log", segment_bytes=16 * RECORD_BYTES) as log:
        for n in range(RECORDS):
            log.append(value_of(n))
    assert len(segments(tmp_path / "log")) > 3
    return tmp_path / "log"


def test_a_flipped_byte_is_named_and_the_rest_is_readable(directory: Path) -> None:
    path, offset = find(directory, b"record 007")
    flip(path, offset)
    with ithaca.open(directory) as log:
        with pytest.raises(Corrupt, match=path.name) as caught:
            log.read(8)
        assert caught.value.file.endswith(path.name)
        assert 0 < caught.value.offset <= offset
        with pytest.raises(Corrupt, match=path.name):
            list(log.read_range(1))
        for n in [*range(7), *range(16, RECORDS)]:
            assert log.read(n + 1).value == value_of(n)
        assert [record.value for record in log.read_range(1, 8)] == [value_of(n) for n in range(7)]
        assert log.tail() == RECORDS + 1
        assert log.append(b"appends go on").position == RECORDS + 1


def test_a_subscription_stops_at_damage_instead_of_skipping_it(directory: Path) -> None:
    path, offset = find(directory, b"record 007")
    flip(path, offset)
    with ithaca.open(directory, mode="r") as log, log.subscribe("earliest") as subscription:
        assert [next(subscription).position for _ in range(7)] == list(range(1, 8))
        for _ in range(2):
            with pytest.raises(Corrupt):
                next(subscription)
        assert subscription.position == 8


def test_a_poll_delivers_what_precedes_the_damage(directory: Path) -> None:
    path, offset = find(directory, b"record 007")
    flip(path, offset)
    with ithaca.open(directory, mode="r") as log, log.subscribe("earliest") as subscription:
        polled = [record.position for record in subscription.poll(timeout=60)]
        assert polled == list(range(1, 8))
        with pytest.raises(Corrupt):
            subscription.poll(timeout=60)


def test_damage_in_what_was_synced_last_is_not_taken_for_a_torn_tail(directory: Path) -> None:
    path, offset = find(directory, b"record %03d" % (RECORDS - 1))
    flip(path, offset)
    before = path.read_bytes()
    with pytest.raises(Corrupt, match=path.name):
        ithaca.open(directory)
    assert path.read_bytes() == before, "a refused log must not be touched"
    flip(path, offset)
    with ithaca.open(directory) as log:
        assert log.read(RECORDS).value == value_of(RECORDS - 1)


def test_a_missing_segment_is_damage(directory: Path) -> None:
    middle, last = segments(directory)[1], segments(directory)[-1]
    content = middle.read_bytes()
    middle.unlink()
    with ithaca.open(directory, mode="r") as log:
        with pytest.raises(Corrupt):
            list(log.read_range(1))
        with pytest.raises(Corrupt):
            log.read(int(middle.stem) + 1)
        assert log.read(RECORDS).value == value_of(RECORDS - 1)
    middle.write_bytes(content)
    last.unlink()
    with pytest.raises(Corrupt, match=last.name):
        ithaca.open(directory)


def test_a_shortened_segment_is_damage(directory: Path) -> None:
    middle = segments(directory)[1]
    middle.write_bytes(middle.read_bytes()[: 2 * RECORD_BYTES])
    with ithaca.open(directory) as log:
        with pytest.raises(Corrupt, match=middle.name):
            list(log.read_range(1))
        assert log.read(int(middle.stem) + 1).value == value_of(int(middle.stem))


def test_any_flipped_byte_is_detected_or_harmless(tmp_path: Path) -> None:
    """Every byte of every file of a small log: each record reads back right, or the error says what is wrong."""
    directory = tmp_path / "log"
    with ithaca.open(directory) as log:
        log.append_many([b"a", b"bb"], keys=[b"k", None])
        log.session("importer").append(b"ccc")
    expected = {1: b"a", 2: b"bb", 3: b"ccc"}
    detected = 0
    for path in sorted(path for path in directory.rglob("*") if path.is_file()):
        content = path.read_bytes()
        for offset in range(len(content)):
            flip(path, offset)
            try:
                with ithaca.open(directory, mode="r") as log:
                    for position, value in expected.items():
                        assert log.read(position).value == value
                    assert log.tail() == 4
            except NotWritten:
                pytest.fail(f"{path.name} at byte {offset}: damage was reported as absence")
            except IthacaError:
                detected += 1
            path.write_bytes(content)
    assert detected > 300


def test_a_lost_index_is_made_again(directory: Path) -> None:
    for path in directory.rglob("*.idx"):
        path.unlink()
    with ithaca.open(directory) as log:
        assert [record.value for record in log.read_range(1)] == [value_of(n) for n in range(RECORDS)]
        assert log.append(b"next").position == RECORDS + 1


def test_hot_reads_and_cold_reads_agree(tmp_path: Path) -> None:
    count = TAIL_CACHE_BYTES_MAX // RECORD_BYTES + 40
    with ithaca.open(tmp_path / "log") as log:
        for n in range(count):
            log.append(value_of(n))
        for n in range(count):
            assert log.read(n + 1).value == value_of(n)
