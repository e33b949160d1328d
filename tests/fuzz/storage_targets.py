"""What servers and embedded logs read back from their disks."""

from contextlib import suppress
from itertools import islice
from random import Random
from typing import Any
from uuid import UUID

import msgspec
from tests.fuzz import repairs
from tests.fuzz.target import NESTED, NO_TEXT, Target
from tests.server.raft_members import nowhere, raft_member
from tests.storage.lanes import LANE, Row, Source, control, disk_of, make_lane, open_lane, read_rows, write
from tests.wire.batches import data_of

from ithaca.embedded import directory as embedded
from ithaca.engines.scalog.storage import pack, replica_meta, runs_file
from ithaca.engines.scalog.storage.lane_store import LaneStore
from ithaca.engines.scalog.storage.packed_lane import PackedLane
from ithaca.engines.scalog.storage.replica_meta import ReplicaMeta
from ithaca.engines.scalog.storage.runs import Runs
from ithaca.engines.scalog.storage.runs_format import Run
from ithaca.model.cut import LaneRun
from ithaca.model.errors import ConfigError, Corrupt, FormatTooNew
from ithaca.model.limits import MIB
from ithaca.model.positions import LaneId
from ithaca.raft.events import Persist
from ithaca.raft.messages import DurableState, Entry, EntryKind, HardState, Snapshot, first_state
from ithaca.server.raft_host import directory as orderer
from ithaca.sim.disk import SimDisk
from ithaca.storage import checked_file, raftlog, synced
from ithaca.storage import index as indexes
from ithaca.storage.raft_files import RaftLogFiles
from ithaca.storage.raftlog import RaftLog
from ithaca.storage.segment import name_of
from ithaca.storage.sessions import SessionForgotten, SessionOpened
from ithaca.storage.state import Control, LaneState, TrimmedTo, control_entry
from ithaca.storage.synced import Progress, ProgressFile
from ithaca.wire.batch import CONTROL, SNAPSHOT, lane_seed
from ithaca.wire.build import bookkeeping, build

_PLACE = "/lane"
_READ_MAX = 1000
"""Of what was decoded, so many records and runs are read."""
_SEGMENT_BYTES = 1 << 20


def _file(disk: SimDisk, name: str) -> bytes:
    file = disk.open(f"{_PLACE}/{name}")
    return file.read(0, file.size())


# Lanes


def _lane(data: bytes) -> tuple[bytes, list[Row]]:
    """A lane of one segment, as it opens: its state, and its first records."""
    disk = disk_of({name_of(0): data})
    found = _opened(disk)
    disk.kill()
    assert _opened(disk) == found, "opening it once more finds something else"
    return found


def _opened(disk: SimDisk) -> tuple[bytes, list[Row]]:
    lane = open_lane(disk)
    return lane.state.snapshot_entry().head, read_rows(lane, lane.trim_lsn, min(lane.length, lane.trim_lsn + _READ_MAX))


def _written_lane() -> tuple[bytes, ...]:
    """Segments with records, sessions, trims and marks, the last of them closed."""
    disk, source, found = disk_of(), Source(Random(7)), []
    make_lane(disk)
    lane = open_lane(disk, segment_bytes=_SEGMENT_BYTES)
    found.append(_file(disk, name_of(0)))
    write(lane, [control(SessionOpened(1, "loader", 1)), source.records(3)])
    write(lane, [source.records(2, producer=(1, 1, 1)), control(TrimmedTo(1)), source.records(2)])
    found.append(_file(disk, name_of(0))[:2000])
    return tuple(found)


def _snapshot_body(data: bytes) -> bytes:
    """What a lane's state says of itself, read from a snapshot that says this."""
    entry = bookkeeping(SNAPSHOT, data, timestamp_us=5).placed(3, lane_seed(LANE))
    return LaneState.restored(entry).snapshot_entry().control_body()


def _control_body(data: bytes) -> bytes:
    state = LaneState()
    state.apply(bookkeeping(CONTROL, data))
    return state.snapshot_entry().control_body()


def _snapshots() -> tuple[bytes, ...]:
    """Of a new lane, and of one with sessions."""
    state = LaneState()
    found = [state.snapshot_entry().control_body()]
    for each in (SessionOpened(1, "loader", 1), SessionOpened(2, "other", 1), TrimmedTo(2)):
        state.apply(control_entry(each))
    state.apply(build([b"a", b"b"], timestamp_us=7, producer=(1, 1, 1)).placed(0, lane_seed(LANE)))
    return (*found, state.snapshot_entry().control_body())


_CONTROLS: tuple[Control, ...] = (TrimmedTo(7), SessionOpened(3, "loader", 2), SessionForgotten(3))


# The sparse index


def _index(data: bytes) -> list[tuple[int, int]]:
    """Whatever the file says, what checks out of it is used; all of it is, or what is wrong is said."""
    found, problem = indexes.load(data, segment_bytes=_SEGMENT_BYTES)
    again, nothing = indexes.load(data[: found.blocks_bytes], segment_bytes=_SEGMENT_BYTES)
    entries = list(found.entries())
    assert (list(again.entries()), again.blocks, nothing) == (entries, found.blocks, "")
    for at in (-1, 0, 7, 1 << 63):
        found.floor(at)
        found.floor_time(at)
    if problem:
        raise Corrupt(problem)
    return entries


def _index_file() -> bytes:
    disk, index = disk_of(), indexes.Index()
    file = disk.open("/lane/index", create=True)
    for block in range(3):
        for number in range(block):
            index.note(10 * block + number, index.next_offset, 1000 + block)
        index.store_block(file, index.next_offset + 64, 10 * block + 9)
    return _file(disk, "index")


# Runs


_PAGES = f"{runs_file.NAME}-{0:012d}"


def _runs(data: bytes) -> tuple[int, int, list[Run]]:
    """The pages behind the slots are in a file of their own, but for version 1."""
    is_version_1 = data[8:12] == (1).to_bytes(4, "little")
    at = len(data) if is_version_1 else repairs.RUNS_HEAD_BYTES
    disk = disk_of({runs_file.NAME: data[:at], _PAGES: data[at:]})
    found = _looked_up(disk)
    disk.kill()
    assert _looked_up(disk) == found, "opening it once more finds something else"
    return found


def _looked_up(disk: SimDisk) -> tuple[int, int, list[Run]]:
    runs = Runs(disk, _PLACE, page_entries=repairs.PAGE_ENTRIES, pages_cached_max=2)
    listed = list(islice(runs.runs(0, runs.end_lsn), _READ_MAX))
    if runs.first_lsn < runs.end_lsn:
        assert runs.position_of(runs.first_lsn) == listed[0].position
        assert runs.lsn_of(listed[0].position) == runs.first_lsn
        assert runs.runs_from(runs.first_lsn, 1)
        runs.seek_time(listed[0].time_us)
    return runs.first_lsn, runs.end_lsn, listed


def _runs_bytes(disk: SimDisk) -> bytes:
    head = _file(disk, runs_file.NAME).ljust(repairs.RUNS_HEAD_BYTES, b"\0")
    return head + (_file(disk, _PAGES) if disk.exists(f"{_PLACE}/{_PAGES}") else b"")


def _runs_files() -> tuple[bytes, ...]:
    disk, found = disk_of(), []
    runs = Runs(disk, _PLACE, page_entries=repairs.PAGE_ENTRIES)
    found.append(_runs_bytes(disk))
    for number in range(11):
        runs.append(Run(3 * number, 5 * number + 1, 3, 100 + number))
        if number % 4 == 1:
            runs.sync()
            found.append(_runs_bytes(disk))
    runs.sync()
    runs.trim(15)
    runs.sync()
    newest = _runs_bytes(disk)
    of_version_1 = newest[:8] + (1).to_bytes(4, "little") + newest[12:]
    return (*found, newest, repairs.runs(of_version_1))


# Packs

_PACK = pack.name_of(1)


def _packed(data: bytes) -> list[tuple[LaneId, int, list[Row], list[Run]]]:
    """The lanes of a pack, as far as they check out: their lengths, first records and runs."""
    disk = disk_of({_PACK: data})
    path = f"{_PLACE}/{_PACK}"
    found: list[tuple[LaneId, int, list[Row], list[Run]]] = []
    for at in map(pack.packed_at, pack.load(disk, path).entries):
        with suppress(Corrupt):
            lane = PackedLane(disk, path, disk.open(path), at)
            lane.state.snapshot_entry()
            stop = min(lane.length, lane.trim_lsn + _READ_MAX)
            rows = read_rows(lane, lane.trim_lsn, stop) if lane.first_lsns[0] <= lane.trim_lsn < stop else []
            lane.runs.seek_time(5)
            found.append((at.lane, lane.length, rows, list(islice(lane.runs.runs(0, lane.length), _READ_MAX))))
    return found


def _packs() -> tuple[bytes, ...]:
    """Packs of one lane and of several."""
    found: list[bytes] = []
    for lanes in (1, 3):
        disk, source = disk_of(), Source(Random(lanes))
        store = LaneStore(disk, _PLACE)
        for number in range(1, lanes + 1):
            lane = LaneId(0, 0, number)
            held = store.create(lane)
            write(held.lane, [source.records(2), source.records(1)])
            store.note((LaneRun(lane, 0, 10 * number, 3),), number)
            held.is_written, held.is_settled = False, True
        assert store.pack() is None
        found.append(_file(disk, _PACK))
    return tuple(found)


# The Raft log


def _raft_state(data: bytes) -> DurableState:
    disk = disk_of({raftlog.FILE_NAME: data})
    found = raftlog.verify(disk, _PLACE).state
    assert RaftLog.open(disk, _PLACE)[1] == found
    assert raftlog.verify(disk, _PLACE).state == found
    return found


def _raft_log(state: DurableState) -> bytes:
    disk = disk_of()
    RaftLog.create(disk, _PLACE, state)
    return _file(disk, raftlog.FILE_NAME)


def _raft_logs() -> tuple[bytes, ...]:
    disk = disk_of()
    log = RaftLog.create(disk, _PLACE, first_state(1, 2, 3))
    found = [_file(disk, raftlog.FILE_NAME)]
    entries = tuple(Entry(index, 1, EntryKind.PAYLOAD, b"entry-%d" % index) for index in range(1, 5))
    log.persist(Persist(1, HardState(1, 2), None, entries[:2]))
    log.persist(Persist(2, None, None, entries[2:]))
    log.persist(Persist(3, HardState(2, 3), None, (Entry(3, 2, EntryKind.NOOP, b""),)))
    found.append(_file(disk, raftlog.FILE_NAME))
    log.persist(Persist(4, HardState(2, 3), Snapshot(3, 2, data=b"state"), ()))
    return (*found, _file(disk, raftlog.FILE_NAME))


# Small files


def _replica_meta(data: bytes) -> ReplicaMeta:
    disk = disk_of({replica_meta.NAME: data})
    found = replica_meta.start(disk, _PLACE, 0, 1, now_us=1)
    assert replica_meta.start(disk, _PLACE, 0, 1, now_us=1).boot == found.boot + 1
    return found


def _orderer_state(data: bytes) -> DurableState:
    return orderer.open_store(disk_of({orderer.META: data}), _PLACE, RaftLogFiles(), raft_member(1, nowhere(1, 2, 3)))[
        1
    ]


def _log_meta(data: bytes) -> embedded.Meta:
    return embedded.load_meta(disk_of({embedded.META: data}), _PLACE)


def _checked(value: msgspec.Struct) -> bytes:
    return checked_file.encode(msgspec.msgpack.encode(value))


def _progress(data: bytes) -> Progress:
    """What the file says; that it says nothing is no error to those who ask, and a refusal here."""
    said = ProgressFile(disk_of({synced.NAME: data}), _PLACE, writable=False).load()
    if said is None:
        raise Corrupt("the file says nothing")
    return said


def _synced_file(progress: Progress) -> bytes:
    disk = disk_of()
    ProgressFile(disk, _PLACE, writable=True).store(progress)
    return _file(disk, synced.NAME)


def _with_pages(pages: int) -> bytes:
    """A file that says that it has so many pages, all of them from before."""
    data = bytearray(_RUNS[-1])
    for slot in (512, 512 + 56 + 32 * repairs.PAGE_ENTRIES):
        data[slot + 16 : slot + 32] = pages.to_bytes(8, "little") * 2
    return repairs.runs(bytes(data))


_DAMAGE = (Corrupt, FormatTooNew)
_LANES, _RUNS = _written_lane(), _runs_files()
_encoded = msgspec.msgpack.encode

TARGETS: tuple[Target[Any], ...] = (
    Target(
        "lane-segment",
        _lane,
        _DAMAGE,
        _LANES,
        repair=repairs.segment,
        # After this batch the session's next number is none that a snapshot can hold.
        regressions=(_LANES[0] + data_of(build([b"value"], timestamp_us=5, producer=(1, 1, (1 << 64) - 1))),),
    ),
    Target("lane-snapshot", _snapshot_body, (Corrupt,), _snapshots(), bytes, regressions=(NESTED, NO_TEXT)),
    Target(
        "lane-control",
        _control_body,
        (Corrupt,),
        tuple(control_entry(each).control_body() for each in _CONTROLS),
        regressions=(NESTED, _encoded({"type": "trimmed", "lsn": -1}), b"\x82\xa4type\xa1\xff\xa3lsn\x07"),
    ),
    Target("index", _index, (Corrupt,), (b"", _index_file()), repair=repairs.index),
    Target("runs", _runs, _DAMAGE, _RUNS, repair=repairs.runs, regressions=(_with_pages(1 << 33),)),
    Target("pack", _packed, _DAMAGE, _packs(), repair=repairs.pack),
    Target("raft-log", _raft_state, _DAMAGE, _raft_logs(), _raft_log, repairs.raft_log),
    Target(
        "replica-meta",
        _replica_meta,
        (*_DAMAGE, ConfigError),
        tuple(_checked(ReplicaMeta(log, 0, 1, 9)) for log in (None, UUID(int=7))),
        repair=repairs.checked,
        regressions=(_checked(ReplicaMeta(None, 0, 1, (1 << 64) - 1)), checked_file.encode(NESTED)),
    ),
    Target(
        "orderer-meta",
        _orderer_state,
        (*_DAMAGE, ConfigError),
        (_checked(orderer.Meta(1)),),
        repair=repairs.checked,
        memory_bytes_max=8 * MIB,  # a Raft log is made, with zeros ahead
    ),
    Target(
        "log-meta",
        _log_meta,
        _DAMAGE,
        (_checked(embedded.Meta(str(UUID(int=7)), "embedded", 9)),),
        _checked,
        repairs.checked,
        regressions=(checked_file.encode(NESTED), checked_file.encode(b"\x83\xa4uuid\xa1\xff")),
    ),
    Target("synced", _progress, (Corrupt,), (_synced_file(Progress(9, 2, 0, 640, 9)),), _synced_file, repairs.synced),
)
