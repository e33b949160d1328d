"""The Raft log on a disk: what was synced is found, what was not is dropped, what is damaged is refused."""

import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

import google_crc32c
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.raft.raft_checker import DurableModel

from ithaca.model.errors import Corrupt, Fenced, FormatTooNew, LogError, NoSuchLog, StorageFull
from ithaca.raft.events import Persist
from ithaca.raft.messages import (
    Configuration,
    DurableState,
    Entry,
    EntryKind,
    HardState,
    Snapshot,
    first_state,
)
from ithaca.sim.disk import PowerLoss, SimDisk
from ithaca.sim.inode import Tear
from ithaca.storage import raftlog
from ithaca.storage.disk import Disk, OsDisk
from ithaca.storage.raftlog import FILE_NAME, RaftLog, verify

PATH = f"/raft/{FILE_NAME}"
FIRST = first_state(1, 2, 3)


def entry(index: int, term: int = 1, data: bytes = b"payload") -> Entry:
    return Entry(index, term, EntryKind.PAYLOAD, data)


def entries(start: int, stop: int, term: int = 1) -> tuple[Entry, ...]:
    return tuple(entry(index, term) for index in range(start, stop))


def made(zero_ahead_bytes: int = 0) -> tuple[SimDisk, RaftLog]:
    disk = SimDisk()
    disk.make_directory("/raft")
    disk.sync_directory("/")
    return disk, RaftLog.create(disk, "/raft", FIRST, zero_ahead_bytes=zero_ahead_bytes)


def filled(zero_ahead_bytes: int = 0) -> tuple[SimDisk, RaftLog, list[DurableState]]:
    """A log with three groups after the first, and the state after each."""
    disk, log = made(zero_ahead_bytes)
    model, states = DurableModel(FIRST), [FIRST]
    for effect in (
        Persist(1, HardState(1, 2), None, entries(1, 3)),
        Persist(2, None, None, entries(3, 5)),
        Persist(3, HardState(2, 3), None, entries(4, 6, term=2)),
    ):
        log.persist(effect)
        model.persisted(effect)
        states.append(model.state)
    return disk, log, states


def contents(disk: Disk) -> bytes:
    file = disk.open(PATH)
    return file.read(0, file.size())


def disk_with(data: bytes) -> SimDisk:
    disk = SimDisk()
    disk.make_directory("/raft")
    disk.open(PATH, create=True).write(0, [data])
    return disk


def reopened(disk: SimDisk) -> DurableState:
    return RaftLog.open(disk, "/raft")[1]


def test_what_was_persisted_is_found_again() -> None:
    disk, _, states = filled()
    disk.kill()
    assert reopened(disk) == states[-1]
    assert states[-1].entries == (*entries(1, 4), *entries(4, 6, term=2))
    assert states[-1].hard_state == HardState(2, 3)


def test_it_works_on_real_files(tmp_path: Path) -> None:
    disk = OsDisk()
    log = RaftLog.create(disk, str(tmp_path), FIRST)
    log.persist(Persist(1, HardState(1, 1), None, entries(1, 100)))
    log, state = RaftLog.open(disk, str(tmp_path))
    assert state == DurableState(HardState(1, 1), FIRST.snapshot, entries(1, 100))
    log.persist(Persist(2, None, None, entries(100, 101)))
    assert verify(disk, str(tmp_path)).state.entries == entries(1, 101)
    assert disk.list(str(tmp_path)) == [FILE_NAME]


def test_a_snapshot_replaces_everything() -> None:
    disk, log, _ = filled()
    before = len(contents(disk))
    snapshot = Snapshot(4, 2, Configuration((1, 2), (7,)), b"state")
    log.persist(Persist(4, HardState(2, 3), snapshot, entries(5, 6, term=2)))
    log.persist(Persist(5, None, None, entries(6, 7, term=2)))
    assert len(contents(disk)) < before
    assert reopened(disk) == DurableState(HardState(2, 3), snapshot, entries(5, 7, term=2))


def test_a_barrier_writes_nothing() -> None:
    disk, log, _ = filled()
    operations = disk.operations
    log.persist(Persist(9))
    assert disk.operations == operations


def test_the_bytes_are_those_of_the_table() -> None:
    """Golden: a change of these bytes is a new version of the format."""
    disk, log = made()
    log.persist(Persist(1, HardState(7, 2), None, (entry(1, 7, b"x"),)))
    data = contents(disk)
    magic, version, crc, generation, synced = struct.unpack_from("<8sIIQQ", data)
    assert (magic, version, generation) == (b"ithacarl", 1, 1)
    assert crc == google_crc32c.value(data[:12] + bytes(4) + data[16:32])
    head = struct.Struct("<4sIQIIQ")
    group, head_crc, offset, body_bytes, body_crc, of_generation = head.unpack_from(data, synced)
    assert (group, offset, of_generation) == (b"rgrp", synced, 1)
    assert head_crc == google_crc32c.value(data[synced + 8 : synced + 32])
    body = data[synced + 32 : synced + 32 + body_bytes]
    assert body_crc == google_crc32c.value(body)
    hard_state, payload = bytes.fromhex("920702"), bytes.fromhex("91 94 01 07 00 c4 01 78")
    assert body == (struct.pack("<IB3x", 3, 1) + hard_state.ljust(8, b"\0") + struct.pack("<IB3x", 8, 3) + payload)
    mark = synced + 32 + body_bytes
    assert head.unpack_from(data, mark)[2:5] == (mark, 0, 0)
    assert len(data) == mark + 32


def test_a_tail_torn_at_every_byte_loses_only_what_was_not_synced() -> None:
    disk, _, states = filled()
    whole = contents(disk)
    marks = [place for place in range(0, len(whole), 8) if whole[place : place + 4] == b"rgrp"]
    assert len(marks) == 5
    for size in range(len(whole)):
        cut = disk_with(whole[:size])
        if size < marks[1]:
            with pytest.raises(Corrupt):
                reopened(cut)
        else:
            groups = sum(mark <= size for mark in marks[1:])
            assert reopened(cut) == states[groups - 1]


def test_every_flipped_bit_is_detected_or_harmless() -> None:
    disk, _, states = filled()
    whole = contents(disk)
    mark = len(whole) - 32
    for place in range(len(whole)):
        for bit in range(8):
            damaged = disk_with(whole)
            damaged.flip_bit(PATH, place, bit)
            if place < mark:
                with pytest.raises(Corrupt) as caught:
                    verify(damaged, "/raft")
                assert caught.value.offset <= place
                with pytest.raises(Corrupt):
                    reopened(damaged)
            else:
                assert verify(damaged, "/raft").torn_bytes == 32
                assert reopened(damaged) == states[-1]


def test_damage_is_found_below_a_head_even_when_the_last_group_is_torn() -> None:
    disk, log, _ = filled()
    end = len(contents(disk)) - 32
    log.persist(Persist(4, None, None, entries(6, 8, term=2)))
    data = bytearray(contents(disk)[: end + 40])  # the last group is half there; its head is proof
    data[end - 20] ^= 1
    with pytest.raises(Corrupt):
        reopened(disk_with(bytes(data)))


def test_heads_that_stand_in_payloads_prove_nothing() -> None:
    disk, log, _ = filled()
    stolen = contents(disk)
    before = verify(disk, "/raft").state
    end = len(stolen) - 32
    log.persist(Persist(4, None, None, (entry(6, 2, stolen),)))
    torn = contents(disk)[:-40]  # into the body of the last group
    assert reopened(disk_with(torn)) == before
    assert len(torn) > end


def test_a_version_from_the_future_is_named() -> None:
    disk, _, _ = filled()
    data = bytearray(contents(disk))
    data[8:16] = struct.pack("<II", 3, 0)
    data[12:16] = struct.pack("<I", google_crc32c.value(bytes(data[:32])))
    with pytest.raises(FormatTooNew) as caught:
        reopened(disk_with(bytes(data)))
    assert (caught.value.found, caught.value.supported) == (3, 2)


def test_a_missing_log_is_not_an_empty_one() -> None:
    disk, _ = made()
    with pytest.raises(NoSuchLog):
        RaftLog.open(disk, "/elsewhere")
    with pytest.raises(LogError, match="exists already"):
        RaftLog.create(disk, "/raft", FIRST)


def test_a_failed_sync_fences_for_good() -> None:
    disk, log, states = filled()
    disk.fail_next_sync(PATH)
    with pytest.raises(Fenced):
        log.persist(Persist(4, HardState(9, 1)))
    with pytest.raises(Fenced, match="earlier"):
        log.persist(Persist(5, HardState(9, 2)))
    disk.crash(Random(1))
    assert reopened(disk) == states[-1]


def test_a_restart_does_not_launder_a_failed_sync() -> None:
    """The kernel shows the data to the next process and loses it with the power: recovery writes it again."""
    for seed in range(20):
        disk, log, _ = filled()
        disk.fail_next_sync(PATH)
        with pytest.raises(Fenced):
            log.persist(Persist(4, HardState(9, 1)))
        disk.kill()
        recovered = reopened(disk)
        assert recovered.hard_state == HardState(9, 1)
        disk.crash(Random(seed))
        assert reopened(disk) == recovered


def test_a_failed_sync_of_recovery_itself_fences() -> None:
    disk, _, states = filled()
    disk.fail_next_sync(f"/raft/{raftlog.NEW_NAME}")
    with pytest.raises(Fenced):
        RaftLog.open(disk, "/raft")
    disk.kill()
    assert reopened(disk) == states[-1]


def full_at(free_bytes: int, effect: Persist, *, crash: bool, zero_ahead_bytes: int = 0) -> bool:
    """Persist with little space, then again with enough; tells whether the first try was refused."""
    disk, log, states = filled(zero_ahead_bytes)
    disk.capacity_bytes = len(contents(disk)) + free_bytes
    refused = False
    try:
        log.persist(effect)
    except StorageFull:
        refused = True
        if not crash:
            disk.capacity_bytes = None
            log.persist(effect)
    model = DurableModel(states[-1])
    if not (refused and crash):
        model.persisted(effect)
    disk.capacity_bytes = None
    disk.crash(Random(free_bytes))
    assert reopened(disk) == model.state
    return refused


@pytest.mark.parametrize("crash", [False, True])
@pytest.mark.parametrize(
    "effect",
    [Persist(4, None, None, entries(6, 20, 2)), Persist(4, HardState(3), Snapshot(5, 2), entries(6, 9, 2))],
)
def test_a_full_disk_refuses_and_takes_nothing_away(effect: Persist, crash: bool) -> None:
    refused = [full_at(free_bytes, effect, crash=crash) for free_bytes in range(0, 400, 5)]
    assert refused[0]
    assert not refused[-1]


@pytest.mark.parametrize("crash", [False, True])
def test_a_full_disk_takes_nothing_away_where_zeros_were_written_ahead(crash: bool) -> None:
    effect = Persist(4, None, None, entries(6, 30, 2))
    refused = [full_at(free, effect, crash=crash, zero_ahead_bytes=200) for free in range(0, 1000, 9)]
    assert refused[0]
    assert not refused[-1]
    assert sorted(refused, reverse=True) == refused, "a disk with more space takes all that one with less takes"


def test_a_snapshot_without_a_descriptor_for_it_is_refused_and_can_be_repeated() -> None:
    """It is nothing to fence a server for: nothing was written, and nothing that was is in doubt."""
    disk, log, states = filled()
    effect = Persist(4, HardState(3), Snapshot(5, 2), entries(6, 9, 2))
    disk.lacks_descriptors = True
    with pytest.raises(StorageFull, match="open more files"):
        log.persist(effect)
    log.persist(Persist(4, None, None, entries(6, 7, 2)))  # what needs no file goes on
    disk.lacks_descriptors = False
    log.persist(effect)
    model = DurableModel(states[-1])
    model.persisted(Persist(4, None, None, entries(6, 7, 2)))
    model.persisted(effect)
    assert reopened(disk) == model.state


def test_a_snapshot_goes_on_without_a_descriptor_for_its_new_name(monkeypatch: pytest.MonkeyPatch) -> None:
    disk, log, states = filled()
    rename, effect = disk.rename, Persist(4, HardState(3), Snapshot(5, 2), entries(6, 9, 2))

    def renamed(old: str, new: str) -> None:
        rename(old, new)
        disk.lacks_descriptors = True

    monkeypatch.setattr(disk, "rename", renamed)
    log.persist(effect)
    log.persist(Persist(5, None, None, entries(9, 10, 2)))
    disk.lacks_descriptors = False
    model = DurableModel(states[-1])
    model.persisted(effect)
    model.persisted(Persist(5, None, None, entries(9, 10, 2)))
    assert reopened(disk) == model.state


def test_small_groups_are_written_where_zeros_stand() -> None:
    disk, log = made(zero_ahead_bytes=600)
    sizes = set()
    for index in range(1, 40):
        log.persist(Persist(index, None, None, (entry(index),)))
        sizes.add(len(contents(disk)))
        found = verify(disk, "/raft")
        assert found.state.entries == entries(1, index + 1)
        assert found.torn_bytes == 0
        assert found.valid_bytes < len(contents(disk))
    assert len(sizes) < 10, "the size of the file changes once for many groups"
    disk.crash(Random(1))
    assert reopened(disk).entries == entries(1, 40)


def test_zeros_that_do_not_fit_are_not_tried_for_every_group() -> None:
    disk, log = made(zero_ahead_bytes=600)
    disk.capacity_bytes = len(contents(disk)) + 100
    index = 1
    operations = 0
    while len(contents(disk)) < disk.capacity_bytes - 40:
        before = disk.operations
        log.persist(Persist(index, None, None, (entry(index),)))
        operations = disk.operations - before
        index += 1
    assert operations == 3, "a write, its sync and the mark"
    disk.capacity_bytes = None
    log.persist(Persist(index, HardState(2), Snapshot(index - 1, 1)))
    assert len(contents(disk)) > 600, "the next file has them again"


def test_large_states_are_divided_into_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raftlog, "GROUP_BYTES_MAX", 100)
    disk, log, _ = filled()
    log.persist(Persist(4, HardState(2, 3), Snapshot(5, 2), entries(6, 20, 2)))
    assert reopened(disk).entries == entries(6, 20, 2)
    assert verify(disk, "/raft").groups == 8


def test_a_file_that_ends_between_two_groups_is_said_to_be_too_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raftlog, "GROUP_BYTES_MAX", 100)
    disk, log, _ = filled()
    log.persist(Persist(4, HardState(2, 3), Snapshot(5, 2), entries(6, 20, 2)))
    groups, whole = verify(disk, "/raft").groups, contents(disk)[: log.place.offset]
    said = []
    for size in range(raftlog._FILE_HEAD.size, len(whole)):
        with pytest.raises(Corrupt) as caught:
            verify(disk_with(whole[:size]), "/raft")
        said.append("the file ends before" in str(caught.value))
    assert said.count(True) == groups


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda: Persist(4, None, None, entries(9, 10, 2)), "do not continue"),
        (lambda: Persist(4, None, None, (entry(6, 2), entry(8, 2))), "not in its place"),
    ],
)
def test_entries_that_do_not_fit_are_corruption(damage: Callable[[], Persist], message: str) -> None:
    disk, log, _ = filled()
    log.persist(damage())
    with pytest.raises(Corrupt, match=message):
        reopened(disk)


steps = st.lists(st.tuples(st.sampled_from(["vote", "append", "cut", "snapshot"]), st.integers(1, 5)), max_size=8)
tears: st.SearchStrategy[Tear] = st.sampled_from(["sector", "byte"])


def effects_of(script: list[tuple[str, int]]) -> list[Persist]:
    """Persists as a core would hand them out."""
    model, effects = DurableModel(FIRST), []
    for sequence, (kind, number) in enumerate(script, 1):
        term, last, base = model.hard_state.term, model.last_index, model.snapshot.index
        if kind == "append":
            effect = Persist(sequence, None, None, entries(last + 1, last + 1 + number, term))
        elif kind == "cut":
            start = max(base + 1, last - number)
            effect = Persist(sequence, HardState(term + 1), None, entries(start, start + number, term + 1))
        elif kind == "snapshot":
            index = min(last, base + number)
            rest = tuple(each for each in model.state.entries if each.index > index)
            effect = Persist(sequence, model.hard_state, Snapshot(index, term, data=b"s" * 600), rest)
        else:
            effect = Persist(sequence, HardState(term + 1, number))
        effects.append(effect)
        model.persisted(effect)
    return effects


@settings(max_examples=200, deadline=None)
@given(steps, st.integers(0, 60), st.integers(0, 1 << 20), tears, st.booleans(), st.sampled_from([0, 0, 40, 300]))
def test_power_loss_at_any_operation_keeps_whole_persists(
    script: list[tuple[str, int]], operations: int, seed: int, tear: Tear, again: bool, zero_ahead_bytes: int
) -> None:
    disk, log = made(zero_ahead_bytes)
    model = DurableModel(FIRST)
    possible = [FIRST]
    disk.power_fails_after(operations)
    try:
        for effect in effects_of(script):
            before = model.state
            model.persisted(effect)
            possible = [before, model.state]
            log.persist(effect)
            possible = [model.state]
    except PowerLoss:
        pass
    disk.crash(Random(seed), tear=tear)
    assert verify(disk, "/raft").state in possible
    if again:  # and once more, in the middle of the recovery
        disk.power_fails_after(seed % 7)
        with suppress(PowerLoss):
            reopened(disk)
        disk.crash(Random(seed))
    assert reopened(disk) in possible
