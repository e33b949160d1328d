"""Disks that are full or read-only, on a small file system of memory."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import ithaca
from ithaca.model.errors import IthacaError, ReadOnly, StorageFull
from ithaca.model.interface import Log
from ithaca.model.limits import MIB

DISK_BYTES = 48 * MIB
LARGER_THAN_WHAT_IS_AHEAD = [bytes(15 * MIB)] * 2
"""A batch that does not fit into the space which the log has allocated already."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 48 MiB of its own."""
    mount_point = tmp_path / "disk"
    mount_point.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(mount_point)]
    try:
        mounted = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("there is no mount command here")
    if mounted.returncode:
        pytest.skip(f"a small file system cannot be mounted here: {mounted.stderr.strip()}")
    yield mount_point
    subprocess.run(["umount", "--lazy", str(mount_point)], check=True)


def fill(disk: Path) -> Path:
    """Take all the space that is left."""
    ballast = disk / "ballast"
    with open(ballast, "ab", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            return ballast


def test_a_full_disk_is_a_typed_error_and_passes(disk: Path) -> None:
    directory = disk / "log"
    log = ithaca.open(directory)
    kept = [log.append(b"%d" % n).position for n in range(10)]
    ballast = fill(disk)
    for _ in range(2):
        with pytest.raises(StorageFull, match="space"):
            log.append_many(LARGER_THAN_WHAT_IS_AHEAD)
    assert log.tail() == len(kept) + 1
    assert [log.read(position).value for position in kept] == [b"%d" % n for n in range(10)]
    ballast.unlink()
    receipt = log.append_many([bytes(8 * MIB), b"small"])
    assert receipt.position == len(kept) + 1
    log.close()
    with ithaca.open(directory) as log:
        assert [len(record.value) for record in log.read_range(1)] == [1] * 10 + [8 * MIB, 5]


def append_until_full(log: Log) -> int:
    """How many appends were acknowledged before the disk was full."""
    for acknowledged in range(DISK_BYTES):
        try:
            log.append(b"%06d" % acknowledged + bytes(MIB // 2))
        except StorageFull:
            return acknowledged
    raise AssertionError("the disk never filled up")


def test_a_log_that_filled_the_disk_can_be_trimmed_and_goes_on(disk: Path) -> None:
    with ithaca.open(disk / "log", segment_bytes=4 * MIB) as log:
        acknowledged = append_until_full(log)
        assert acknowledged * MIB > DISK_BYTES  # at least half of the disk was of use
        found = [record.value[:6] for record in log.read_range(1)]
        assert found == [b"%06d" % n for n in range(acknowledged)]
        log.trim(log.tail())
        assert log.append(bytes(8 * MIB)).position == acknowledged + 1
    with ithaca.open(disk / "log") as log:
        assert (log.first(), log.tail()) == (acknowledged + 1, acknowledged + 2)
        assert log.read(acknowledged + 1).value == bytes(8 * MIB)


def test_a_failed_submit_surfaces_in_its_result_and_in_flush_once(disk: Path) -> None:
    log = ithaca.open(disk / "log")
    ballast = fill(disk)
    pending = log.submit_many(LARGER_THAN_WHAT_IS_AHEAD)
    with pytest.raises(StorageFull):
        log.flush()
    with pytest.raises(StorageFull):
        pending.result()
    log.flush()
    called: list[bool] = []
    pending.add_done_callback(lambda done: called.append(done.done()))
    assert called == [True]
    ballast.unlink()
    assert log.append(b"goes on").position == 1
    log.close()


def test_leaving_the_context_raises_what_failed(disk: Path) -> None:
    def submit_to_a_full_disk() -> None:
        with ithaca.open(disk / "log") as log:
            fill(disk)
            log.submit_many(LARGER_THAN_WHAT_IS_AHEAD)

    with pytest.raises(StorageFull):
        submit_to_a_full_disk()
    (disk / "ballast").unlink()
    with ithaca.open(disk / "log") as log:
        assert log.tail() == 1


def test_a_session_goes_on_after_a_full_disk_with_the_same_number(disk: Path) -> None:
    with ithaca.open(disk / "log") as log:
        session = log.session("importer")
        session.append(b"row 1", seq=1)
        ballast = fill(disk)
        with pytest.raises(StorageFull):
            session.append_many(LARGER_THAN_WHAT_IS_AHEAD, seq=2)
        assert session.next_seq == 2
        ballast.unlink()
        receipt = session.append_many([bytes(2 * MIB), bytes(2 * MIB)], seq=2)
        assert receipt.position == 2
        assert session.next_seq == 4


def test_a_log_on_a_full_disk_can_be_opened_and_read(disk: Path) -> None:
    with ithaca.open(disk / "log") as log:
        log.append(b"kept")
    fill(disk)
    with ithaca.open(disk / "log", mode="r") as log:
        assert log.read(1).value == b"kept"
    with pytest.raises(IthacaError):
        ithaca.open(disk / "other")
    (disk / "ballast").unlink()
    with ithaca.open(disk / "other") as log:
        assert log.append(b"a").position == 1


def test_a_read_only_file_system_can_be_read_and_not_written(disk: Path) -> None:
    with ithaca.open(disk / "log") as log:
        log.append(b"kept")
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    with ithaca.open(disk / "log", mode="r") as log:
        assert log.read(1).value == b"kept"
        assert [record.value for record in log.read_range(1)] == [b"kept"]
    with pytest.raises(ReadOnly, match=r"[Rr]ead-only"):
        ithaca.open(disk / "log")
    with pytest.raises(ReadOnly, match=r"[Rr]ead-only"):
        ithaca.open(disk / "new")
