"""The simulated disk keeps what was synced, and after power loss holds only states that syncs allow."""

import errno
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ithaca.sim.disk import PowerLoss, SimDisk, SimFile, StaleHandle
from ithaca.sim.inode import SECTOR_BYTES, Tear
from ithaca.storage.disk import Disk

SEEDS = range(200)


def made(contents: bytes = b"", path: str = "/f") -> tuple[SimDisk, SimFile]:
    """A disk with one file, durable as given."""
    disk = SimDisk()
    file = disk.open(path, create=True)
    file.write(0, [contents])
    file.sync()
    disk.sync_directory("/")
    return disk, file


def outcomes(play: Callable[[SimDisk, SimFile], None], *, tear: Tear = "sector") -> set[bytes]:
    """Every content of `/f` that a crash after `play` was seen to leave."""
    seen = set()
    for seed in SEEDS:
        disk, file = made(b"old")
        play(disk, file)
        disk.crash(Random(seed), tear=tear)
        seen.add(disk.open("/f").read(0, 1 << 20))
    return seen


def test_it_is_a_disk() -> None:
    disk: Disk = SimDisk()
    disk.make_directory("/a/b")
    file = disk.open("/a/b/c", create=True)
    file.write(2, [b"xy", memoryview(b"z")])
    assert (file.size(), file.read(0, 99), file.read(3, 1)) == (5, b"\0\0xyz", b"y")
    file.truncate(3)
    file.allocate(0, 5)
    assert file.read(0, 99) == b"\0\0x\0\0"
    assert disk.list("/a") == ["b"]
    assert disk.list("/nowhere") == []
    disk.rename("/a/b/c", "/a/b/d")
    assert (disk.exists("/a/b/c"), disk.exists("/a/b/d")) == (False, True)
    disk.remove("/a/b/d")
    assert disk.list("/a/b") == []


def test_relative_paths_have_a_root_too() -> None:
    disk = SimDisk()
    disk.make_directory("./events")
    disk.open("events/x", create=True)
    assert disk.list("events/") == ["x"]
    assert disk.list(".") == ["events"]


@pytest.mark.parametrize(
    ("attempt", "code"),
    [
        (lambda disk: disk.open("/none"), errno.ENOENT),
        (lambda disk: disk.open("/none/f", create=True), errno.ENOENT),
        (lambda disk: disk.open("/d"), errno.EISDIR),
        (lambda disk: disk.remove("/none"), errno.ENOENT),
        (lambda disk: disk.rename("/f", "/d/f"), errno.EXDEV),
        (lambda disk: disk.sync_directory("/none"), errno.ENOENT),
        (lambda disk: disk.make_directory("/f"), errno.EEXIST),
        (lambda disk: disk.open("/f", writable=False).write(0, [b"x"]), errno.EBADF),
    ],
)
def test_errors_are_those_of_the_kernel(attempt: Callable[[SimDisk], object], code: int) -> None:
    disk, _ = made()
    disk.make_directory("/d")
    with pytest.raises(OSError) as caught:  # noqa: PT011 (the code is checked)
        attempt(disk)
    assert caught.value.errno == code


def test_unsynced_writes_survive_whole_torn_or_not_at_all() -> None:
    sectors = [bytes([letter]) * SECTOR_BYTES for letter in b"abc"]
    seen = outcomes(lambda _, file: file.write(0, [b"".join(sectors)]))
    assert b"old" in seen
    assert b"".join(sectors) in seen
    for content in seen:
        for number, start in enumerate(range(0, len(content), SECTOR_BYTES)):
            sector = content[start : start + SECTOR_BYTES]
            assert sector in {
                sectors[number],
                bytes(len(sector)),
                b"old",
                b"old".ljust(SECTOR_BYTES, b"\0"),
            } or (sectors[number].startswith(sector))
    assert len(seen) > 4, "tearing between sectors was never seen"


def test_tearing_at_any_byte_splits_a_sector() -> None:
    seen = outcomes(lambda _, file: file.write(0, [b"new"]), tear="byte")
    assert {b"old", b"new"} < seen
    assert seen & {b"nld", b"ned", b"olw", b"oew"}
    assert outcomes(lambda _, file: file.write(0, [b"new"])) == {b"old", b"new"}


def test_an_unsynced_truncation_may_or_may_not_have_happened() -> None:
    assert outcomes(lambda _, file: file.truncate(0)) == {b"old", b""}
    assert outcomes(lambda _, file: file.allocate(0, 5)) == {b"old", b"old\0\0"}


def test_synced_contents_survive_every_crash() -> None:
    def play(_: SimDisk, file: SimFile) -> None:
        file.truncate(0)
        file.write(0, [b"new"])
        file.sync()

    assert outcomes(play) == {b"new"}


def test_a_created_name_needs_its_directory_synced() -> None:
    def survives(*, synced: bool) -> set[bool]:
        seen = set()
        for seed in SEEDS:
            disk = SimDisk()
            disk.open("/f", create=True).sync()
            if synced:
                disk.sync_directory("/")
            disk.crash(Random(seed))
            seen.add(disk.exists("/f"))
        return seen

    assert survives(synced=False) == {True, False}
    assert survives(synced=True) == {True}


def test_a_lost_directory_takes_its_files_along() -> None:
    for seed in SEEDS:
        disk = SimDisk()
        disk.make_directory("/d")
        disk.open("/d/f", create=True).sync()
        disk.sync_directory("/d")
        disk.crash(Random(seed))
        assert disk.exists("/d") == disk.exists("/d/f")


def test_a_renamed_directory_takes_its_files_along_under_one_name_or_the_other() -> None:
    seen = set()
    for seed in SEEDS:
        disk = SimDisk()
        disk.make_directory("/a/b")
        for name in ("/a/x", "/a/b/y", "/ab"):
            disk.open(name, create=True).sync()
        for directory in ("/", "/a"):
            disk.sync_directory(directory)
        disk.rename("/a", "/c")
        assert (disk.list("/"), disk.list("/c"), disk.list("/c/b")) == (["ab", "c"], ["b", "x"], ["y"])
        disk.crash(Random(seed))
        name = "c" if disk.exists("/c") else "a"
        assert disk.list("/") == sorted([name, "ab"])
        assert (disk.list(f"/{name}"), disk.list(f"/{name}/b")) == (["b", "x"], ["y"])
        seen.add(name)
    assert seen == {"a", "c"}
    disk = SimDisk()
    for name in ("/a", "/c"):
        disk.make_directory(name)
    with pytest.raises(FileExistsError):
        disk.rename("/a", "/c")


def test_a_rename_is_atomic() -> None:
    seen = set()
    for seed in SEEDS:
        disk, _ = made(b"old")
        new = disk.open("/new", create=True)
        new.write(0, [b"new"])
        new.sync()
        disk.rename("/new", "/f")
        disk.crash(Random(seed))
        seen.add((disk.open("/f").read(0, 9), tuple(disk.list("/"))))
    assert seen == {(b"old", ("f",)), (b"old", ("f", "new")), (b"new", ("f",))}


def test_a_removed_name_may_come_back() -> None:
    seen = set()
    for seed in SEEDS:
        disk, _ = made(b"old")
        disk.remove("/f")
        disk.crash(Random(seed))
        seen.add(disk.exists("/f"))
    assert seen == {True, False}


def test_kill_keeps_what_was_written_and_still_unsynced() -> None:
    seen = set()
    for seed in SEEDS:
        disk, file = made(b"old")
        file.write(0, [b"new"])
        disk.kill()
        assert disk.open("/f").read(0, 9) == b"new"
        with pytest.raises(StaleHandle):
            file.read(0, 1)
        disk.crash(Random(seed))
        seen.add(disk.open("/f").read(0, 9))
    assert seen == {b"old", b"new"}


def test_a_failed_sync_loses_data_that_stays_visible() -> None:
    disk, file = made(b"old")
    file.write(0, [b"new"])
    disk.fail_next_sync("/f")
    with pytest.raises(OSError, match="Input/output"):
        file.sync()
    file.sync()  # the kernel reports an error once
    assert file.read(0, 9) == b"new"
    disk.crash(Random(0))
    assert disk.open("/f").read(0, 9) == b"old"


def test_a_page_written_again_after_a_failed_sync_is_synced_whole() -> None:
    disk, file = made(b"old")
    file.write(0, [b"new"])
    disk.fail_next_sync()
    with pytest.raises(OSError, match="Input/output"):
        file.sync()
    file.write(3, [b"er"])
    file.sync()
    disk.crash(Random(0))
    assert disk.open("/f").read(0, 9) == b"newer"


def test_a_failed_directory_sync_loses_names() -> None:
    disk = SimDisk()
    disk.open("/f", create=True)
    disk.fail_next_sync("/")
    with pytest.raises(OSError, match="Input/output"):
        disk.sync_directory("/")
    disk.sync_directory("/")
    assert disk.exists("/f")
    disk.crash(Random(0))
    assert not disk.exists("/f")


def test_a_full_disk_writes_what_fits_and_says_so() -> None:
    disk, file = made(b"old")
    disk.capacity_bytes = 5
    with pytest.raises(OSError, match="No space"):
        file.write(3, [b"new"])
    assert file.read(0, 9) == b"oldne"
    file.write(0, [b"again"])  # no growth, no space needed
    with pytest.raises(OSError, match="No space"):
        file.allocate(0, 6)
    disk.capacity_bytes = 6
    file.allocate(0, 6)
    assert file.size() == 6


def test_a_flipped_bit_is_there_before_and_after_a_crash() -> None:
    disk, file = made(b"old")
    disk.flip_bit("/f", 1, 2)
    assert file.read(0, 9) == b"ohd"
    disk.crash(Random(0))
    assert disk.open("/f").read(0, 9) == b"ohd"


def test_power_can_fail_at_any_operation() -> None:
    disk, file = made(b"old")
    disk.power_fails_after(1)
    file.write(0, [b"new"])
    with pytest.raises(PowerLoss):
        file.sync()
    with pytest.raises(PowerLoss):
        disk.remove("/f")
    disk.crash(Random(0))
    assert disk.open("/f").read(0, 9) in (b"old", b"new")


writes = st.tuples(st.just("write"), st.integers(0, 3000), st.integers(0, 2000))
resizes = st.tuples(st.just("truncate"), st.integers(0, 4000), st.just(0))
syncs = st.tuples(st.sampled_from(["sync", "failed sync"]), st.just(0), st.just(0))


@settings(max_examples=150, deadline=None)
@given(st.lists(st.one_of(writes, resizes, syncs), max_size=12), st.integers(0, 1 << 30))
def test_a_sector_holds_what_it_held_at_some_moment_since_the_last_sync(
    operations: list[tuple[str, int, int]], seed: int
) -> None:
    disk, file = made()
    moments = [b""]  # contents that a crash may mix, sector by sector; the first is durable
    failed = False
    for number, (kind, first, second) in enumerate(operations, 1):
        if kind == "write":
            file.write(first, [bytes([number]) * second])
        elif kind == "truncate":
            file.truncate(first)
        elif kind == "sync":
            file.sync()
            moments = [] if not failed else moments
        else:
            disk.fail_next_sync()
            with pytest.raises(OSError, match="Input/output"):
                file.sync()
            failed = True  # from here on anything visible since the last good sync may remain
        moments.append(file.read(0, 1 << 20))
    disk.crash(Random(seed))
    found = disk.open("/f").read(0, 1 << 20)
    assert len(found) in {len(moment) for moment in moments}
    for start in range(0, len(found), SECTOR_BYTES):
        sector = found[start : start + SECTOR_BYTES]
        possible = [moment[start : start + SECTOR_BYTES].ljust(SECTOR_BYTES, b"\0") for moment in moments]
        assert any(held.startswith(sector) for held in possible)


@given(st.integers(0, 1 << 30))
def test_a_crash_is_a_function_of_its_seed(seed: int) -> None:
    def once() -> list[tuple[str, bytes]]:
        disk, file = made(b"old" * 1000)
        file.write(100, [b"x" * 5000])
        disk.open("/g", create=True).write(0, [b"y" * 700])
        disk.crash(Random(seed), tear="byte")
        return [(name, disk.open("/" + name).read(0, 1 << 20)) for name in disk.list("/")]

    assert once() == once()


def test_a_directory_that_was_found_is_there_after_a_crash_too() -> None:
    """Whoever made it may have been killed before its name was durable."""
    disk = SimDisk()
    disk.power_fails_after(1)
    with pytest.raises(PowerLoss):
        disk.make_directory("/d")
    disk.kill()
    disk.make_directory("/d")
    disk.crash(Random(3))
    assert disk.exists("/d")
