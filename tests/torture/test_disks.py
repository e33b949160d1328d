"""Disks that fill up and lose power, where this machine allows them."""

import subprocess
import sys
from pathlib import Path

import pytest

from ithaca.torture.faults.disk import Power

SCRIPT = """
import errno, os, sys, threading
from pathlib import Path
from ithaca.torture.disks import LoopDisk, private_mounts

private_mounts()
disk = LoopDisk(Path(sys.argv[1]), 32 << 20)
disk.make()
try:
    disk.server.mkdir()
    synced = os.open(disk.server / "synced", os.O_WRONLY | os.O_CREAT)
    os.write(synced, b"kept" * 1000)
    os.fsync(synced)
    os.fsync(os.open(disk.server, os.O_RDONLY))
    disk.fill()
    try:
        os.posix_fallocate(synced, 0, 1 << 20)
        print("there was space")
    except OSError as error:
        assert error.errno == errno.ENOSPC
    disk.free()
    os.posix_fallocate(synced, 0, 1 << 20)
    os.ftruncate(synced, 4000)
    os.fsync(synced)
    unsynced = os.open(disk.server / "unsynced", os.O_WRONLY | os.O_CREAT)
    os.write(unsynced, b"lost")
    os.write(synced, b"lost")
    disk.lose_power()
    threading.Timer(0.3, os.closerange, (synced, unsynced + 1)).start()  # as a process that is still dying
    disk.unmount()
    disk.mount()
    found = {path.name: path.read_bytes() for path in disk.server.iterdir()}
    assert found == {"synced": b"kept" * 1000}, found
finally:
    disk.remove()
print("as it should be")
"""


def test_what_was_synced_survives_and_nothing_else(tmp_path: Path) -> None:
    reason = Power.unavailable()
    if reason is not None:
        pytest.skip(reason)
    done = subprocess.run([sys.executable, "-c", SCRIPT, str(tmp_path / "disk")], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "as it should be\n"), done.stderr
    assert "disk" not in Path("/proc/mounts").read_text().replace(str(tmp_path), "disk")
