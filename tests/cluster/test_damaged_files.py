"""Every file of a stopped cluster torn at every byte, and every byte of it flipped: refused by name, or harmless.

The files are opened as the servers open them, from copies on a simulated disk. Never may another record, position,
term, vote or entry come out, and never fewer of them without an error.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest
from tests.cluster.damaged import Image, make_image, small_pages
from tests.server.raft_members import nowhere, raft_member

from ithaca.engines.scalog.storage import replica_meta
from ithaca.engines.scalog.storage.held_lane import HeldLength
from ithaca.engines.scalog.storage.lane_store import LaneStore
from ithaca.engines.scalog.storage.quarantine import lane_of
from ithaca.engines.scalog.storage.runs_format import Run
from ithaca.model.errors import Corrupt
from ithaca.model.positions import LaneId
from ithaca.raft.messages import DurableState
from ithaca.server.raft_host import directory as orderer_directory
from ithaca.server.raft_host.directory import open_store
from ithaca.sim.disk import SimDisk
from ithaca.storage.raft_files import RaftLogFiles
from ithaca.storage.raftlog import FILE_NAME, verify
from ithaca.storage.reader import Cursor
from ithaca.wire.batch import Batch

Files = dict[str, bytes]
Change = Callable[[bytes], bytes]
SAMPLE_FLIPS, SAMPLE_TEARS = 2500, 1200
SPARE_BYTES = 64
"""Of the zeros behind a Raft log."""


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    with small_pages():
        yield make_image(tmp_path_factory.mktemp("cluster"))


def files_of(directory: Path) -> Files:
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir()) if path.is_file()}


def disk_with(directory: str, files: Files) -> SimDisk:
    disk = SimDisk()
    disk.make_directory(directory)
    for name, data in files.items():
        disk.open(f"{directory}/{name}", create=True).write(0, [data])
    return disk


# How bytes change


def flipped(data: bytes, at: int, mask: int) -> bytes:
    changed = bytearray(data)
    changed[at] ^= mask
    return bytes(changed)


def torn_off(data: bytes, at: int) -> bytes:
    return data[:at]


def torn_to_zeros(data: bytes, at: int) -> bytes:
    return data[:at] + bytes(len(data) - at)


def torn_to_garbage(data: bytes, at: int) -> bytes:
    return data[:at] + Random(at).randbytes(len(data) - at)


Tear = Callable[[bytes, int], bytes]
TEARS: tuple[Tear, ...] = (torn_off, torn_to_zeros, torn_to_garbage)


def first_change(before: bytes, after: bytes) -> int:
    """The first byte that differs or is missing: padding is zeros already."""
    pairs = enumerate(zip(before, after, strict=False))
    return next((at for at, (old, new) in pairs if old != new), min(len(before), len(after)))


def tearing(tear: Tear, at: int) -> Change:
    return lambda data: tear(data, at)


# Lanes


class Content(NamedTuple):
    """All that a lane says."""

    held: HeldLength
    batches: list[bytes]
    starts: list[int]
    runs: list[Run]
    sessions: object


class DamagedLane:
    """A lane of a replica, whole, and what becomes of it when one of its files is changed."""

    def __init__(self, path: Path) -> None:
        lane = lane_of(path.name)
        assert lane is not None
        self.lane: LaneId = lane
        self.files = files_of(path)
        self.expected = self._content(self._opened(self.files))

    def outcome(self, name: str, data: bytes) -> str:
        """What happens when this file holds this; anything that may not happen fails."""
        store = self._opened({**self.files, name: data})
        if store.quarantined:
            aside = store.quarantined[0]
            assert (aside.lane, list(store.lanes)) == (self.lane, [])
            assert aside.error is not None
            assert aside.error.file.startswith(f"/lanes/{self.lane}")
            return "quarantined"
        assert store.held()[self.lane] == self.expected.held
        damage = self._read_each(store)
        try:
            content = self._content(store)
        except Corrupt as error:
            damage = damage or error
        else:
            assert content == self.expected
        if damage is None:
            return "harmless"
        assert store.mark_damaged(damage) == self.lane, "the error names the file"
        return "met by readers"

    def _opened(self, files: Files) -> LaneStore:
        disk = disk_with(f"/lanes/{self.lane}", files)
        return LaneStore(disk, "/lanes", segment_bytes=1 << 20)

    def _content(self, store: LaneStore) -> Content:
        held = store.lanes[self.lane]
        batches: list[Batch] = []
        cursor = Cursor(held.lane, held.lane.trim_lsn)
        while cursor.lsn < held.lane.length:
            batches += cursor.read(held.lane.length)
        return Content(
            store.held()[self.lane],
            [b"".join(batch.buffers()) for batch in batches],
            [batch.base_lsn for batch in batches],
            list(held.runs.runs(0, held.runs.end_lsn)),
            held.lane.state.sessions.snapshot(),
        )

    def _read_each(self, store: LaneStore) -> Corrupt | None:
        """Each batch by itself is right or refused, whatever the others are."""
        lane, damage = store.lanes[self.lane].lane, None
        for lsn, expected in zip(self.expected.starts, self.expected.batches, strict=True):
            try:
                found = Cursor(lane, lsn).read(lane.length, bytes_max=1)[0]
            except Corrupt as error:
                damage = error
            else:
                assert b"".join(found.buffers()) == expected, f"LSN {lsn} is another batch"
        return damage


def lanes_of(image: Image, replica: int) -> list[DamagedLane]:
    directory = image.directory / f"shard-0-replica-{replica}" / "lanes"
    found = [DamagedLane(path) for path in sorted(directory.iterdir())]
    assert len(found) == 4
    return found


def kind_of(lane: DamagedLane, name: str) -> str:
    """Segments that are sealed are looked at by readers only; the last one is looked at when the lane is opened."""
    if not name.endswith(".seg"):
        return "runs" if name.startswith("runs") else name.split(".")[-1]
    return "last segment" if name == max(other for other in lane.files if other.endswith(".seg")) else "sealed segment"


def judge(cases: list[tuple[DamagedLane, str, Change]]) -> dict[str, Counter[str]]:
    """The outcomes by the kind of file."""
    outcomes: dict[str, Counter[str]] = {}
    for lane, name, change in cases:
        kind, data = kind_of(lane, name), lane.files[name]
        changed = change(data)
        outcome = "unchanged" if changed == data else lane.outcome(name, changed)
        outcomes.setdefault(kind, Counter())[outcome] += 1
    return outcomes


def sites(lanes: list[DamagedLane]) -> list[tuple[DamagedLane, str, int]]:
    return [(lane, name, at) for lane in lanes for name, data in lane.files.items() for at in range(len(data))]


def check_flips(outcomes: dict[str, Counter[str]]) -> None:
    assert set(outcomes["last segment"]) <= {"quarantined", "harmless"}
    assert outcomes["last segment"]["quarantined"] > outcomes["last segment"]["harmless"]
    assert outcomes["sealed segment"]["met by readers"] > outcomes["sealed segment"]["harmless"]
    assert outcomes["runs"]["quarantined"] > 0
    assert outcomes["runs"]["met by readers"] > 0, "pages are looked at when they are needed"
    assert set(outcomes["idx"]) == set(outcomes["synced"]) == {"harmless"}, "both are made again"


def test_a_sample_of_flipped_bits_in_lanes_is_detected_or_harmless(image: Image) -> None:
    random = Random(1)
    places = random.sample(sites(lanes_of(image, 0)) + sites(lanes_of(image, 1)), SAMPLE_FLIPS)
    check_flips(
        judge([(lane, name, partial(flipped, at=at, mask=1 << random.randrange(8))) for lane, name, at in places])
    )


@pytest.mark.campaign
@pytest.mark.parametrize("replica", [0, 1])
@pytest.mark.parametrize("mask", [1, 0x10, 0x80, 0xFF])
def test_every_flipped_byte_of_lanes_is_detected_or_harmless(image: Image, replica: int, mask: int) -> None:
    check_flips(
        judge([(lane, name, partial(flipped, at=at, mask=mask)) for lane, name, at in sites(lanes_of(image, replica))])
    )


def check_tears(outcomes: dict[str, Counter[str]]) -> None:
    assert outcomes["last segment"]["quarantined"] > 100
    assert outcomes["sealed segment"]["met by readers"] > 100
    assert outcomes["runs"]["quarantined"] > 50
    assert set(outcomes["idx"]) | set(outcomes["synced"]) <= {"harmless", "unchanged"}


def test_a_sample_of_torn_files_of_lanes_is_detected_or_harmless(image: Image) -> None:
    random = Random(2)
    places = random.sample(sites(lanes_of(image, 0)), SAMPLE_TEARS)
    check_tears(judge([(lane, name, tearing(random.choice(TEARS), at)) for lane, name, at in places]))


@pytest.mark.campaign
@pytest.mark.parametrize("tear", TEARS)
def test_a_tear_at_every_byte_of_lanes_is_detected_or_harmless(image: Image, tear: Tear) -> None:
    check_tears(judge([(lane, name, tearing(tear, at)) for lane, name, at in sites(lanes_of(image, 0))]))


# Meta of replicas and orderers: small enough for every bit in every run


def every_change(data: bytes) -> Iterator[bytes]:
    for at in range(len(data)):
        for bit in range(8):
            yield flipped(data, at, 1 << bit)
        for tear in TEARS:
            changed = tear(data, at)
            if changed != data:
                yield changed


def test_a_replicas_meta_is_refused_with_a_way_out_whatever_byte_is_wrong(image: Image) -> None:
    """Even if something follows it: then somebody else has written to it."""
    data = (image.directory / "shard-0-replica-0" / replica_meta.NAME).read_bytes()
    for changed in every_change(data):
        disk = disk_with("/replica", {replica_meta.NAME: changed})
        with pytest.raises(Corrupt, match=r"(?s)/replica/meta at byte .* start it with an empty one"):
            replica_meta.start(disk, "/replica", 0, 0, now_us=1)
    disk = disk_with("/replica", {replica_meta.NAME: data})
    before = replica_meta.start(disk, "/replica", 0, 0, now_us=1)
    assert replica_meta.start(disk, "/replica", 0, 0, now_us=1).boot == before.boot + 1


class RaftFiles(NamedTuple):
    files: Files
    state: DurableState

    @property
    def log(self) -> bytes:
        return self.files[FILE_NAME]


@pytest.fixture(scope="module")
def raft(image: Image) -> RaftFiles:
    """An orderer's directory; the zeros behind its log are cut, but for a few."""
    files = files_of(image.directory / "orderer-1")
    files[FILE_NAME] = files[FILE_NAME].rstrip(b"\0") + bytes(SPARE_BYTES)
    return RaftFiles(files, opened(files))


def opened(files: Files) -> DurableState:
    return open_store(disk_with("/orderer", files), "/orderer", RaftLogFiles(), raft_member(1, nowhere(1)))[1]


def test_an_orderers_meta_is_refused_whatever_byte_is_wrong(raft: RaftFiles) -> None:
    for changed in every_change(raft.files[orderer_directory.META]):
        with pytest.raises(Corrupt, match=r"(?s)/orderer/meta at byte .* does not start"):
            opened({**raft.files, orderer_directory.META: changed})


def check_raft_flips(raft: RaftFiles, places: list[tuple[int, int]]) -> None:
    detected = []
    for at, mask in places:
        try:
            assert opened({**raft.files, FILE_NAME: flipped(raft.log, at, mask)}) == raft.state, f"byte {at}"
        except Corrupt as error:
            detected.append((error.file, "does not start" in str(error)))
    assert set(detected) == {(f"/orderer/{FILE_NAME}", True)}
    assert len(detected) > len(places) * 0.9


def test_a_sample_of_flipped_bits_in_the_raft_log_is_detected_or_harmless(raft: RaftFiles) -> None:
    random = Random(3)
    check_raft_flips(raft, [(random.randrange(len(raft.log)), 1 << random.randrange(8)) for _ in range(1000)])


@pytest.mark.campaign
@pytest.mark.parametrize("bit", range(8))
def test_every_flipped_bit_of_the_raft_log_is_detected_or_harmless(raft: RaftFiles, bit: int) -> None:
    check_raft_flips(raft, [(at, 1 << bit) for at in range(len(raft.log))])


def check_raft_tears(raft: RaftFiles, places: list[tuple[Tear, int]]) -> None:
    """A tear takes along the proofs behind it, so that of what came after the last rewrite whole groups may be missing.

    A crash never tears there: all of it was synced. What the file began with is refused, and nothing is ever wrong.
    """
    disk = disk_with("/orderer", raft.files)
    end = verify(disk, "/orderer").valid_bytes
    synced = int.from_bytes(raft.log[24:32], "little")
    for tear, torn_at in places:
        changed = tear(raft.log, torn_at)
        at = first_change(raft.log, changed)
        try:
            state = opened({**raft.files, FILE_NAME: changed})
        except Corrupt:
            assert at < end
            continue
        assert at >= synced, f"torn at {at}, below what the file got its name with"
        if at >= end:
            assert state == raft.state
        assert is_prefix(state, raft.state), f"torn at {at}"


def is_prefix(state: DurableState, whole: DurableState) -> bool:
    return (
        state.snapshot == whole.snapshot
        and state.hard_state.term <= whole.hard_state.term
        and state.entries == whole.entries[: len(state.entries)]
    )


def test_a_sample_of_torn_raft_logs_is_refused_or_a_prefix(raft: RaftFiles) -> None:
    random = Random(4)
    check_raft_tears(raft, [(random.choice(TEARS), random.randrange(len(raft.log))) for _ in range(500)])


@pytest.mark.campaign
@pytest.mark.parametrize("tear", TEARS)
def test_a_raft_log_that_is_torn_at_every_byte_is_refused_or_a_prefix(raft: RaftFiles, tear: Tear) -> None:
    check_raft_tears(raft, [(tear, at) for at in range(len(raft.log))])
