"""What a snapshot keeps of a lane's state, and what it makes of an older one."""

import msgspec

from ithaca.storage.state import LaneState
from ithaca.wire.batch import SNAPSHOT, Batch
from ithaca.wire.build import bookkeeping, build, noops

SEED = 7


def applied(*entries: Batch) -> LaneState:
    state = LaneState()
    for entry in entries:
        state.apply(entry.placed(state.length, SEED))
    return state


def restored(state: LaneState) -> LaneState:
    return LaneState.restored(state.snapshot_entry().placed(state.length, SEED))


def test_holes_are_noted_and_kept() -> None:
    records = build([b"a", b"b"], timestamp_us=5, producer=(1, 1, 1))
    assert not restored(applied(records)).has_holes
    state = applied(records, noops(3, timestamp_us=0), build([b"c"], timestamp_us=9))
    for found in (state, restored(state)):
        assert (found.has_holes, found.length, found.time_us) == (True, 6, 9)


def test_a_snapshot_from_before_holes_were_noted_has_none() -> None:
    body = msgspec.msgpack.encode({"trim_lsn": 2, "sessions": {"next_producer_id": 1, "sessions": []}})
    state = LaneState.restored(bookkeeping(SNAPSHOT, body, timestamp_us=3).placed(4, SEED))
    assert (state.has_holes, state.trim_lsn, state.length) == (False, 2, 4)


def test_a_snapshot_behind_no_ops_makes_up_for_them() -> None:
    whole = applied(*(build([b"a"], timestamp_us=seq, producer=(1, 1, seq)) for seq in (1, 2, 3)))
    copy = applied(noops(3, timestamp_us=0), whole.snapshot_entry())
    assert not copy.has_holes
    assert (copy.length, copy.time_us) == (3, 3)
    assert copy.sessions.placed_of(1) == whole.sessions.placed_of(1) != []


def test_a_snapshot_that_has_holes_itself_makes_up_for_nothing() -> None:
    holed = applied(noops(2, timestamp_us=0), build([b"a"], timestamp_us=1, producer=(1, 1, 3)))
    assert applied(noops(3, timestamp_us=0), holed.snapshot_entry()).has_holes


def test_a_snapshot_in_a_lane_without_holes_changes_nothing() -> None:
    other = applied(build([b"a"], timestamp_us=9, producer=(7, 1, 1)))
    state = applied(build([b"b"], timestamp_us=1, producer=(1, 1, 1)), other.snapshot_entry())
    assert (state.time_us, state.sessions.placed_of(7)) == (1, [])
