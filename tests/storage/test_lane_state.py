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
