"""A follower beside a writer in the same machine: it begins where the log begins, whenever it is opened."""

from pathlib import Path

import pytest

import ithaca
from ithaca.model.errors import NotWritten, Trimmed


def test_a_follower_of_a_log_that_was_never_trimmed_reads_from_the_first_record(tmp_path: Path) -> None:
    with ithaca.open(tmp_path / "log") as log:
        log.append_many([b"one", b"two"])
        with ithaca.open(tmp_path / "log", mode="r") as reader:
            assert (reader.first(), reader.tail()) == (1, 3)
            assert [record.value for record in reader.read_range(1)] == [b"one", b"two"]
            with pytest.raises(NotWritten):
                reader.read(3)


def test_a_follower_hears_of_records_and_of_trims(tmp_path: Path) -> None:
    with ithaca.open(tmp_path / "log") as log, ithaca.open(tmp_path / "log", mode="r") as reader:
        assert (reader.first(), reader.tail()) == (1, 1)
        log.append_many([b"one", b"two"])
        assert (reader.first(), reader.tail()) == (1, 3)
        log.trim(2)
        assert (reader.first(), reader.tail()) == (2, 3)
        with pytest.raises(Trimmed):
            reader.read(1)
        assert reader.read(2).value == b"two"


def test_a_follower_without_a_writer_has_what_the_last_one_left(tmp_path: Path) -> None:
    with ithaca.open(tmp_path / "log") as log:
        log.append_many([b"one", b"two", b"three"])
        log.trim(2)
    with ithaca.open(tmp_path / "log", mode="r") as reader:
        assert (reader.first(), reader.tail()) == (2, 4)
        assert [record.value for record in reader.read_range(2)] == [b"two", b"three"]
        with ithaca.open(tmp_path / "log") as log:
            log.append(b"four")
            assert reader.tail() == 5
            assert reader.read(4).value == b"four"


def test_the_latest_is_what_the_writer_has_now(tmp_path: Path) -> None:
    with ithaca.open(tmp_path / "log") as log, ithaca.open(tmp_path / "log", mode="r") as reader:
        log.append_many([b"one", b"two"])
        with reader.subscribe("latest") as subscription:
            assert subscription.position == 3
            log.append(b"three")
            assert [record.value for record in subscription.poll(timeout=10)] == [b"three"]
