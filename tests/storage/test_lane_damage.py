"""Every byte of a small lane torn off, zeroed, overwritten or flipped: refused by name, or harmless, never wrong."""

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest
from tests.storage.lanes import (
    LANE,
    NaiveLane,
    Source,
    Written,
    check_reads,
    control,
    make_lane,
    open_lane,
    read_rows,
    write,
)

import ithaca
from ithaca.model.errors import Corrupt, FormatTooNew
from ithaca.sim.disk import SimDisk
from ithaca.storage import index, lane
from ithaca.storage.segment import Segment, first_lsns, index_name_of, name_of
from ithaca.storage.state import TrimmedTo
from ithaca.storage.synced import ProgressFile
from ithaca.wire.batch import MARK, Batch, lane_seed

Files = dict[str, bytes]


class Image(NamedTuple):
    """The files of a lane, and what it holds."""

    files: Files
    model: NaiveLane
    firsts: list[int]
    synced_offset: int

    @property
    def last(self) -> str:
        return name_of(self.firsts[-1])


@pytest.fixture(autouse=True)
def _frequent_checkpoints(monkeypatch: pytest.MonkeyPatch, small_limits: None) -> None:
    monkeypatch.setattr(lane, "CHECKPOINT_BYTES", 500)


@cache
def image(ending: str) -> Image:
    """Data, keys, compressed batches, sessions, a trim, marks, checkpoints, several segments."""
    random = Random(11)
    disk, source, written = SimDisk(), Source(random), list[Written]()
    make_lane(disk)
    opened = open_lane(disk, segment_bytes=1300)

    def group(*entries: Written) -> None:
        write(opened, entries)
        written.extend(entries)

    group(*source.opening(opened), source.records(3))
    while len(opened.first_lsns) < 2:
        group(source.records(2), source.records(1))
        group(*source.session_records(opened))
    group(control(TrimmedTo(2)))
    while len(opened.first_lsns) < 3 or not opened._writer.segment.index.blocks:  # the last has a checkpoint too
        group(source.records(1))
    group(source.records(2), source.records(1))
    if ending == "closed":
        opened.close()
    progress = ProgressFile(disk, "/lane", writable=False).load()
    assert progress is not None
    files = {name: disk.open(f"/lane/{name}").read(0, 1 << 20) for name in disk.list("/lane")}
    assert len(opened.first_lsns) > 2
    return Image(files, NaiveLane(written), opened.first_lsns, progress.synced_offset)


def disk_with(files: Files) -> SimDisk:
    disk = SimDisk()
    disk.make_directory("/lane")
    for name, data in files.items():
        file = disk.open(f"/lane/{name}", create=True)
        file.write(0, [data])
        file.sync()
    disk.sync_directory("/lane")
    disk.sync_directory("/")
    return disk


def entries_of(files: Files, name: str) -> list[tuple[int, Batch]]:
    """The entries of a segment that check out, with their offsets."""
    found: list[tuple[int, Batch]] = []
    first = int(name.removesuffix(".seg"))
    with suppress(Corrupt):
        for entry in Segment(disk_with(files), "/lane", first, lane_seed(LANE)).walk(0, first):
            found.append(entry)
    return found


def torn_to_nothing(data: bytes, at: int) -> bytes:
    return data[:at]


def torn_to_zeros(data: bytes, at: int) -> bytes:
    return data[:at] + bytes(len(data) - at)


def torn_to_garbage(data: bytes, at: int) -> bytes:
    return data[:at] + Random(at).randbytes(len(data) - at)


def first_change(before: bytes, after: bytes) -> int:
    """The first byte that differs or is missing; padding is zeros already, and zeros there change nothing."""
    pairs = enumerate(zip(before, after, strict=False))
    return next((at for at, (old, new) in pairs if old != new), min(len(before), len(after)))


tears = pytest.mark.parametrize("tear", [torn_to_nothing, torn_to_zeros, torn_to_garbage])
endings = pytest.mark.parametrize("ending", ["closed", "killed"])


@tears
@endings
def test_a_tear_below_what_was_synced_is_refused(ending: str, tear: Callable[[bytes, int], bytes]) -> None:
    whole = image(ending)
    data = whole.files[whole.last]
    for torn_at in range(len(data)):
        torn = tear(data, torn_at)
        at = first_change(data, torn)
        disk = disk_with({**whole.files, whole.last: torn})
        if at < whole.synced_offset:
            with pytest.raises(Corrupt) as caught:
                open_lane(disk)
            assert caught.value.file == f"/lane/{whole.last}"
            assert caught.value.offset <= whole.synced_offset
        else:
            opened = open_lane(disk)
            assert (opened.length, opened.trim_lsn) == (len(whole.model.rows), whole.model.trim)
    check_reads(opened, whole.model, Random(0))


@tears
@endings
def test_without_the_synced_file_only_the_unproven_tail_goes(ending: str, tear: Callable[[bytes, int], bytes]) -> None:
    """What the index proves is refused; above it, whole entries stay and the torn one ends the lane."""
    whole = image(ending)
    data = whole.files[whole.last]
    entries = entries_of(whole.files, whole.last)
    block = index.load(whole.files[index_name_of(whole.firsts[-1])], segment_bytes=len(data))[0].blocks[-1]
    proven = next(offset + entry.total_bytes for offset, entry in entries if offset == block.end_offset)
    kept = {name: content for name, content in whole.files.items() if name != "synced"}
    outcomes = set()
    for torn_at in range(len(data)):
        torn = tear(data, torn_at)
        at = first_change(data, torn)
        disk = disk_with({**kept, whole.last: torn})
        if at < proven:
            with pytest.raises(Corrupt):
                open_lane(disk)
            continue
        opened = open_lane(disk)
        ends = [entry.end_lsn for offset, entry in entries if offset + entry.total_bytes <= at]
        length = ends[-1] if ends else whole.firsts[-1]
        assert opened.length == length, f"torn at byte {at}"
        assert read_rows(opened, opened.trim_lsn, length) == whole.model.rows[whole.model.trim : length]
        outcomes.add(length)
    assert len(outcomes) > 1


def damaged(data: bytes, at: int, mask: int) -> bytes:
    changed = bytearray(data)
    changed[at] ^= mask
    return bytes(changed)


def judge(whole: Image, name: str, at: int, mask: int) -> bool:
    """Flip bits of a byte; whether it was detected. Anything but detection and harmlessness fails."""
    disk = disk_with({**whole.files, name: damaged(whole.files[name], at, mask)})
    where = f"{name} at byte {at}"
    try:
        opened = open_lane(disk)
    except (Corrupt, FormatTooNew):
        return True
    assert opened.length == len(whole.model.rows), f"{where}: damage was taken for a shorter lane"
    assert opened.trim_lsn == whole.model.trim, where
    detected = False
    for first, end in pairwise([*whole.firsts, opened.length]):
        start = max(first, opened.trim_lsn)
        rows = whole.model.rows[start:end]
        try:
            assert read_rows(opened, start, end, bytes_max=1 << 20) == rows, f"{where}: wrong records"
        except (Corrupt, FormatTooNew):
            detected = True
            assert name in (name_of(first), index_name_of(first)), f"{where}: another segment became unreadable"
    return detected


def flip_all(whole: Image, masks: Callable[[int], int]) -> dict[str, int]:
    """Flip every byte of every file; returns how many were detected, by kind of file."""
    detected: dict[str, int] = {}
    for name, data in whole.files.items():
        kind = name.split(".")[-1]
        for at in range(len(data)):
            detected[kind] = detected.get(kind, 0) + judge(whole, name, at, masks(at))
    return detected


@endings
def test_every_flipped_byte_is_detected_or_harmless(ending: str) -> None:
    whole = image(ending)
    random = Random(1)
    detected = flip_all(whole, lambda at: 1 << random.randrange(8) if ending == "closed" else 0xFF)
    assert detected["seg"] > 1500
    assert detected["idx"] == detected["synced"] == 0, "both can be made again from the segments"


@pytest.mark.campaign
@endings
@pytest.mark.parametrize("mask", [0xFF, *(1 << bit for bit in range(8))])
def test_every_flipped_bit_is_detected_or_harmless(ending: str, mask: int) -> None:
    assert flip_all(image(ending), lambda _: mask)["seg"] > 1500


@endings
def test_a_flip_in_the_last_segment_is_refused_on_opening_even_without_the_synced_file(ending: str) -> None:
    """A mark behind the damage proves that it was synced. Only the group behind the last mark is unproven."""
    whole = image(ending)
    kept = {name: content for name, content in whole.files.items() if name not in ("synced", index_name_of(0))}
    kept.pop(index_name_of(whole.firsts[-1]))
    data = whole.files[whole.last]
    bound = max(offset for offset, entry in entries_of(whole.files, whole.last) if entry.kind == MARK)
    for at in range(0, bound, 3):
        with pytest.raises(Corrupt):
            open_lane(disk_with({**kept, whole.last: damaged(data, at, 0x10)}))


def test_a_missing_file_is_damage_or_harmless() -> None:
    whole = image("closed")
    for name in whole.files:
        kept = {other: content for other, content in whole.files.items() if other != name}
        if name.endswith(".seg") and name == whole.last:
            with pytest.raises(Corrupt):
                open_lane(disk_with(kept))
        elif name.endswith(".seg"):
            opened = open_lane(disk_with(kept))
            with pytest.raises(Corrupt):
                read_rows(opened, opened.trim_lsn, opened.length)
        else:
            check_reads(open_lane(disk_with(kept)), whole.model, Random(2))
    with pytest.raises(Corrupt):
        open_lane(disk_with({"synced": whole.files["synced"]}))


def test_a_refused_lane_is_not_touched() -> None:
    whole = image("killed")
    files = {**whole.files, whole.last: damaged(whole.files[whole.last], whole.synced_offset - 1, 1)}
    disk = disk_with(files)
    with pytest.raises(Corrupt):
        open_lane(disk)
    assert {name: disk.open(f"/lane/{name}").read(0, 1 << 20) for name in disk.list("/lane")} == files
    assert first_lsns(disk.list("/lane")) == whole.firsts


@pytest.mark.parametrize("mode", ["a", "r"])
def test_every_flipped_byte_of_a_log_is_detected_or_harmless(
    mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same through the front door: `meta` and `lock` are files too."""
    monkeypatch.setattr(lane, "CHECKPOINT_BYTES", 150)
    directory = tmp_path / "log"
    with ithaca.open(directory) as log:
        log.append_many([b"a", b"bb"], keys=[b"k", None])
        log.session("importer").append(b"c" * 30)
        log.append(b"dddd")
    expected = [b"a", b"bb", b"c" * 30, b"dddd"]
    original = {path: path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()}
    assert {path.suffix or path.name for path in original} == {".seg", ".idx", "synced", "meta", "lock"}
    random, detected = Random(3), 0
    for path, data in original.items():
        for at in range(len(data)):
            path.write_bytes(damaged(data, at, 0xFF if mode == "a" else 1 << random.randrange(8)))
            try:
                with ithaca.open(directory, mode="a" if mode == "a" else "r") as log:
                    assert log.tail() == 5, f"{path.name} at byte {at}"
                    assert [record.value for record in log.read_range(1)] == expected
            except (Corrupt, FormatTooNew):
                detected += 1
            for other in set(directory.rglob("*")) - set(original):
                if other.is_file():
                    other.unlink()
            for known, content in original.items():
                known.write_bytes(content)
    assert detected > 500
