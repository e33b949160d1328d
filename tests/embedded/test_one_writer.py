"""One writer per directory, any number of readers, and what can go wrong on opening."""

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.embedded.children import started

import ithaca
from ithaca.model.errors import (
    Corrupt,
    FormatTooNew,
    InvalidInput,
    LogClosed,
    LogInUse,
    NoSuchLog,
    ReadOnly,
    UnknownCompression,
)
from ithaca.storage import checked_file


def test_a_second_writer_in_this_process_is_refused(tmp_path: Path) -> None:
    with ithaca.open(tmp_path / "log") as log:
        with pytest.raises(LogInUse, match="use that handle") as caught:
            ithaca.open(tmp_path / "log")
        assert caught.value.pid == os.getpid()
        log.append(b"undisturbed")
    with ithaca.open(tmp_path / "log") as log:
        assert log.tail() == 2


def test_a_second_writer_in_another_process_is_refused(tmp_path: Path) -> None:
    with started("hold", tmp_path / "log") as child:
        _, pid, _ = child.line().split()
        with pytest.raises(LogInUse, match=pid) as caught:
            ithaca.open(tmp_path / "log")
        assert caught.value.pid == int(pid) == child.process.pid
        child.finish()
    with ithaca.open(tmp_path / "log") as log:
        assert log.append(b"mine").position == 1


def test_a_killed_writer_leaves_no_lock_behind(tmp_path: Path) -> None:
    with started("hold", tmp_path / "log") as child:
        assert child.line().startswith("open")
        child.process.kill()
        child.process.wait()
    with ithaca.open(tmp_path / "log") as log:
        assert log.append(b"mine").position == 1


def test_a_reader_in_another_process_follows(tmp_path: Path) -> None:
    with ithaca.open(tmp_path / "log") as log:
        log.append(b"before")
        with started("follow", tmp_path / "log", 1, 101) as child:
            child.expect("following")
            child.expect("1 before")
            for n in range(100):
                log.append(b"%d" % n)
                child.expect(f"{n + 2} {n}")
            child.finish()


def test_readers_need_no_writer(tmp_path: Path) -> None:
    with ithaca.open(tmp_path / "log") as log:
        log.append_many([b"a", b"b"], keys=[b"k", None])
        log.trim(2)
    with ithaca.open(tmp_path / "log", mode="r") as one, ithaca.open(tmp_path / "log", mode="r") as other:
        assert [record.value for record in one.read_range(2)] == [b"b"]
        assert (other.first(), other.tail()) == (2, 3)
        with started("hold", tmp_path / "log", "r") as child:
            assert child.line().endswith(" 3")
            child.finish()


def test_a_reader_survives_the_writer_being_opened_again(tmp_path: Path) -> None:
    with ithaca.open(tmp_path / "log") as log:
        log.append(b"first")
    with ithaca.open(tmp_path / "log", mode="r") as reader, reader.subscribe("earliest") as subscription:
        assert next(subscription).value == b"first"
        for n in range(3):
            with ithaca.open(tmp_path / "log") as log:
                log.append(b"%d" % n)
            assert next(subscription).value == b"%d" % n


def test_a_reader_cannot_change_the_log(tmp_path: Path) -> None:
    ithaca.open(tmp_path / "log").close()
    with ithaca.open(tmp_path / "log", mode="r") as reader:
        with pytest.raises(ReadOnly, match="mode"):
            reader.append(b"a")
        with pytest.raises(ReadOnly):
            reader.append_many([b"a"])
        with pytest.raises(ReadOnly):
            reader.submit(b"a")
        with pytest.raises(ReadOnly):
            reader.submit_many([b"a"])
        with pytest.raises(ReadOnly):
            reader.trim(1)
        with pytest.raises(ReadOnly):
            reader.session("importer")
        assert reader.tail() == 1


def test_a_reader_of_nothing_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(NoSuchLog, match="missing"):
        ithaca.open(tmp_path / "missing", mode="r")
    assert not (tmp_path / "missing").exists()
    (tmp_path / "empty").mkdir()
    with pytest.raises(NoSuchLog, match="empty"):
        ithaca.open(tmp_path / "empty", mode="r")
    assert list((tmp_path / "empty").iterdir()) == []


def test_an_empty_directory_becomes_a_log(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    with ithaca.open(tmp_path / "log") as log:
        assert log.tail() == 1


def test_a_directory_with_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "me.jpg").write_bytes(b"not a log")
    with pytest.raises(InvalidInput, match="photos"):
        ithaca.open(tmp_path / "photos")
    assert [path.name for path in (tmp_path / "photos").iterdir()] == ["me.jpg"]


def test_a_file_is_no_log(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"not a log")
    with pytest.raises(InvalidInput, match="file"):
        ithaca.open(tmp_path / "file")
    with pytest.raises(NoSuchLog, match="file"):
        ithaca.open(tmp_path / "file", mode="r")
    assert (tmp_path / "file").read_bytes() == b"not a log"


def test_paths_may_be_strings_and_parents_are_made(tmp_path: Path) -> None:
    with ithaca.open(str(tmp_path / "a" / "b" / "log")) as log:
        assert log.append(b"deep").position == 1


def test_directories_are_private(tmp_path: Path) -> None:
    with ithaca.open(tmp_path / "log") as log:
        log.append(b"secret")
        for path in [tmp_path / "log", *(tmp_path / "log").rglob("*")]:
            assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


def test_a_log_from_the_future_is_refused_by_version(tmp_path: Path) -> None:
    directory = tmp_path / "log"
    with ithaca.open(directory) as log:
        log.append(b"kept")
    meta = directory / "meta"
    current = meta.read_bytes()
    meta.write_bytes(checked_file.encode(b"whatever it holds", version=checked_file.VERSION + 1))
    for mode in ("a", "r"):
        with pytest.raises(FormatTooNew, match="newer") as caught:
            ithaca.open(directory, mode="r" if mode == "r" else "a")
        assert (caught.value.found, caught.value.supported) == (checked_file.VERSION + 1, checked_file.VERSION)
    meta.write_bytes(current)
    with ithaca.open(directory) as log:
        assert log.read(1).value == b"kept"


def test_every_damaged_byte_of_the_meta_file_is_noticed(tmp_path: Path) -> None:
    directory = tmp_path / "log"
    ithaca.open(directory).close()
    meta = directory / "meta"
    current = meta.read_bytes()
    for at in range(len(current)):
        damaged = bytearray(current)
        damaged[at] ^= 0x10
        meta.write_bytes(damaged)
        with pytest.raises(Corrupt, match="meta"):
            ithaca.open(directory)
    meta.write_bytes(current[:-1])
    with pytest.raises(Corrupt, match="meta"):
        ithaca.open(directory)


def test_wrong_arguments_are_refused_before_anything_is_made(tmp_path: Path) -> None:
    wrong: list[dict[str, Any]] = [{"mode": "w"}, {"durability": "hope"}]
    for arguments in wrong:
        with pytest.raises(InvalidInput, match=next(iter(arguments.values()))):
            ithaca.open(tmp_path / "log", **arguments)
    brotli: Any = "brotli"
    with pytest.raises(UnknownCompression, match="brotli"):
        ithaca.open(tmp_path / "log", compression=brotli)
    assert not (tmp_path / "log").exists()


def test_durability_os_is_said_in_the_receipt(tmp_path: Path) -> None:
    with ithaca.open(tmp_path / "log", durability="os") as log:
        assert log.append(b"a").durability == "os"
        assert log.submit(b"b").result().durability == "os"
    with ithaca.open(tmp_path / "log") as log:
        assert log.append(b"c").durability == "fsync"
        assert [record.value for record in log.read_range(1)] == [b"a", b"b", b"c"]


def test_closing_a_reader_under_a_subscription_says_so(tmp_path: Path) -> None:
    with ithaca.open(tmp_path / "log") as writer:
        writer.append(b"x")
        for _ in range(30):
            reader = ithaca.open(tmp_path / "log", mode="r")
            subscription = reader.subscribe("latest")
            with ThreadPoolExecutor(1) as pool:
                waiting = pool.submit(subscription.poll, 60)
                reader.close()
                with pytest.raises(LogClosed):
                    waiting.result(60)


def test_the_same_process_is_told_that_it_has_the_log_already(tmp_path: Path) -> None:
    with ithaca.open(tmp_path / "log") as log:
        with pytest.raises(ithaca.LogInUse, match=r"this process already has .* open: use that handle") as caught:
            ithaca.open(tmp_path / "log")
        assert caught.value.pid == os.getpid()
        assert repr(log) == f"<ithaca.Log {tmp_path / 'log'}, for appending, first 1, tail 1, open>"
        with ithaca.open(tmp_path / "log", mode="r") as reader:
            assert "for reading" in repr(reader)
        assert "prepare" not in dir(log)
        assert "session" in dir(log)


def test_the_directory_of_a_cluster_is_no_log(tmp_path: Path) -> None:
    (tmp_path / "cluster.toml").write_text("")
    with pytest.raises(ithaca.NoSuchLog, match=r"is the directory of a cluster: use ithaca.connect, or -b"):
        ithaca.open(tmp_path, mode="r")
    with pytest.raises(ithaca.InvalidInput, match=r"is the directory of a cluster: use ithaca.connect, or -b"):
        ithaca.open(tmp_path)
