"""A leader's log against a naive one: openings, repeats, gaps, refusals, commits and changes of leaders at random."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engines.raft.batches import batch_of

from ithaca.engines.raft.name import LANE
from ithaca.engines.raft.replog.entries import Control, ExpireSessions, OpenSession, Range, RangeBatch, TrimLog
from ithaca.engines.raft.replog.placing import Placing
from ithaca.engines.raft.replog.state import LogState, length_in
from ithaca.model.errors import SequenceGap, SessionError, SessionExpired, SessionFenced
from ithaca.raft import limits
from ithaca.wire.batch import lane_seed

SEED = lane_seed(LANE)


def snapshot(state: LogState) -> bytes:
    return b"".join(state.snapshot())


def same(one: LogState, other: LogState) -> bool:
    return snapshot(one) == snapshot(other)


@dataclass
class World:
    """A leader, the entries of its log, and which of them are committed."""

    committed: LogState = field(default_factory=LogState)
    entries: list[Range | Control] = field(default_factory=list)
    applied: int = 0
    records: list[tuple[int, int]] = field(default_factory=list)
    """Of the whole log: producer and number."""

    def __post_init__(self) -> None:
        self.leader = Placing(self.committed, SEED)

    def propose(self) -> None:
        made = self.leader.range()
        if made is not None:
            of, batches = made
            assert of.first_lsn == len(self.records)
            for batch in batches:
                assert batch.base_lsn == len(self.records)
                self.records += [(batch.producer_id, batch.first_seq + n) for n in range(batch.count)]
            self._append(of)

    def control(self, entry: Control) -> None:
        self.propose()
        self._append(entry)

    def _append(self, entry: Range | Control) -> None:
        self.leader.proposed(entry)
        self.entries.append(entry)

    def commit(self, count: int) -> None:
        for entry in self.entries[self.applied : self.applied + count]:
            self.committed.apply(entry)
            self.applied += 1

    def elect(self, kept: int) -> None:
        """Another server leads, which has so many of the entries that are not committed; it applies them first."""
        del self.entries[self.applied + kept :]
        self.commit(kept)
        del self.records[self.committed.length :]
        self.leader = Placing(self.committed, SEED)


class Machine:
    """Draws what happens, and keeps the naive truth: of each session the epoch, and what it has in the log."""

    def __init__(self, data: st.DataObject) -> None:
        self._data = data
        self.world = World()

    def run(self, steps: int) -> None:
        actions = (self.open, self.append, self.append, self.append, self.repeat, self.odd, self.trim, self.expire)
        others = (self.world.propose, self.refuse, self.commit, self.elect)
        for _ in range(steps):
            self._data.draw(st.sampled_from((*actions, *others)))()
        self.world.propose()
        self.world.commit(len(self.world.entries))
        assert self.world.committed.length == len(self.world.records)
        replayed = LogState()
        for entry in self.world.entries:
            replayed.apply(entry)
        assert same(replayed, self.world.committed)
        assert same(LogState.restored(snapshot(replayed)), replayed)
        assert length_in(snapshot(replayed)) == replayed.length

    def _whole(self) -> LogState:
        """The state behind everything proposed, worked out from the entries alone."""
        state = self.world.committed.copy()
        for entry in self.world.entries[self.world.applied :]:
            state.apply(entry)
        return state

    def _pick(self) -> int | None:
        sessions = list(self._whole().sessions.by_id)
        return self._data.draw(st.sampled_from(sessions)) if sessions else None

    def open(self) -> None:
        self.world.control(OpenSession(self._data.draw(st.sampled_from(("a", "b", "~c", "~d")))))

    def _next(self, producer: int) -> tuple[int, int]:
        """Epoch and next number, with what was taken and not proposed."""
        session = self._whole().sessions.get(producer)
        made = self.world.leader.range()
        for batch in made[1] if made is not None else ():
            if batch.producer_id == producer:
                said = RangeBatch(batch.count, producer, session.epoch, batch.first_seq)
                session = session.after(said, batch.base_lsn)
        return session.epoch, session.next_seq

    def append(self) -> None:
        producer = self._pick()
        if producer is None:
            return
        epoch, number = self._next(producer)
        count = self._data.draw(st.integers(1, 3))
        end = len(self.world.records) + sum(b.count for b in (self.world.leader.range() or (None, []))[1])
        found = self.world.leader.take(batch_of(producer, number, count, epoch=epoch))
        assert (found.base_lsn, found.first_seq, found.count) == (end, number, count)

    def repeat(self) -> None:
        """A batch that is in the log is found where it is, and nowhere else."""
        producer = self._pick()
        if producer is None:
            return
        session = self.world.leader.sessions.get(producer)
        for placed in session.placed:
            found = self.world.leader.take(batch_of(producer, placed.first_seq, placed.count, epoch=session.epoch))
            assert found == placed
            assert self.world.records[placed.base_lsn] == (producer, placed.first_seq)

    def odd(self) -> None:
        """What does not continue a session is refused, and changes nothing."""
        producer = self._pick()
        if producer is None:
            return
        epoch, number = self._next(producer)
        before = self.world.leader.range()
        with pytest.raises(SequenceGap):
            self.world.leader.take(batch_of(producer, number + 1, 1, epoch=epoch))
        if epoch > 1:
            with pytest.raises(SessionFenced):
                self.world.leader.take(batch_of(producer, number, 1, epoch=epoch - 1))
        with pytest.raises(SessionExpired):
            self.world.leader.take(batch_of(producer, number, 1, epoch=epoch + 1))
        with pytest.raises(SessionExpired):
            self.world.leader.take(batch_of(producer + 1000, 1, 1))
        assert self.world.leader.range() == before

    def trim(self) -> None:
        lsn = self._data.draw(st.integers(0, len(self.world.records) + 2))
        before = self._whole()
        self.world.control(TrimLog(lsn))
        length = len(self.world.records)
        assert self._whole().trim_lsn == (max(before.trim_lsn, lsn) if lsn <= length else before.trim_lsn)

    def expire(self) -> None:
        producer = self._pick()
        if producer is None:
            return
        epoch = self._whole().sessions.get(producer).epoch
        self.world.control(ExpireSessions(((producer, epoch + 1),)))
        assert producer in self._whole().sessions.by_id
        self.world.control(ExpireSessions(((producer, epoch),)))
        with pytest.raises(SessionError):
            self.world.leader.take(batch_of(producer, 1, 1))

    def refuse(self) -> None:
        self.world.leader.refused()
        assert self.world.leader.range() is None

    def commit(self) -> None:
        self.world.commit(self._data.draw(st.integers(0, 3)))

    def elect(self) -> None:
        waiting = len(self.world.entries) - self.world.applied
        self.world.elect(self._data.draw(st.integers(0, waiting)))


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_every_log_is_dense_and_has_each_batch_once(data: st.DataObject) -> None:
    machine = Machine(data)
    machine.run(data.draw(st.integers(1, 30)))
    records = machine.world.records
    assert len(set(records)) == len(records)  # a name that expired begins again under another producer


def test_numbers_of_an_opened_session_go_on() -> None:
    world = World()
    world.control(OpenSession("a"))
    world.leader.take(batch_of(1, 1, 2))
    world.control(OpenSession("a"))
    with pytest.raises(SessionFenced):
        world.leader.take(batch_of(1, 3, 1))
    assert world.leader.take(batch_of(1, 3, 1, epoch=2)).base_lsn == 2
    assert world.leader.sessions.get(1).next_seq == 3


def test_a_range_is_bounded() -> None:
    world = World()
    world.control(OpenSession("a"))
    first, large = batch_of(1, 1), batch_of(1, 2, text=b"x" * limits.RAFT_APPEND_BYTES_MAX)
    assert not world.leader.is_full(large)
    world.leader.take(first)
    assert world.leader.is_full(large)
    assert not world.leader.is_full(batch_of(1, 2))


def test_with_one_too_many_the_anonymous_session_unused_for_longest_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ithaca.engines.raft.replog.sessions.ORDERING_SESSIONS_MAX", 3)
    monkeypatch.setattr("ithaca.engines.raft.replog.sessions.ORDERING_NAMED_SESSIONS_MAX", 2)
    world = World()
    for name in ("~a", "~b", "c"):
        world.control(OpenSession(name))
    world.leader.take(batch_of(1, 1))
    world.control(OpenSession("d"))
    with pytest.raises(SessionExpired):
        world.leader.take(batch_of(2, 1))
    assert world.leader.take(batch_of(1, 2)).base_lsn == 1
    world.propose()
    world.commit(9)
    assert world.committed.apply(OpenSession("e")) is None
    assert [each.name for each in world.committed.sessions.named()] == ["c", "d"]


def test_openings_and_trims_that_are_not_committed_do_not_act() -> None:
    """A leader has proposed them, and another one is elected that never got them."""
    world = World()
    world.control(OpenSession("a"))
    world.leader.take(batch_of(1, 1, 3))
    world.propose()
    world.commit(9)
    world.control(TrimLog(2))
    world.control(OpenSession("a"))
    assert world.committed.trim_lsn == 0
    with pytest.raises(SessionFenced):
        world.leader.take(batch_of(1, 4))
    world.elect(kept=0)
    assert world.committed.trim_lsn == 0
    assert world.leader.take(batch_of(1, 4)).base_lsn == 3
    assert world.leader.sessions.get(1).epoch == 1


def test_a_batch_that_survives_two_leaders_is_not_placed_again() -> None:
    """As in figure 8: the entry of an old term is there at the third leader, and the client sends it again."""
    world = World()
    world.control(OpenSession("a"))
    world.commit(1)
    world.leader.take(batch_of(1, 1, 2))
    world.propose()
    world.elect(kept=1)
    assert world.leader.take(batch_of(1, 1, 2)).base_lsn == 0
    assert world.leader.range() is None
    world.leader.take(batch_of(1, 3))
    world.propose()
    world.elect(kept=0)
    assert world.leader.take(batch_of(1, 3)).base_lsn == 2
    assert world.records == [(1, 1), (1, 2)]
