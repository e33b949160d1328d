"""The operating system's files: whole writes, whole reads, names that last, and locks."""

import errno
import os
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from ithaca.model.errors import LogInUse
from ithaca.model.records import Buffer
from ithaca.storage import directory_lock, disk
from ithaca.storage.directory_lock import is_locked, take_lock
from ithaca.storage.disk import OsDisk


class Watched(OsDisk):
    """Notes the directories that are synced."""

    def __init__(self) -> None:
        self.synced: list[str] = []

    def sync_directory(self, directory: str) -> None:
        self.synced.append(directory)
        super().sync_directory(directory)


def test_each_new_directory_is_durable_in_its_parent(tmp_path: Path) -> None:
    watched = Watched()
    watched.make_directory(str(tmp_path / "a" / "b"))
    assert watched.synced[-2:] == [str(tmp_path), str(tmp_path / "a")]
    watched.synced.clear()
    watched.make_directory(str(tmp_path / "a" / "b"))
    assert watched.synced == [str(tmp_path / "a")], "whoever made it may have been killed before this"


@pytest.mark.parametrize("count", [1, 3, 7])
def test_many_buffers_are_written_one_behind_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr(disk, "IOV_MAX", 3)
    buffers: list[Buffer] = [b"%d," % number for number in range(count)]
    for name, durably in [("plain", False), ("durable", True)]:
        file = OsDisk().open(str(tmp_path / name), create=True)
        (file.write_durably if durably else file.write)(5, buffers)
        assert file.read(0, 100) == bytes(5) + b"".join(map(bytes, buffers))


def test_a_write_that_was_cut_short_goes_on_behind_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.pwritev

    def short(fd: int, buffers: Sequence[Buffer], offset: int, flags: int = 0) -> int:
        return real(fd, [b"".join(map(bytes, buffers))[:3]], offset)

    monkeypatch.setattr(os, "pwritev", short)
    for durably in (False, True):
        file = OsDisk().open(str(tmp_path / f"{durably}"), create=True)
        (file.write_durably if durably else file.write)(1, [b"abcd", b"", b"efghij"])
        assert file.read(0, 20) == b"\0abcdefghij"


def test_where_the_system_cannot_sync_with_a_write_it_is_synced_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, synced = os.pwritev, list[int]()

    def refusing(fd: int, buffers: Sequence[Buffer], offset: int, flags: int = 0) -> int:
        if flags:
            raise OSError(errno.EOPNOTSUPP, "not here")
        return real(fd, buffers, offset)

    monkeypatch.setattr(os, "pwritev", refusing)
    monkeypatch.setattr(os, "fdatasync", synced.append)
    file = OsDisk().open(str(tmp_path / "file"), create=True)
    file.write_durably(0, [b"abc"])
    assert file.read(0, 9) == b"abc"
    assert len(synced) == 1


def test_another_failure_of_a_durable_write_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*arguments: object) -> int:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(os, "pwritev", failing)
    with pytest.raises(OSError, match="broken"):
        OsDisk().open(str(tmp_path / "file"), create=True).write_durably(0, [b"abc"])


def test_a_directory_is_locked_while_somebody_has_it(tmp_path: Path) -> None:
    assert not is_locked(OsDisk(), str(tmp_path)), "nobody ever had it"
    lock = take_lock(OsDisk(), str(tmp_path), "end it")
    assert is_locked(OsDisk(), str(tmp_path))
    with pytest.raises(LogInUse, match=f"in use by process {os.getpid()}: end it") as refused:
        take_lock(OsDisk(), str(tmp_path), "end it")
    assert refused.value.pid == os.getpid()
    lock.close()
    assert not is_locked(OsDisk(), str(tmp_path))
    take_lock(OsDisk(), str(tmp_path), "end it").close()


def test_who_only_looks_whether_it_is_locked_keeps_nobody_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looking = OsDisk().open(str(tmp_path / directory_lock.NAME), create=True)
    assert looking.try_lock()
    monkeypatch.setattr(time, "sleep", lambda _: looking.close())
    take_lock(OsDisk(), str(tmp_path), "end it").close()


def test_a_lock_file_that_says_nothing_names_nobody(tmp_path: Path) -> None:
    holder = OsDisk().open(str(tmp_path / directory_lock.NAME), create=True)
    assert holder.try_lock()
    with pytest.raises(LogInUse, match="process unknown") as refused:
        take_lock(OsDisk(), str(tmp_path), "end it")
    assert refused.value.pid == 0
