"""Files that are copied into memory: what is done to the copies reaches no disk."""

import pytest

from ithaca.sim.disk import SimDisk
from ithaca.storage.private_copy import PrivateCopy


def original() -> SimDisk:
    disk = SimDisk()
    disk.make_directory("/lane")
    disk.open("/lane/one", create=True).write(0, [b"first"])
    return disk


def copied(disk: SimDisk) -> PrivateCopy:
    return PrivateCopy(disk, ["/lane/one", "/lane/missing"])


def test_what_is_there_is_copied() -> None:
    copy = copied(original())
    assert copy.exists("/lane/one")
    assert not copy.exists("/lane/missing")
    assert copy.list("/lane") == ["one"]
    assert copy.open("/lane/one").read(0, 99) == b"first"
    assert copy.open("/lane/one").read(2, 2) == b"rs"
    with pytest.raises(FileNotFoundError):
        copy.open("/lane/missing")


def test_writes_stay_in_the_copy() -> None:
    disk = original()
    file = copied(disk).open("/lane/one")
    file.write(1, [b"a", b"bc"])
    assert file.read(0, 99) == b"fabct"
    file.write_durably(8, [b"end"])
    assert file.read(0, 99) == b"fabct\0\0\0end"
    assert file.size() == 11
    file.truncate(2)
    assert file.read(0, 99) == b"fa"
    file.truncate(4)
    assert file.read(0, 99) == b"fa\0\0"
    file.allocate(3, 3)
    file.allocate(0, 1)
    assert file.size() == 6
    file.mapped(6)[5:6] = b"z"
    assert file.read(5, 1) == b"z"
    assert disk.open("/lane/one").read(0, 99) == b"first"


def test_names_change_in_the_copy_alone() -> None:
    disk = original()
    copy = copied(disk)
    copy.open("/lane/new", create=True).write(0, [b"new"])
    assert copy.open("/lane/new", create=True).read(0, 9) == b"new", "what is there is not made again"
    copy.rename("/lane/new", "/lane/two")
    assert copy.list("/lane") == ["one", "two"]
    copy.remove("/lane/one")
    assert not copy.exists("/lane/one")
    for lost in ("/lane/one", "/lane/new"):
        with pytest.raises(FileNotFoundError):
            copy.remove(lost)
        with pytest.raises(FileNotFoundError):
            copy.rename(lost, "/lane/three")
    for change in (copy.make_directory, copy.remove_directory):
        with pytest.raises(OSError, match="only files are copied"):
            change("/lane/inside")
    assert copy.space("/lane") == (0, 0)
    assert disk.list("/lane") == ["one"]
