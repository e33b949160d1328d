"""Backups in object stores: the same as in directories, whatever ends the work; a clear word where one cannot be."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from fsspec.implementations.memory import MemoryFileSystem
from tests.archive.test_keep_and_move import Killed, dying, fill, rows

import ithaca
from ithaca.archive import places
from ithaca.archive.backup import back_up, backup_bytes, verify_backup
from ithaca.archive.copying import Copied, restore
from ithaca.archive.folder import chunks
from ithaca.archive.places import place_of
from ithaca.archive.progress import Done
from ithaca.model.errors import InvalidInput, NoSuchLog, Unsupported

URL = "memory://bucket/events"


@pytest.fixture(autouse=True)
def empty_store() -> Iterator[None]:
    yield
    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]


@pytest.fixture(params=["whole puts", "beside and renamed"])
def store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "beside and renamed":
        monkeypatch.setattr(places, "WHOLE_PUTS", frozenset())


@pytest.mark.usefixtures("store")
def test_a_backup_in_a_store_is_ended_again_and_again_and_restored(tmp_path: Path) -> None:
    random = Random(1)
    with ithaca.open(tmp_path / "log", durability="os") as log:
        fill(log, 1)
        for _ in range(5):
            try:
                back_up(log, URL, dying(random, 12), chunk_bytes=500)
            except Killed:
                assert list(verify_backup(URL)) == []
            fill(log, 101, 2)
        back_up(log, URL, chunk_bytes=500)
        expected = rows(log)
    assert len(chunks(place_of(URL))) > 3
    read: list[int] = []
    assert list(verify_backup(URL, read.append)) == []
    assert sum(read) == backup_bytes(URL)
    with ithaca.open(tmp_path / "again", durability="os") as log:
        assert restore(URL, log) == Copied(len(expected), len(expected))
        assert rows(log) == expected


def test_a_put_that_is_ended_half_way_leaves_nothing_that_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a store that is like a directory, what was half written has another name, and goes with the next run."""
    monkeypatch.setattr(places, "WHOLE_PUTS", frozenset())
    whole = MemoryFileSystem.pipe_file

    def half(self: MemoryFileSystem, path: str, value: bytes) -> None:
        whole(self, path, value[: len(value) // 2])
        raise Killed

    with ithaca.open(tmp_path / "log", durability="os") as log:
        fill(log, 2, 3)
        back_up(log, URL)
        fill(log, 3, 3)
        with monkeypatch.context() as patched:
            patched.setattr(MemoryFileSystem, "pipe_file", half)
            with pytest.raises(Killed):
                back_up(log, URL)
        assert list(verify_backup(URL)) == []
        assert [name for name in place_of(URL).names() if name.endswith(".part")]
        back_up(log, URL)
        assert not [name for name in place_of(URL).names() if name.endswith(".part")]
        assert list(verify_backup(URL)) == []
        expected = rows(log)
    with ithaca.open(tmp_path / "again", durability="os") as log:
        restore(URL, log)
        assert rows(log) == expected


def test_damage_in_a_store_is_named_by_its_url(tmp_path: Path) -> None:
    with ithaca.open(tmp_path / "log", durability="os") as log:
        fill(log, 4, 3)
        back_up(log, URL)
    (chunk,) = chunks(place_of(URL))
    chunk.place.write(chunk.name, [chunk.read()[:-1]])
    assert [fault.file for fault in verify_backup(URL)] == [f"{URL}/{chunk.name}"]


def test_a_url_of_files_is_their_directory(tmp_path: Path) -> None:
    with ithaca.open(tmp_path / "log", durability="os") as log:
        log.append(b"a")
        back_up(log, f"file://{tmp_path}/kept")
    assert list(verify_backup(tmp_path / "kept")) == []


def test_what_cannot_be_reached_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ithaca.open(tmp_path / "log", durability="os") as log:
        with pytest.raises(InvalidInput, match="nowhere://x: Protocol not known"):
            back_up(log, "nowhere://x")
        with pytest.raises(NoSuchLog, match="no backup at memory://nothing"):
            restore("memory://nothing", log)
        with pytest.raises(Unsupported, match=r"s3://bucket: Install s3fs"):
            back_up(log, "s3://bucket")
        monkeypatch.setitem(sys.modules, "fsspec", None)
        with pytest.raises(Unsupported, match="pip install fsspec"):
            back_up(log, URL)


def test_progress_says_how_much_there_is(tmp_path: Path) -> None:
    told: list[Done] = []
    with ithaca.open(tmp_path / "log", durability="os") as log:
        fill(log, 5)
        back_up(log, URL, told.append)
        count = log.tail() - 1
    with ithaca.open(tmp_path / "again", durability="os") as log:
        back = len(told)
        restore(URL, log, told.append)
    for steps in (told[:back], told[back:]):
        assert {step.of for step in steps} == {count}
        assert sum(step.positions for step in steps) == count
        assert all(step.bytes > 0 for step in steps)


def test_the_command_says_what_a_url_needs(tmp_path: Path) -> None:
    with ithaca.open(tmp_path / "log", durability="os") as log:
        log.append(b"a")
    script = "import sys; sys.modules['fsspec'] = None; from ithaca.cli.main import run; run()"
    for arguments in (["backup", "-p", str(tmp_path / "log"), "--to", "s3://b/x"], ["verify", "-p", "s3://b/x"]):
        done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True)
        assert done.returncode == 1
        assert done.stderr == "ithaca: s3://b/x: URLs of object stores need the package fsspec: pip install fsspec\n"
