"""What of a file is in memory: the page cache of a disk, and all of a file system that has none."""

import os
from pathlib import Path

import pytest

from ithaca.model.limits import MIB
from ithaca.storage import residence
from ithaca.storage.disk import OsDisk


def test_what_was_just_written_is_in_memory(tmp_path: Path) -> None:
    file = OsDisk().open(str(tmp_path / "file"), create=True)
    file.write(0, [bytes(4 * MIB)])
    assert file.is_resident(0, 4 * MIB)
    assert file.is_resident(3 * MIB, 2 * MIB), "behind the end there is nothing to wait for"


def test_what_the_page_cache_has_let_go_of_is_not(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(4 * MIB))
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        if residence._is_memory(os.fstat(descriptor).st_dev):
            pytest.skip("the directory of the tests is in memory")
        assert not residence.is_resident(descriptor, 0, 4 * MIB)
        os.pread(descriptor, 4 * MIB, 0)
        assert residence.is_resident(descriptor, 0, 4 * MIB)
    finally:
        os.close(descriptor)


def test_a_file_system_without_a_disk_is_memory() -> None:
    if not os.path.isdir("/dev/shm"):
        pytest.skip("there is no /dev/shm")
    assert residence._is_memory(os.stat("/dev/shm").st_dev)
    assert not residence._is_memory(os.stat("/proc").st_dev)
