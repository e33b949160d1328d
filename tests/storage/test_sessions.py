"""The session table against a dictionary that forgets nothing."""

from collections import OrderedDict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ithaca.model.errors import SequenceGap, SessionExpired, SessionFenced
from ithaca.model.limits import SESSION_BATCHES_MAX
from ithaca.model.positions import LaneId
from ithaca.storage import sessions
from ithaca.storage.sessions import SessionForgotten, SessionOpened, SessionTable
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
