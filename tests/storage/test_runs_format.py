"""The files of runs: every byte flipped, torn ones, missing ones, and those of other versions."""

from contextlib import suppress
from random import Random

import pytest
from tests.storage.naive_runs import PAGE, NaiveRuns, check, fill, new_disk, opened

from ithaca.engines.scalog.storage import runs_format
from ithaca.engines.scalog.storage.runs import Runs
from ithaca.model.errors import Corrupt, FormatTooNew
from ithaca.sim.disk import PowerLoss, SimDisk
from ithaca.wire.batch import crc32c

pytestmark = pytest.mark.usefixtures("small_page_files")

Files = dict[str, bytes]


def small_files() -> tuple[Files, NaiveRuns]:
    """Files with full pages, two slots in use and a mark, as a process leaves them."""
    disk, model, random = new_disk(), NaiveRuns(), Random(6)
    found = opened(disk)
    for count in (9, 3, 2):
        fill(found, model, random, count)
        found.sync()
    return {name: disk.open(f"/lane/{name}").read(0, 1 << 20) for name in disk.list("/lane")}, model


def with_files(files: Files) -> SimDisk:
    disk = new_disk()
    for name, data in files.items():
        file = disk.open(f"/lane/{name}", create=True)
        file.write(0, [data])
        file.sync()
    disk.sync_directory("/lane")
    return disk


def test_every_flipped_byte_is_detected_or_harmless() -> None:
    files, model = small_files()
    assert len(files) > 2
    detected = 0
    for name, data in files.items():
        for offset in range(len(data)):
            for mask in (0xFF, 1 << offset % 8):
                damaged = bytearray(data)
                damaged[offset] ^= mask
                try:
                    check(opened(with_files(files | {name: bytes(damaged)})), model)
                except Corrupt as error:
                    detected += error.file == f"/lane/{name}"
    assert detected > 1200  # the rest is unused space, the mark and the older slot


def test_no_tear_passes_for_fewer_runs_when_the_mark_is_there() -> None:
    files, model = small_files()
    for name, data in files.items():
        refused = 0
        for size in range(len(data) - 1):
            try:
                check(opened(with_files(files | {name: data[:size]})), model)
            except Corrupt:
                refused += 1
        assert refused > len(data) // 2 if name == "runs" else refused == len(data) - 1


def test_a_missing_file_of_pages_is_refused() -> None:
    files, _ = small_files()
    for name in files:
        if name != "runs":
            with pytest.raises(Corrupt):
                opened(with_files({other: data for other, data in files.items() if other != name}))


def version_1(files: Files) -> Files:
    """The same runs as an earlier version kept them: pages behind the slots of one file."""
    data = files["runs"]
    head = data[:8] + (1).to_bytes(4, "little") + data[12:16]
    pages = b"".join(files[name] for name in sorted(files) if name != "runs")
    slots = data[24:].ljust(512 + 2 * (56 + 32 * PAGE) - 24, b"\0")
    return {"runs": head + crc32c(head).to_bytes(4, "little") + data[20:24] + slots + pages}


def test_files_of_version_1_are_read_and_become_version_2() -> None:
    files, model = small_files()
    disk = with_files(version_1(files))
    for _ in range(2):
        found = opened(disk)
        check(found, model)
        assert len(disk.list("/lane")) == len(files)
        disk.crash(Random(1))
    found = opened(disk)
    fill(found, model, Random(7), 30)
    found.sync()
    disk.crash(Random(2))
    check(opened(disk), model)


def test_a_crash_while_version_1_becomes_version_2() -> None:
    files, model = small_files()
    for operations in range(40):
        disk = with_files(version_1(files))
        disk.power_fails_after(operations)
        with suppress(PowerLoss):
            opened(disk)
        disk.crash(Random(operations))
        check(opened(disk), model)


def test_damage_to_version_1_is_refused() -> None:
    files, model = small_files()
    data = version_1(files)["runs"]
    for offset in range(512 + 2 * (56 + 32 * PAGE), len(data), 7):
        damaged = bytearray(data)
        damaged[offset] ^= 0xFF
        with pytest.raises(Corrupt):
            check(opened(with_files({"runs": bytes(damaged)})), model)


def test_a_newer_format_is_refused_by_name() -> None:
    files, _ = small_files()
    data = files["runs"]
    head = data[:8] + (runs_format.VERSION + 1).to_bytes(4, "little") + data[12:20]
    with pytest.raises(FormatTooNew) as caught:
        opened(with_files(files | {"runs": head + crc32c(head).to_bytes(4, "little") + data[24:]}))
    assert (caught.value.found, caught.value.supported) == (runs_format.VERSION + 1, runs_format.VERSION)


def test_pages_of_another_size_are_refused() -> None:
    files, _ = small_files()
    with pytest.raises(Corrupt, match="pages hold 4 runs"):
        Runs(with_files(files), "/lane")
