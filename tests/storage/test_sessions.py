"""The session table against a dictionary that forgets nothing."""

from collections import OrderedDict

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ithaca.model.errors import SequenceGap, SessionExpired, SessionFenced, Unavailable
from ithaca.model.limits import SESSION_BATCHES_MAX
from ithaca.model.positions import LaneId
from ithaca.storage import sessions
from ithaca.storage.sessions import AppendedBatch, SessionForgotten, SessionOpened, SessionTable, Snapshot
from ithaca.wire.batch import Batch, lane_seed
from ithaca.wire.build import build

SEED = lane_seed(LaneId(0, 0, 1))


class NaiveTable:
    """Sessions as a dictionary, the one unused for longest first, with every batch ever."""

    def __init__(self) -> None:
        self.sessions: OrderedDict[int, tuple[str, int, list[tuple[int, int, int]]]] = OrderedDict()
        self.next_id = 1

    def next_seq(self, producer_id: int) -> int:
        placed = self.sessions[producer_id][2]
        return placed[-1][0] + placed[-1][1] if placed else 1


session_steps = st.one_of(
    st.tuples(st.just("open"), st.integers(0, 5), st.just(0)),
    st.tuples(st.just("append"), st.integers(1, 8), st.integers(1, 3)),
    st.tuples(st.just("restore"), st.just(0), st.just(0)),
)


@settings(max_examples=150)
@given(st.lists(session_steps, max_size=60))
def test_sessions_agree_with_a_naive_table(steps: list[tuple[str, int, int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sessions, "SESSIONS_MAX", 3)
        patch.setattr(sessions, "LANE_SESSIONS_MAX", 3)
        play_sessions(steps)


def play_sessions(steps: list[tuple[str, int, int]]) -> None:
    table, model, lsn = SessionTable(), NaiveTable(), 0
    history: list[Batch | SessionOpened | SessionForgotten] = []
    for kind, first, count in steps:
        if kind == "open":
            name = f"s{first}"
            known = next((key for key, state in model.sessions.items() if state[0] == name), None)
            entry, expired = table.opening(name)
            if known is None:
                assert entry == SessionOpened(model.next_id, name, 1)
                assert (expired is None) == (len(model.sessions) < 3)
                if expired is not None:
                    assert expired.producer_id == next(iter(model.sessions))
                    del model.sessions[expired.producer_id]
                model.sessions[model.next_id] = (name, 1, [])
                model.next_id += 1
            else:
                _, epoch, placed = model.sessions[known]
                assert (entry, expired) == (SessionOpened(known, name, epoch + 1), None)
                model.sessions[known] = (name, epoch + 1, placed)
                model.sessions.move_to_end(known)
            for change in (expired, entry):
                if change is not None:
                    apply(table, change)
                    history.append(change)
        elif kind == "append":
            lsn = append(table, model, history, first, count, lsn)
        else:
            table = SessionTable(table.snapshot())
            for earlier in history:  # recovery replays what the snapshot includes
                apply(table, earlier)
        assert [state.producer_id for state in table.snapshot().sessions] == list(model.sessions)
        assert len(table) == len(model.sessions)
    check_sessions(table, model)


def apply(table: SessionTable, change: Batch | SessionOpened | SessionForgotten) -> None:
    match change:
        case SessionOpened():
            table.apply_opened(change)
        case SessionForgotten():
            table.apply_forgotten(change)
        case _:
            table.apply_batch(change)


def append(
    table: SessionTable,
    model: NaiveTable,
    history: list[Batch | SessionOpened | SessionForgotten],
    producer_id: int,
    count: int,
    lsn: int,
) -> int:
    """The next batch of a session, if there is such a session; returns the lane's length."""
    if producer_id not in model.sessions:
        with pytest.raises(SessionExpired):
            table.place_of(producer_id, 1, 1, count)
        return lsn
    _, epoch, placed = model.sessions[producer_id]
    seq = model.next_seq(producer_id)
    assert table.next_seq(producer_id, epoch) == seq
    assert table.place_of(producer_id, epoch, seq, count) is None
    batch = build([b""] * count, timestamp_us=0, producer=(producer_id, epoch, seq)).placed(lsn, SEED)
    table.apply_batch(batch)
    history.append(batch)
    placed.append((seq, count, lsn))
    model.sessions.move_to_end(producer_id)
    return lsn + count


def check_sessions(table: SessionTable, model: NaiveTable) -> None:
    for producer_id, (_, epoch, placed) in model.sessions.items():
        with pytest.raises(SessionFenced):
            table.place_of(producer_id, epoch - 1, 1, 1)
        for seq, count, lsn in placed[-SESSION_BATCHES_MAX:]:
            assert table.place_of(producer_id, epoch, seq, count) == lsn
            with pytest.raises(SequenceGap):
                table.place_of(producer_id, epoch, seq, count + 1)
        for seq, count, _ in placed[:-SESSION_BATCHES_MAX]:
            with pytest.raises(SequenceGap):
                table.place_of(producer_id, epoch, seq, count)
        with pytest.raises(SequenceGap):
            table.place_of(producer_id, epoch, model.next_seq(producer_id) + 1, 1)


def batch_of(producer: tuple[int, int, int], count: int, lsn: int) -> Batch:
    return build([b""] * count, timestamp_us=0, producer=producer).placed(lsn, SEED)


@pytest.fixture
def _three_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "SESSIONS_MAX", 3)
    monkeypatch.setattr(sessions, "LANE_SESSIONS_MAX", 3)


@pytest.mark.usefixtures("_three_sessions")
def test_replaying_the_batch_of_an_expired_session_expires_nobody_else() -> None:
    table = SessionTable()
    history: list[Batch | SessionOpened | SessionForgotten] = []
    for name in ("a", "b", "c", "d"):
        entry, expired = table.opening(name)
        history += [change for change in (expired, entry) if change is not None]
        if name == "a":
            history.append(batch_of((1, 1, 1), 1, 0))
        table = SessionTable()
        for change in history:
            apply(table, change)
    restored = SessionTable(table.snapshot())
    for change in history:
        apply(restored, change)
    assert [state.name for state in restored.snapshot().sessions] == ["b", "c", "d"]
    assert not restored.forgetful


@pytest.mark.usefixtures("_three_sessions")
def test_a_lane_without_control_entries_learns_sessions_from_their_batches() -> None:
    table = SessionTable()
    table.apply_batch(batch_of((70, 2, 11), 3, 0))  # it came from another lane, and goes on here
    table.apply_batch(batch_of((70, 3, 14), 1, 3))
    assert table.placed_of(70) == [AppendedBatch(11, 3, 0), AppendedBatch(14, 1, 3)]
    assert table.next_seq(70, 3) == 15
    assert table.place_of(70, 3, 11, 3) == 0
    with pytest.raises(SessionFenced):
        table.next_seq(70, 2)
    assert table.placed_of(71) == []
    for number in range(10):
        table.apply_batch(batch_of((70, 3, 15 + number), 1, 4 + number))
    assert len(table.placed_of(70)) == SESSION_BATCHES_MAX


@pytest.mark.usefixtures("_three_sessions")
def test_a_lane_that_dropped_a_session_says_of_none_that_it_has_nothing_of_it() -> None:
    table = SessionTable()
    for lsn, producer in enumerate((7, 8, 9, 7)):
        table.apply_batch(batch_of((producer, 1, 1 + lsn), 1, lsn))
    assert not table.forgetful
    assert table.placed_of(10) == []
    table.apply_batch(batch_of((10, 1, 1), 1, 4))
    for found in (table, SessionTable(table.snapshot())):
        assert found.forgetful
        assert [state.producer_id for state in found.snapshot().sessions] == [9, 7, 10]
        assert found.placed_of(7) == [AppendedBatch(1, 1, 0), AppendedBatch(4, 1, 3)]
        for unknown in (8, 11):
            with pytest.raises(Unavailable, match="expire the session by its name"):
                found.placed_of(unknown)


@pytest.mark.usefixtures("_three_sessions")
def test_a_session_that_stays_is_kept_however_many_come_and_go() -> None:
    table = SessionTable()
    table.apply_batch(batch_of((1, 1, 1), 1, 0))
    for lsn, producer in enumerate(range(2, 20), 1):
        table.apply_batch(batch_of((producer, 1, 1), 1, lsn))
        table.expired(producer)
        table.apply_batch(batch_of((producer, 1, 1), 1, lsn))
    assert not table.forgetful
    assert len(table) == 1
    assert table.placed_of(1) == [AppendedBatch(1, 1, 0)]


@pytest.mark.usefixtures("_three_sessions")
def test_of_what_was_ordered_only_those_count_that_were_at_home_then() -> None:
    table = SessionTable()
    for lsn, producer in enumerate((7, 8, 9)):
        table.apply_batch(batch_of((producer, 1, 1), 1, lsn))
    table.listed(frozenset({7}), 2)
    assert [state.producer_id for state in table.snapshot().sessions] == [7, 9], "9 was not ordered then"
    table.listed(frozenset({7}), 10)
    for lsn, producer in enumerate((20, 21, 22, 23), 3):  # a copy that is made later gets them all the same
        table.apply_batch(batch_of((producer, 1, 1), 1, lsn))
    table.apply_batch(batch_of((24, 1, 1), 1, 10))
    assert [state.producer_id for state in table.snapshot().sessions] == [7, 24]
    assert not table.forgetful


def test_a_snapshot_from_before_lanes_were_forgetful_can_be_read() -> None:
    old = msgspec.msgpack.encode({"next_producer_id": 2, "sessions": [[1, "name", 4, 9, [[8, 1, 20]]]]})
    table = SessionTable(msgspec.msgpack.decode(old, type=Snapshot))
    assert not table.forgetful
    assert table.placed_of(1) == [AppendedBatch(8, 1, 20)]
