"""The state machine against the naive twin, and from any prefix or snapshot (invariants of `scalog.ordering`)."""

from dataclasses import dataclass

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.ordering.building import CONFIGURATION, Driver, address, placed
from tests.ordering.naive_order import NaiveOrder

from ithaca.engines.scalog.ordering.entries import (
    AddReplica,
    CloseLane,
    Configure,
    Cut,
    DeclareLost,
    ExpireSession,
    Finalize,
    MoveSession,
    OpenLane,
    OpenSession,
    OrderingEntry,
    RemoveReplica,
    TrimTo,
)
from ithaca.engines.scalog.ordering.outcomes import (
    Configured,
    OrderedCut,
    Outcome,
    RangeLost,
    RefusedEntry,
    TrimmedLog,
    ViewChanged,
)
from ithaca.engines.scalog.ordering.snapshot import VERSION
from ithaca.engines.scalog.ordering.state import OrderingState
from ithaca.model.errors import Corrupt, FormatTooNew
from ithaca.model.positions import LaneId
from ithaca.model.view import ClusterConfiguration

SHARDS = {0: (1, False), 1: (1, True), 5: (0, False)}
"""f and masking of each shard: one that stops when a replica is removed, one that does not, one alone."""


@dataclass(frozen=True)
class Step:
    """One entry to come, in terms that fit whatever state there is by then."""

    kind: str
    shard: int
    replica: int
    amount: int
    stale: int
    lengths: dict[tuple[int, int, int], int]


STEPS = st.builds(
    Step,
    kind=st.sampled_from(["cut"] * 8 + ["start", "close", "remove", "add", "finalize", "trim", "session", "lost"]),
    shard=st.sampled_from(sorted(SHARDS)),
    replica=st.integers(0, 4),
    amount=st.integers(0, 12),
    stale=st.sampled_from([0, 0, 0, 1, 4]),
    lengths=st.dictionaries(
        st.tuples(st.sampled_from(sorted(SHARDS)), st.integers(0, 4), st.integers(1, 3)),
        st.integers(0, 30),
        max_size=7,
    ),
)


class Pair:
    """The state and its twin, fed the same entries; with the epoch of each shard in every view."""

    def __init__(self) -> None:
        self.driver, self.twin = Driver(), NaiveOrder()
        self.epochs: dict[int, dict[int, int]] = {0: {}}
        self._remembered = 0
        self.records: list[tuple[int, LaneId, int]] = []
        for shard, (f, masking) in SHARDS.items():
            lanes = self.driver.shard(shard, f=f, masking=masking)
            self.twin.register(shard, f, masking)
            for lane in lanes:
                self.twin.start(shard, lane.replica, 1)
        self._remember()

    def take(self, step: Step) -> list[Outcome]:
        shards = self.driver.state.shards.by_number
        if step.shard not in shards:  # reclaimed
            return []
        epoch = max(1, shards[step.shard].epoch - (step.stale > 0))
        entry = self._entry(step, epoch)
        outcomes = self.driver.apply(entry)
        self._twin_takes(entry)
        self.records += placed(outcomes)
        self._remember()
        return outcomes

    def _entry(self, step: Step, epoch: int) -> OrderingEntry:
        state, shard, replica = self.driver.state, step.shard, step.replica
        some_lane = LaneId(shard, replica, 1 + step.amount % 3)
        match step.kind:
            case "cut":
                lengths = {LaneId(*lane): length for lane, length in step.lengths.items()}
                view = max(0, state.view.version - step.stale)
                return self.driver.cut_entry(lengths, time_us=step.amount * 10, view=view)
            case "start":
                return OpenLane(shard, replica, 1 + step.amount % 4)
            case "close":
                return CloseLane(some_lane)
            case "remove":
                return RemoveReplica(shard, epoch, replica)
            case "add":
                return AddReplica(shard, epoch, replica + 1, address(replica + 1))
            case "finalize":
                return Finalize(shard, cuts=step.amount % 3, until_us=step.stale * 30)
            case "trim":
                return TrimTo(max(1, state.tail * step.amount // 12))
            case "lost":
                return DeclareLost(some_lane, step.amount, step.amount + 1 + step.stale)
            case _:
                return self._session_entry(step, some_lane)

    def _session_entry(self, step: Step, lane: LaneId) -> OrderingEntry:
        session = self.driver.state.sessions.by_id.get(1 + step.amount % 2)
        if session is None or step.stale == 0:
            return OpenSession(f"s{step.amount % 3}", lane)
        if step.stale == 1:
            return MoveSession(session.producer_id, session.epoch, session.home, lane, step.replica, b"tail")
        return ExpireSession(session.producer_id, session.epoch)

    def _twin_takes(self, entry: OrderingEntry) -> None:
        match entry:
            case Cut():
                self.twin.cut(entry.moved.to_dict(), entry.time_us, self.epochs[entry.view])
            case OpenLane():
                self.twin.start(entry.shard, entry.replica, entry.boot)
            case CloseLane():
                self.twin.close(entry.lane)
            case RemoveReplica():
                self.twin.remove(entry.shard, entry.replica, entry.epoch)
            case AddReplica():
                self.twin.add(entry.shard, entry.replica, entry.epoch)
            case Finalize():
                self.twin.finalize(entry.shard, entry.cuts, entry.until_us)

    def _remember(self) -> None:
        """What a proposer knows that has applied a version of the view: the epoch of each shard."""
        for outcomes in self.driver.outcomes[self._remembered :]:
            for outcome in outcomes:
                if isinstance(outcome, ViewChanged):
                    epoch = outcome.now.epoch if outcome.now else 0
                    newest = self.epochs[max(self.epochs)]
                    self.epochs[outcome.version] = newest | {outcome.shard: epoch}
        self._remembered = len(self.driver.outcomes)


@settings(max_examples=300)
@given(st.lists(STEPS, max_size=40))
def test_every_record_gets_the_position_that_the_naive_twin_gives_it(steps: list[Step]) -> None:
    """Invariants 2, 3, 5, 6: dense, once, in lane order, never from a closed lane or a stale configuration."""
    pair = Pair()
    for step in steps:
        pair.take(step)
        state = pair.driver.state
        assert state.tail == len(pair.twin.log) + 1
        assert state.cut_number == pair.twin.cuts
        assert state.time_us == pair.twin.time_us
        assert {lane for shard in state.view.shards for lane in shard.open_lanes()} == pair.twin.open
    assert pair.records == [(position, *record) for position, record in enumerate(pair.twin.log, 1)]
    forgotten = {lane for each in pair.driver.outcomes for o in each if isinstance(o, TrimmedLog) for lane in o.lanes}
    for lane, length in pair.twin.ordered.items():
        assert pair.driver.state.lanes.ordered_length(lane) == (None if lane in forgotten else length)


@settings(max_examples=120)
@given(st.lists(STEPS, min_size=1, max_size=30), st.data())
def test_a_snapshot_anywhere_continues_the_same(steps: list[Step], data: st.DataObject) -> None:
    """Invariant 1: restoring gives an equal state, and the entries behind it the same outcomes."""
    pair = Pair()
    for step in steps:
        pair.take(step)
    entries = pair.driver.entries
    at = data.draw(st.integers(0, len(entries)))
    state = OrderingState()
    for index, entry in enumerate(entries[:at], 1):
        state.apply(index, entry)
    restored = OrderingState.restored(state.snapshot())
    assert restored == state
    for index, entry in enumerate(entries[at:], at + 1):
        assert seen(restored.apply(index, entry)) == seen(state.apply(index, entry))
    assert restored == state == pair.driver.state


@settings(max_examples=40)
@given(st.lists(STEPS, max_size=30))
def test_what_only_rises_never_falls(steps: list[Step]) -> None:
    """Invariants 5, 8, 9, 11: time, trim point, tail, versions, epochs, incarnations, producer ids, lengths."""
    pair = Pair()
    before = rising(pair.driver.state)
    opened: list[int] = []
    for step in steps:
        pair.take(step)
        now = rising(pair.driver.state)
        for name in before.keys() & now.keys():
            assert now[name] >= before[name], name
        opened += sorted(pair.driver.state.sessions.by_id.keys() - set(opened))
        before = now
    assert opened == sorted(opened)


def rising(state: OrderingState) -> dict[object, int]:
    values: dict[object, int] = {
        "time": state.time_us,
        "first": state.first,
        "tail": state.tail,
        "cut": state.cut_number,
        "version": state.view.version,
    }
    for shard in state.view.shards:
        values["epoch", shard.shard] = shard.epoch
        values |= {("incarnation", shard.shard, each.replica): each.incarnation for each in shard.replicas}
        values |= {("length", lane): n for lane, n in state.lanes.ordered_lengths(shard.shard).items()}
    values |= {("session", each.producer_id): each.epoch for each in state.sessions.by_id.values()}
    return values


def seen(outcomes: list[Outcome]) -> list[object]:
    """Outcomes as values; a cut by the records it places."""
    return [(o.number, o.tail, o.time_us, placed([o])) if isinstance(o, OrderedCut) else o for o in outcomes]


def test_two_cuts_give_the_positions_of_the_paper() -> None:
    """Invariants 2, 3 (Scalog §4.1): cuts in order; inside one, lanes by shard, then replica."""
    driver = Driver()
    (a, b), (c, d) = driver.shard(1), driver.shard(2)
    assert placed([driver.cut({a: 2, b: 1, d: 1})]) == [(1, a, 0), (2, a, 1), (3, b, 0), (4, d, 0)]
    second = driver.cut({d: 2, c: 1, a: 3}, time_us=50)
    assert placed([second]) == [(5, a, 2), (6, c, 0), (7, d, 1)]
    told = second.of_shard(2)
    assert (told.number, told.tail, told.time_us) == (2, 8, 50)
    assert [(run.lane, run.lsn, run.position, run.count) for run in told.runs] == [(c, 0, 6, 1), (d, 1, 7, 1)]
    assert second.of_shard(9).runs == ()


def test_lanes_of_one_replica_are_ordered_by_incarnation() -> None:
    """Invariants 3, 9: what the closed incarnation had ordered stays, the new one starts at LSN 0 behind it."""
    driver = Driver()
    (lane,) = driver.shard(1, f=0)
    driver.cut({lane: 2})
    driver.apply(OpenLane(1, 0, 2))
    new = lane._replace(incarnation=2)
    assert placed([driver.cut({lane: 9, new: 1})]) == [(3, new, 0)]


def test_a_cut_that_orders_nothing_is_told_and_not_kept() -> None:
    """Invariants 5, 10: a repeated cut has a number and no runs."""
    driver = Driver()
    (lane,) = driver.shard(1, f=0)
    driver.cut({lane: 2})
    again = driver.cut({lane: 1}, time_us=9)
    assert (again.number, again.tail, len(again.keys)) == (2, 3, 0)
    assert list(driver.state.kept) == [1]


def test_time_never_falls() -> None:
    """Invariant 11: a leader with an earlier clock does not turn the order's time back."""
    driver = Driver()
    (lane,) = driver.shard(1, f=0)
    assert [driver.cut({lane: n}, time_us=time).time_us for n, time in [(1, 70), (2, 50), (3, 71)]] == [70, 70, 71]


def test_the_first_entry_says_what_the_log_is() -> None:
    """Invariant 1: nothing is applied to a log that is not configured; its identity is fixed."""
    state = OrderingState()
    refused = state.apply(1, TrimTo(1))
    assert refused == [RefusedEntry(TrimTo(1), "the log is not configured")]
    driver = Driver()
    other_log = ClusterConfiguration(CONFIGURATION.log.__class__(int=8), "scalog")
    assert driver.reason(Configure(other_log)) == "another log"
    assert driver.reason(Configure(ClusterConfiguration(CONFIGURATION.log, "raft"))) == "another engine"
    slower = ClusterConfiguration(CONFIGURATION.log, "scalog", order_interval_us=500)
    assert driver.apply(Configure(slower)) == [Configured(slower)]
    assert driver.state.configuration == slower


def test_entries_are_applied_once_and_in_order() -> None:
    driver = Driver()
    with pytest.raises(AssertionError, match="entry 1 comes after entry 1"):
        driver.state.apply(1, TrimTo(1))


def test_trimming_forgets_lanes_and_finalized_shards() -> None:
    """Invariants 6, 10, 11: what has no readable record is let go of, and its number never comes back."""
    driver = Driver()
    (a,), (b,) = driver.shard(1, f=0), driver.shard(2, f=0)
    driver.cut({a: 3})
    driver.cut({b: 3})
    driver.apply(DeclareLost(a, 0, 2))
    driver.apply(Finalize(1))
    assert driver.reason(TrimTo(8)) == "beyond the tail"
    assert driver.apply(TrimTo(3)) == [TrimmedLog(3)]
    assert sorted(driver.state.kept) == [1, 2]
    trimmed, changed = driver.apply(TrimTo(4))
    assert trimmed == TrimmedLog(4, (a,))
    assert isinstance(changed, ViewChanged)
    assert (changed.shard, changed.now) == (1, None)
    assert sorted(driver.state.kept) == [1, 2], "only a cut lets go of cuts"
    assert driver.state.lost == {}
    assert [shard.shard for shard in driver.state.view.shards] == [2]
    again = driver.apply(TrimTo(2))
    assert again == [TrimmedLog(4)]
    assert driver.reason(driver.entries[1]) == "another shard has this number"


def test_a_session_keeps_its_closed_home_from_being_forgotten() -> None:
    """Invariant 8: what a session did in its last home is needed until it has moved or expired."""
    driver = Driver()
    (a,), (_b,) = driver.shard(1, f=0), driver.shard(2, f=0)
    driver.apply(OpenSession("s", a))
    driver.cut({a: 2})
    driver.apply(Finalize(1))
    assert driver.apply(TrimTo(3)) == [TrimmedLog(3)]
    _, trimmed, changed = driver.apply(ExpireSession(1, 1))
    assert trimmed == TrimmedLog(3, (a,))
    assert isinstance(changed, ViewChanged)
    assert (changed.shard, changed.now) == (1, None)


def test_lost_ranges_are_merged_and_bounded_by_the_order() -> None:
    driver = Driver()
    (lane,) = driver.shard(1, f=0)
    driver.cut({lane: 10})
    assert driver.apply(DeclareLost(lane, 2, 4)) == [RangeLost(lane, 2, 4)]
    driver.apply(DeclareLost(lane, 7, 8))
    driver.apply(DeclareLost(lane, 4, 6))
    assert driver.state.lost == {lane: ((2, 6), (7, 8))}
    assert driver.reason(DeclareLost(lane, 9, 11)) == "beyond what is ordered"
    assert driver.reason(DeclareLost(lane._replace(incarnation=2), 0, 1)) == "no such lane"


def test_a_replica_that_connects_learns_all_that_concerns_its_shard() -> None:
    driver = Driver()
    (a, b), (_, d) = driver.shard(1), driver.shard(2)
    driver.apply(OpenSession("s", a))
    driver.cut({a: 2, d: 1}, time_us=5)
    driver.cut({d: 2})
    driver.cut({b: 1})
    driver.apply(OpenLane(1, 0, 2))
    summary = driver.state.summary(1)
    assert summary is not None
    assert (summary.cut.number, summary.cut.tail, summary.first) == (3, 6, 1)
    assert summary.lengths == [(a, 2), (a._replace(incarnation=2), 0), (b, 1)]
    assert [session.name for session in summary.sessions] == ["s"]
    assert [cut.number for cut in driver.state.cuts_since(1, 0)] == [1, 3]
    assert [cut.number for cut in driver.state.cuts_since(1, 1)] == [3]
    assert driver.state.summary(9) is None


def test_snapshots_of_another_version_and_broken_ones_are_refused() -> None:
    data = Driver().state.snapshot()
    newer = bytes([data[0], VERSION + 1]) + data[2:]
    with pytest.raises(FormatTooNew, match=f"version {VERSION + 1}"):
        OrderingState.restored(newer)
    with pytest.raises(Corrupt, match="cannot be decoded"):
        OrderingState.restored(data[:-1])


def test_a_snapshot_of_version_1_is_read() -> None:
    """In which each closed lane is an item of a list."""
    driver = Driver()
    lanes = driver.shard(1)
    driver.cut(dict.fromkeys(lanes, 2))
    driver.apply(OpenLane(1, 0, 2))
    driver.apply(OpenLane(1, 1, 2))
    _, now = msgspec.msgpack.decode(driver.state.snapshot())
    closed = [[list(lane), [each.length, each.end]] for lane, each in driver.state.lanes.closed.items()]
    assert len(closed) == 2
    now[6] = [*now[6][:4], closed]
    restored = OrderingState.restored(msgspec.msgpack.encode([1, now]))
    assert restored == driver.state
    assert restored.summary(1) == driver.state.summary(1)
