"""The state machine of `belfast`: against the naive twin, from any prefix or snapshot, and what it refuses."""

from dataclasses import dataclass

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.belfast.naive_slots import NaiveSlots
from tests.belfast.states import CONFIGURATION, States
from tests.ordering.building import address, placed

from ithaca.engines.belfast.limits import QUOTA_SLOTS_MAX, WINDOWS_AHEAD_MAX
from ithaca.engines.belfast.speculation.disks import Disks
from ithaca.engines.belfast.speculation.entries import (
    BelfastEntry,
    CutRange,
    EndFree,
    FailLane,
    NoteDisk,
    OpenWindow,
    SlotEntry,
    TakeLane,
    decode_entry,
    encode_entry,
)
from ithaca.engines.belfast.speculation.kept import Span
from ithaca.engines.belfast.speculation.outcomes import DiskNoted, LaneEnded, PublicationReserved, VoidEntry
from ithaca.engines.belfast.speculation.state import VERSION, BelfastState, WaitingPublication
from ithaca.engines.belfast.speculation.windows import Layout, Window
from ithaca.engines.scalog.ordering.entries import (
    AddReplica,
    CloseLane,
    Cut,
    ExpireSession,
    Finalize,
    OpenLane,
    OpenSession,
    RemoveReplica,
    TrimTo,
    cut,
)
from ithaca.engines.scalog.ordering.outcomes import FinalizedShard, LaneClosed, OrderedCut, SessionOpened
from ithaca.engines.scalog.ordering.prepared.entries import AbortParts, ExpireParts, Publish
from ithaca.engines.scalog.ordering.prepared.outcomes import (
    PartDropped,
    PartsPublished,
    PartsUnfit,
    PublishConflicts,
    StagedPart,
)
from ithaca.model import limits
from ithaca.model.cut import LaneLengths
from ithaca.model.errors import Corrupt, FormatTooNew, ProtocolError, VersionMismatch
from ithaca.model.parts import Published
from ithaca.model.positions import LaneId

TAKEN_OVER_FIRST = "the lane is to be taken over first"


@dataclass(frozen=True)
class Step:
    """One entry to come, in terms that fit whatever state there is by then."""

    kind: str
    shard: int
    amount: int
    stale: int
    grown: tuple[int, ...]


STEPS = st.builds(
    Step,
    kind=st.sampled_from(
        ["cuts"] * 6
        + ["window"] * 4
        + ["plain", "plain", "end", "end", "free", "fail", "take", "open", "publish", "trim"]
    ),
    shard=st.integers(0, 2),
    amount=st.integers(0, 5),
    stale=st.sampled_from([0, 0, 0, 0, 0, 0, 1]),
    grown=st.tuples(*[st.sampled_from([0, 0, 1, 2, 3])] * 3),
)


class Pair:
    """The state and its twin, fed the same entries."""

    def __init__(self) -> None:
        self.states, self.twin = States(3), NaiveSlots()
        self.twin.open = dict.fromkeys(self.states.lanes, 0)

    def take(self, step: Step) -> None:
        if step.kind == "publish":
            self._publish(step)
            return
        entry = self._entry(step)
        reason = self.states.reason(entry)
        match entry:
            case Cut():
                assert self.twin.plain_cut(entry.moved.to_dict()) == (reason is None)
            case OpenLane():
                if reason is None:
                    (opened,) = (lane for lane in self.states.lanes if lane.shard == entry.shard)
                    self.twin.open = {lane: n for lane, n in self.twin.open.items() if lane.shard != entry.shard}
                    self.twin.open[opened] = 0
            case OpenWindow() | CutRange() | FailLane() | TakeLane() | EndFree():
                assert self.twin.apply(entry) == (reason is None), f"{entry}: {reason}"
        self.check()

    def _publish(self, step: Step) -> None:
        homes = [lane for lane in self.states.lanes if lane.shard == step.shard]
        if homes:
            parts = [self.states.part(homes[0], length) for length in step.grown[: step.amount]]
            lengths = [(lane, length) for (lane, _), length in zip(parts, step.grown, strict=False)]
            self.states.apply(Publish("", 0, "", tuple(parts)))
            self.twin.publish(lengths)
            self.check()

    def check(self) -> None:
        state, twin = self.states.state, self.twin
        assert (state.slots.mode, state.slots.attempt, state.slots.cut) == (twin.mode, twin.attempt, twin.cut)
        assert (state.tail, state.slots.tail) == (twin.tail, twin.tail)
        assert {position: (lane, lsn) for position, lane, lsn in self.states.records} == twin.log
        # Whoever has read up to where a run follows has missed nothing before it.
        for position, follows in self.states.follows.items():
            before = max((each for each in twin.log if each < position), default=0)
            assert follows == before + 1, f"the run at {position} follows {follows}"
        assert dict.fromkeys(self.states.lanes) == dict.fromkeys(sorted(twin.open))
        assert len(state.waiting) == len(state.slots.reserved)

    def _entry(self, step: Step) -> BelfastEntry:
        slots, lanes, twin = self.states.state.slots, self.states.lanes, self.twin
        attempt = slots.attempt + step.stale
        lane = next((each for each in lanes if each.shard == step.shard), LaneId(step.shard, 0, 1))
        match step.kind:
            case "cuts":
                stop = slots.cut + 1 + step.amount
                used = ((each, self._used(step, each)) for each in range(slots.cut, stop, 2))
                return CutRange(attempt, slots.cut, stop, tuple(each for each in used if each[1]))
            case "window" if lanes:
                listed = lanes[: 1 + step.amount % 3]
                q = step.grown[: len(listed)] if all(step.grown[: len(listed)]) else (3,)
                lengths = tuple(sorted(twin.open.items())) if slots.mode == "ending" else ()
                base = 0 if slots.mode == "ending" else slots.end
                groups = 2 if len(listed) > 1 and step.amount > 2 else 1
                return OpenWindow(slots.number + 1, base, 1 + step.amount, groups, q, listed, attempt, lengths)
            case "free" | "window":
                lengths = tuple(sorted(twin.open.items())) if slots.mode == "ending" else ()
                base = 0 if slots.mode == "ending" else slots.end
                return OpenWindow(slots.number + 1, base, 0, 1, (), (), attempt, lengths)
            case "end":
                return EndFree(slots.number, attempt)
            case "fail":
                return FailLane(lane)
            case "take":
                return TakeLane(lane, twin.open.get(lane, 0) + step.stale)
            case "open":
                return OpenLane(step.shard, step.amount % 3, 2 + len(self.states.entries))
            case "trim":
                return TrimTo(max(1, self.states.state.tail * step.amount // 5))
        moved = {each: twin.open.get(each, 0) + step.grown[each.shard] for each in lanes}
        return cut(LaneLengths.of(moved), time_us=0, view=self.states.state.view.version)

    def _used(self, step: Step, cut: int) -> tuple[tuple[LaneId, int], ...]:
        """What lanes that have slots in this cut would have written; sometimes more than fits."""
        window = self.states.state.slots.window_of(cut)
        if window is None or cut > self.states.state.slots.cut:
            return ()
        listed = (lane for lane in window.lanes_in(cut) if step.grown[lane.shard])
        return tuple(sorted((lane, self.twin.open.get(lane, 0) + step.grown[lane.shard]) for lane in listed))


@settings(max_examples=60)
@given(st.lists(STEPS, max_size=30))
def test_every_record_gets_the_position_that_the_naive_twin_gives_it(steps: list[Step]) -> None:
    pair = Pair()
    for step in steps:
        pair.take(step)


@settings(max_examples=30)
@given(st.lists(STEPS, min_size=3, max_size=20), st.data())
def test_a_snapshot_anywhere_continues_the_same(steps: list[Step], data: st.DataObject) -> None:
    pair = Pair()
    for step in steps:
        pair.take(step)
    entries = pair.states.entries
    middle = data.draw(st.integers(0, len(entries)))
    state, records = BelfastState(), []
    for index, entry in enumerate(entries, 1):
        records += placed(state.apply(index, entry))
        if index == middle:
            state = BelfastState.restored(state.snapshot())
    assert records == pair.states.records
    assert state == pair.states.state


def test_the_codec_names_what_it_does_not_know() -> None:
    entry = CutRange(1, 0, 2, ((1, ((LaneId(0, 0, 1), 5),)),), 7, (3,))
    assert decode_entry(encode_entry(entry)) == entry
    assert decode_entry(encode_entry(OpenLane(0, 0, 1))) == OpenLane(0, 0, 1)
    with pytest.raises(VersionMismatch, match="'open-door'"):
        decode_entry(msgspec.msgpack.encode(["open-door", 1]))
    with pytest.raises(ProtocolError, match="'cut-range'"):
        decode_entry(msgspec.msgpack.encode(["cut-range", 1, 5, 5]))
    with pytest.raises(ProtocolError, match="'take-lane'"):
        encode_entry(TakeLane(LaneId(0, 0, 1), -1))


def test_cuts_of_slots_are_cuts_like_any_other() -> None:
    states = States()
    first, second = states.lanes
    states.apply(cut(LaneLengths.of({first: 2}), time_us=5, view=states.state.view.version))
    states.fix()
    assert states.reason(cut(LaneLengths.of({first: 3}), time_us=0, view=99)) == "the order is not free"
    outcomes = states.apply(states.cuts(2, (0, {first: 3, second: 2}), time_us=9))
    _, ordered, _, empty = outcomes
    assert isinstance(ordered, OrderedCut)
    assert isinstance(empty, OrderedCut)
    assert (ordered.number, ordered.tail, ordered.time_us) == (2, 7, 9)
    assert placed([ordered]) == [(3, first, 2), (5, second, 0), (6, second, 1)]
    assert (empty.number, empty.tail, states.state.tail) == (3, 11, 11)
    assert sorted(states.state.kept) == [1, 2]
    states.apply(CutRange(1, 2, 3, (), 9, (1, 2)))
    assert sorted(states.state.kept) == [1, 2], "a void entry forgets nothing"


def test_nothing_but_takeover_and_failure_closes_a_lane_in_a_fixed_order() -> None:
    states = States()
    first, second = states.lanes
    epoch = states.state.shards.by_number[0].epoch
    closing: list[BelfastEntry] = [
        OpenLane(0, 0, 2),
        CloseLane(first),
        RemoveReplica(0, epoch, 1),
        AddReplica(0, epoch, 9, address(9)),
        Finalize(0),
        Finalize(0, cuts=2),
    ]
    assert states.reason(OpenLane(0, 1, 2)) == "another lane of the shard is open"
    states.fix()
    for entry in closing:
        assert states.reason(entry) == TAKEN_OVER_FIRST
    assert states.reason(OpenLane(0, 0, 1)) is None, "the same start again"
    states.apply(states.cuts(1, (0, {first: 1, second: 1})))
    ended, closed, *_ = states.apply(TakeLane(first, 1))
    assert ended == LaneEnded(first, 1, 2, 9)
    assert closed == LaneClosed(first, 1)
    assert states.lanes == (second,)
    assert states.reason(OpenLane(0, 1, 2)) is None
    assert states.reason(RemoveReplica(1, epoch, 1)) == TAKEN_OVER_FIRST


def test_a_shard_whose_grace_is_over_is_final_when_its_lane_is_taken() -> None:
    states = States()
    first, _ = states.lanes
    assert states.reason(Finalize(0, cuts=1)) is None
    states.fix()
    states.apply(states.cuts(1))
    assert states.state.shards.by_number[0].phase == "finalizing"
    outcomes = states.apply(TakeLane(first, 0))
    assert any(isinstance(outcome, FinalizedShard) for outcome in outcomes)


def test_a_lane_without_records_stays_as_long_as_its_slots() -> None:
    states = States()
    first, second = states.lanes
    states.fix()
    states.apply(FailLane(first))
    assert first in states.state.lanes.closed
    states.apply(states.cuts(2))
    states.apply(TrimTo(8))
    assert first in states.state.lanes.closed
    states.apply(TrimTo(9))
    assert first not in states.state.lanes.closed
    assert states.state.slots.kept.spans == []
    assert states.lanes == (second,)


def test_a_session_moves_from_a_lane_that_failed() -> None:
    states = States()
    first, _ = states.lanes
    opened = states.apply(OpenSession("writer", first))[0]
    assert isinstance(opened, SessionOpened)
    states.fix()
    states.apply(FailLane(first))
    states.apply(states.cuts(2))
    states.apply(TrimTo(9))
    assert first in states.state.lanes.closed, "a session is at home there"
    states.apply(ExpireSession(opened.session.producer_id, opened.session.epoch))
    assert first not in states.state.lanes.closed


def test_a_publication_is_answered_when_it_is_ordered_and_not_before() -> None:
    states = States()
    first, second = states.lanes
    parts = (states.part(second, 2), states.part(first, 0), states.part(first, 1))
    states.fix()
    publish = Publish("writer", 7, "me", parts)
    dropped, reserved = states.apply(publish)
    assert dropped == PartDropped(parts[1][0])
    assert reserved == PublicationReserved(9, 3)
    assert states.apply(publish) == [PublicationReserved(9, 3)]
    for entry in (AbortParts(parts), ExpireParts((parts[0][0],), 1 << 60)):
        assert states.apply(entry) == []
    (conflict,) = states.apply(Publish("writer", 6, "me", ()))
    assert isinstance(conflict, PublishConflicts)
    (unfit,) = states.apply(Publish("another", 1, "me", parts))
    assert isinstance(unfit, PartsUnfit)
    assert states.state.lengths_due(1)[parts[0][0]] == 2
    summary = states.state.summary(1)
    assert summary is not None
    assert [part.lane for part in summary.parts] == [parts[0][0]]
    assert parts[0][0] not in dict(summary.lengths)
    states.state = BelfastState.restored(states.state.snapshot())
    states.apply(states.cuts(2, (1, {first: 1})))
    assert sorted(states.records)[-3:] == [(9, parts[0][0], 0), (10, parts[0][0], 1), (11, parts[2][0], 0)]
    assert states.apply(publish) == [PartsPublished(Published("writer", 7, "me", 9, 3))]
    assert not states.state.waiting


def test_a_nameless_publication_that_waits_is_known_by_its_parts() -> None:
    states = States()
    first, _ = states.lanes
    parts = (states.part(first, 2), states.part(first, 1))
    states.fix()
    publish = Publish("", 0, "", parts)
    assert states.apply(publish) == [PublicationReserved(9, 3)]
    assert states.apply(publish) == [PublicationReserved(9, 3)]
    states.apply(FailLane(first))
    assert states.reason(Finalize(0)) == "a publication waits"
    outcomes = states.apply(states.cuts(2))
    assert PartsPublished(Published("", 0, "", 9, 3)) in outcomes
    assert states.reason(Finalize(0)) is None


def test_a_disk_that_was_emptied_counts_when_nothing_depends_on_the_first() -> None:
    states = States()
    first, _ = states.lanes
    assert states.apply(NoteDisk(0, 1, 5)) == [DiskNoted(0, 1, 5)]
    assert states.apply(NoteDisk(0, 1, 6)) == [DiskNoted(0, 1, 6)]
    states.fix()
    assert states.reason(NoteDisk(0, 1, 6)) is None
    assert states.reason(NoteDisk(0, 2, 7)) is None, "nothing of the replica has counted so far"
    assert states.reason(NoteDisk(0, 1, 8)) == TAKEN_OVER_FIRST
    assert states.reason(NoteDisk(0, 9, 8)) == "no such replica"
    assert states.state.disks.of(0) == {1: 6, 2: 7}
    states.apply(TakeLane(first, 0))
    assert states.reason(NoteDisk(0, 1, 8)) is None
    restored = BelfastState.restored(states.state.snapshot())
    assert restored.disks.of(0) == {1: 8, 2: 7}
    states.apply(RemoveReplica(0, states.state.shards.by_number[0].epoch, 1))
    assert states.state.disks.of(0) == {2: 7}


def test_a_full_state_has_no_room_for_another_layout_and_goes_on_free(monkeypatch: pytest.MonkeyPatch) -> None:
    states = States()
    states.fix()
    slots = states.state.slots
    monkeypatch.setattr("ithaca.engines.belfast.speculation.state.ORDERING_STATE_BYTES_MAX", states.state.size_bytes)
    narrow = OpenWindow(2, slots.end, 2, 1, (2,), states.lanes[:1], 1)
    same = OpenWindow(2, slots.end, 2, 1, (2,), states.lanes, 1)
    assert states.reason(narrow) == "the state is full"
    assert states.reason(same) is None
    assert states.reason(OpenWindow(3, slots.end, 0, 1, (), (), 1)) is None


def test_with_all_that_slots_add_at_its_largest_the_size_covers_the_snapshot() -> None:
    shards = range(limits.SHARD_NUMBER_MAX - 499, limits.SHARD_NUMBER_MAX + 1)
    lanes = tuple(LaneId(shard, limits.REPLICA_NUMBER_MAX, limits.PART_INCARNATION_MIN - 1) for shard in shards)
    late = (1 << 61) - 1
    for quotas in ((QUOTA_SLOTS_MAX,), (QUOTA_SLOTS_MAX,) * len(lanes)):
        state = BelfastState()
        state.configuration = CONFIGURATION
        slots, layout = state.slots, Layout(500, lanes, quotas)
        slots.mode, slots.number, slots.attempt, slots.cut = "fixed", late, late, late
        state.tail = slots.tail = slots.end = late
        bases = [late + number * layout.slots for number in range(WINDOWS_AHEAD_MAX)]
        slots.windows.extend(Window(late, base, 1, layout, late, late) for base in bases)
        slots.kept.spans = [Span(late, late, layout)] * 20
        state.lanes.own_to = dict.fromkeys(lanes, late)
        slots.ended = {lane: LaneEnded(lane, limits.LANE_RECORDS_MAX, late, late) for lane in lanes}
        name, part = "w" * limits.WRITER_NAME_BYTES_MAX, LaneId(*lanes[0][:2], limits.INCARNATION_MAX)
        staged = StagedPart(part, bytes(16), lanes[0], (1 << 63) - 1, limits.LANE_RECORDS_MAX)
        published = Published(name, limits.PUBLISH_KEY_MAX, name, late, late)
        for count in (0, 40):
            state.waiting.append(WaitingPublication(published, (staged,) * count, (part,) * count))
            slots.reserved.append((late, late))
        state.disks = Disks((shard, limits.REPLICA_NUMBER_MAX, limits.BOOT_MAX) for shard in shards)
        size = len(state.snapshot())
        assert size <= state.size_bytes < 2 * size
        assert BelfastState.restored(state.snapshot()) == state


def test_snapshots_of_another_version_and_broken_ones_are_refused() -> None:
    states = States()
    states.fix()
    whole = msgspec.msgpack.decode(states.state.snapshot())
    with pytest.raises(FormatTooNew, match=f"version {VERSION + 1}"):
        BelfastState.restored(msgspec.msgpack.encode([VERSION + 1, *whole[1:]]))
    for broken in (
        [],
        [1, 2],
        [VERSION, whole[1], [], [], [], 1],
        [VERSION, whole[1], [*whole[2][:7], [[1]], *whole[2][8:]], []],
    ):
        with pytest.raises(Corrupt):
            BelfastState.restored(msgspec.msgpack.encode(broken))


def test_slot_entries_are_void_before_the_log_is_configured() -> None:
    entries: list[SlotEntry] = [EndFree(0, 1), FailLane(LaneId(0, 0, 1))]
    state = BelfastState()
    for index, entry in enumerate(entries, 1):
        assert state.apply(index, entry) == [VoidEntry(entry, "the log is not configured")]
