"""Prepared appends in the ordering layer: a part is published as a whole with the others, once, or never."""

from dataclasses import dataclass, field

import pytest
from tests.ordering.building import Driver, placed, report

from ithaca.engines.scalog.ordering.closed_lanes import ClosedLane
from ithaca.engines.scalog.ordering.entries import AddReplica, CloseLane, Finalize, OpenLane, RemoveReplica, TrimTo
from ithaca.engines.scalog.ordering.leader import CutProposer
from ithaca.engines.scalog.ordering.outcomes import (
    LaneClosed,
    OrderedCut,
    Outcome,
    RefusedEntry,
    TrimmedLog,
    ViewChanged,
)
from ithaca.engines.scalog.ordering.prepared import parts, writers
from ithaca.engines.scalog.ordering.prepared.entries import (
    AbortParts,
    ExpireParts,
    ForgetWriter,
    ForgetWriters,
    OpenPart,
    PartName,
    Publish,
    RenewParts,
    SealPart,
)
from ithaca.engines.scalog.ordering.prepared.outcomes import (
    PartDropped,
    PartOpened,
    PartSealed,
    PartsPublished,
    PartsRenewed,
    PartsUnfit,
    PublishConflicts,
    WriterForgotten,
)
from ithaca.engines.scalog.ordering.reports import Reports
from ithaca.engines.scalog.ordering.state import OrderingState
from ithaca.model.errors import InvalidInput
from ithaca.model.limits import PART_INCARNATION_MIN
from ithaca.model.parts import Published
from ithaca.model.positions import LaneId

TTL_US = 10_000_000


def token(number: int) -> bytes:
    return number.to_bytes(16, "big")


@dataclass
class Parted(Driver):
    """Two shards, and short ways to prepare."""

    made: int = 0
    lanes: list[LaneId] = field(default_factory=list)

    def __init__(self) -> None:
        super().__init__()
        self.made = 0
        self.lanes = [*self.shard(0), *self.shard(1)]

    def open(self, home: LaneId, *, time_us: int = 0) -> PartName:
        self.made += 1
        [opened] = self.apply(OpenPart(home, token(self.made), TTL_US, time_us))
        assert isinstance(opened, PartOpened)
        return opened.part.lane, opened.part.token

    def sealed(self, home: LaneId, length: int) -> PartName:
        part = self.open(home)
        assert self.seal(part, length) == [PartSealed(part[0], length)]
        return part

    def seal(self, part: PartName, length: int) -> list[Outcome]:
        return self.apply(SealPart(*part, length, self.state.view.version))

    def publish(self, key: int, *published: PartName, owner: str = "", time_us: int = 0) -> list[Outcome]:
        return self.apply(Publish("w", key, owner, published, time_us))


def test_parts_get_consecutive_positions_in_the_callers_order_and_their_lanes_close() -> None:
    driver = Parted()
    driver.cut({driver.lanes[0]: 4})
    late, early = driver.sealed(driver.lanes[3], 2), driver.sealed(driver.lanes[0], 3)
    outcomes = driver.publish(7, late, early, time_us=50)
    assert sorted(placed(outcomes)) == [(5, late[0], 0), (6, late[0], 1), *((7 + n, early[0], n) for n in range(3))]
    assert outcomes[1] == PartsPublished(Published("w", 7, "", 5, 5))
    assert driver.state.tail == 10
    assert driver.state.time_us == 50
    assert driver.state.lanes.closed[early[0]] == ClosedLane(3, 10)
    assert not driver.state.parts.by_lane
    assert driver.cut({driver.lanes[0]: 6}).positions.tolist() == [10]


def test_what_was_published_survives_a_snapshot_with_its_positions() -> None:
    driver = Parted()
    late, early = driver.sealed(driver.lanes[3], 2), driver.sealed(driver.lanes[0], 3)
    waiting = driver.open(driver.lanes[1])
    driver.publish(1, late, early)
    restored = OrderingState.restored(driver.state.snapshot())
    assert restored == driver.state
    assert restored.cuts_since(0, 0) == driver.state.cuts_since(0, 0)
    assert [run.position for cut in restored.cuts_since(0, 0) for run in cut.runs] == [3]
    assert restored.parts.in_shard(0)[0].lane == waiting[0]
    assert restored.apply(1000, Publish("w", 1, "", ())) == [PartsPublished(Published("w", 1, "", 1, 5))]
    next_part = Parted.open(_continued(driver, restored), driver.lanes[0])
    assert next_part[0] not in {late[0], early[0], waiting[0]}


def _continued(driver: Parted, state: OrderingState) -> Parted:
    driver.state = state
    driver.entries *= 100
    return driver


def test_ordinary_cuts_pass_over_parts() -> None:
    driver = Parted()
    part = driver.open(driver.lanes[0])
    assert len(driver.cut({part[0]: 5}).keys) == 0
    assert driver.state.tail == 1


def test_publishing_again_gives_the_same_positions_whatever_the_parts() -> None:
    driver = Parted()
    first = driver.publish(3, driver.sealed(driver.lanes[0], 2))[1]
    again = driver.sealed(driver.lanes[0], 9)
    assert driver.publish(3, again) == [first]
    assert again[0] in driver.state.parts.by_lane
    assert driver.state.tail == 3


def test_an_older_key_and_another_owner_conflict() -> None:
    driver = Parted()
    driver.publish(3, driver.sealed(driver.lanes[0], 2), owner="a")
    known = Published("w", 3, "a", 1, 2)
    part = driver.sealed(driver.lanes[0], 1)
    assert driver.publish(2, part, owner="a") == [PublishConflicts(known)]
    assert driver.publish(3, part, owner="b") == [PublishConflicts(known)]
    assert driver.publish(4, part, owner="b")[1] == PartsPublished(Published("w", 4, "b", 3, 1))


def test_one_unfit_part_refuses_all() -> None:
    driver = Parted()
    good, unfinished, gone = (
        driver.sealed(driver.lanes[0], 2),
        driver.open(driver.lanes[1]),
        driver.open(driver.lanes[2]),
    )
    driver.apply(AbortParts((gone,)))
    assert driver.publish(1, good, gone, unfinished) == [PartsUnfit((gone[0],), (unfinished[0],))]
    assert driver.publish(1, (good[0], token(99))) == [PartsUnfit((good[0],), ())]
    assert driver.state.tail == 1
    assert driver.publish(1, good)[1] == PartsPublished(Published("w", 1, "", 1, 2))


def test_a_published_part_is_not_published_twice_nor_aborted() -> None:
    driver = Parted()
    part = driver.sealed(driver.lanes[0], 2)
    driver.publish(1, part)
    assert driver.publish(2, part) == [PartsUnfit((part[0],), ())]
    assert driver.apply(AbortParts((part,))) == []
    assert driver.state.lanes.ordered_length(part[0]) == 2


def test_an_aborted_part_is_gone() -> None:
    driver = Parted()
    part, other = driver.sealed(driver.lanes[0], 2), driver.sealed(driver.lanes[0], 2)
    assert driver.apply(AbortParts((part, (other[0], token(77))))) == [PartDropped(part[0])]
    assert driver.publish(1, part) == [PartsUnfit((part[0],), ())]
    assert other[0] in driver.state.parts.by_lane


def test_expiry_goes_by_the_orders_own_time() -> None:
    driver = Parted()
    early, late = driver.open(driver.lanes[0], time_us=100), driver.open(driver.lanes[0], time_us=200)
    assert driver.state.parts.next_until_us == 100 + TTL_US
    lanes = (early[0], late[0])
    assert driver.state.parts.due(100 + TTL_US) == (early[0],)
    assert driver.apply(ExpireParts(lanes, 99 + TTL_US)) == []
    assert driver.apply(ExpireParts(lanes, 100 + TTL_US)) == [PartDropped(early[0])]
    # A leader whose clock is behind changes nothing: the order's time has passed.
    assert driver.apply(ExpireParts(lanes, 5)) == []
    driver.cut({driver.lanes[0]: 1}, time_us=200 + TTL_US)
    assert driver.apply(ExpireParts(lanes, 5)) == [PartDropped(late[0])]


def test_the_same_token_again_is_the_same_part() -> None:
    driver = Parted()
    lane, known = driver.open(driver.lanes[0])
    assert lane.incarnation == PART_INCARNATION_MIN
    [again] = driver.apply(OpenPart(driver.lanes[1], known, TTL_US))
    assert isinstance(again, PartOpened)
    assert again.part.lane == lane


def test_a_start_of_the_replica_ends_its_unfinished_parts_alone() -> None:
    driver = Parted()
    home, peer = driver.lanes[:2]
    unfinished, finished, others = driver.open(home), driver.sealed(home, 3), driver.open(peer)
    outcomes = driver.apply(OpenLane(0, 0, 2))
    assert outcomes[0] == LaneClosed(home, 0)
    assert outcomes[-2:] == [PartDropped(unfinished[0]), TrimmedLog(1, (home,))]
    assert set(driver.state.parts.by_lane) == {finished[0], others[0]}
    assert driver.reason(OpenPart(home, token(50), TTL_US)) == "the lane is closed"
    assert isinstance(driver.publish(1, finished)[0], OrderedCut)
    driver.apply(CloseLane(peer))
    assert not driver.state.parts.by_lane


def test_finalizing_a_shard_ends_its_parts_and_a_trim_reclaims_it() -> None:
    driver = Parted()
    part, other = driver.sealed(driver.lanes[0], 3), driver.sealed(driver.lanes[2], 1)
    published = driver.sealed(driver.lanes[0], 2)
    driver.publish(1, published)
    driver.apply(Finalize(0, cuts=1))
    assert driver.reason(OpenPart(driver.lanes[0], token(50), TTL_US)) == "the shard is finalizing"
    outcomes = driver.publish(2, other)
    assert PartDropped(part[0]) in outcomes
    assert driver.publish(3, part) == [PartsUnfit((part[0],), ())]
    trimmed = driver.apply(TrimTo(driver.state.tail))
    assert isinstance(trimmed[0], TrimmedLog)
    assert published[0] in trimmed[0].lanes
    assert isinstance(trimmed[1], ViewChanged)
    assert trimmed[1].now is None
    assert other[0] in trimmed[0].lanes


def test_an_empty_part_and_no_part_at_all_are_published_without_records() -> None:
    driver = Parted()
    empty = driver.sealed(driver.lanes[0], 0)
    outcomes = driver.publish(1, empty)
    assert PartDropped(empty[0]) in outcomes
    assert outcomes[-1] == PartsPublished(Published("w", 1, "", 1, 0))
    assert driver.publish(2)[-1] == PartsPublished(Published("w", 2, "", 1, 0))
    assert empty[0] not in driver.state.lanes.closed


def test_a_seal_counts_in_the_configuration_it_was_made_for() -> None:
    driver = Parted()
    part = driver.open(driver.lanes[0])
    view = driver.state.view.version
    driver.apply(RemoveReplica(0, 1, 1))
    assert driver.reason(SealPart(*part, 3, driver.state.view.version)) == "the configuration has changed"
    driver.apply(AddReplica(0, 2, 2, driver.state.view.shards[0].replicas[0].address.__class__("h", 9)))
    assert driver.reason(SealPart(*part, 3, view)) == "the configuration has changed"
    assert driver.seal(part, 3) == [PartSealed(part[0], 3)]
    assert driver.seal(part, 3) == [PartSealed(part[0], 3)]
    assert driver.reason(SealPart(*part, 4, driver.state.view.version)) == "the part has another length"
    assert driver.reason(SealPart(part[0], token(9), 3, 99)) == "no such part"


def test_too_many_parts_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "PARTS_UNFINISHED_MAX", 1)
    monkeypatch.setattr(parts, "PARTS_MAX", 3)
    driver = Parted()
    part = driver.open(driver.lanes[0])
    assert driver.reason(OpenPart(driver.lanes[1], token(50), TTL_US)) == "too many parts"
    driver.seal(part, 1)
    driver.open(driver.lanes[1])
    driver.open(driver.lanes[2])
    assert driver.reason(OpenPart(driver.lanes[0], token(51), TTL_US)) == "too many parts"


def test_published_parts_of_a_shard_are_bounded_until_they_are_trimmed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "PARTS_PUBLISHED_MAX", 1)
    driver = Parted()
    driver.publish(1, driver.sealed(driver.lanes[0], 2), driver.sealed(driver.lanes[0], 0))
    assert driver.reason(OpenPart(driver.lanes[1], token(50), TTL_US)) == "too many published parts"
    driver.open(driver.lanes[2])
    driver.state = OrderingState.restored(driver.state.snapshot())
    assert driver.reason(OpenPart(driver.lanes[1], token(50), TTL_US)) == "too many published parts"
    driver.apply(TrimTo(3))
    driver.open(driver.lanes[1])


def test_a_new_writer_is_refused_when_all_places_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writers, "WRITERS_MAX", 2)
    driver = Parted()
    part = driver.sealed(driver.lanes[0], 2)
    for writer in ("a", "b", "a"):
        driver.apply(Publish(writer, len(driver.entries), "", ()))
    assert driver.apply(Publish("c", 1, "", (part,))) == [RefusedEntry(Publish("c", 1, "", ()), "too many writers")]
    assert driver.apply(Publish("c", 1, "", ((part[0], token(99)),))) == [PartsUnfit((part[0],), ())]
    assert list(driver.state.parts.writers.by_name) == ["b", "a"]
    driver.apply(ForgetWriter("b", driver.state.parts.writers.by_name["b"].key))
    assert PartsPublished(Published("c", 1, "", 1, 2)) in driver.apply(Publish("c", 1, "", (part,)))


def test_writers_are_forgotten_by_name_and_by_age() -> None:
    driver = Parted()
    for number, writer in enumerate(("a", "b", "c"), 1):
        driver.apply(Publish(writer, 1, "", (), number * 10))
    a, b, c = (Published(writer, 1, "", 1, 0) for writer in ("a", "b", "c"))
    assert driver.reason(ForgetWriter("d", 1)) == "no such writer"
    assert driver.reason(ForgetWriter("a", 0)) == "the writer has published since"
    assert driver.apply(ForgetWriter("a", 1)) == [WriterForgotten(a)]
    driver.state = OrderingState.restored(driver.state.snapshot())
    assert driver.state.parts.writers.idle_since(20) == [b]
    assert driver.apply(ForgetWriters((("b", 0), ("b", 1), ("c", 1), ("d", 1)), 20, 40)) == [WriterForgotten(b)]
    assert driver.state.parts.writers.by_name == {"c": c}


def test_the_time_of_a_writer_from_an_earlier_version_begins_when_it_is_asked_for() -> None:
    driver = Parted()
    driver.apply(Publish("a", 1, "", ()))
    entry = ForgetWriters((("a", 1),), 50, 60)
    assert driver.apply(entry) == []
    assert driver.apply(entry) == []
    assert driver.apply(ForgetWriters((("a", 1),), 60, 70)) == [WriterForgotten(Published("a", 1, "", 1, 0))]


def test_without_a_writer_nothing_is_remembered_but_where_the_parts_are() -> None:
    driver = Parted()
    driver.cut({driver.lanes[0]: 4})
    two, three, other = (driver.sealed(driver.lanes[at], length) for at, length in ((3, 2), (0, 3), (1, 1)))
    once = Publish("", 0, "", (two, three))
    assert driver.apply(once)[1] == PartsPublished(Published("", 0, "", 5, 5))
    driver.state = OrderingState.restored(driver.state.snapshot())
    assert driver.apply(once) == [PartsPublished(Published("", 0, "", 5, 5))], "a retry gets the same answer"
    assert driver.state.tail == 10
    assert not driver.state.parts.writers.by_name
    assert driver.apply(Publish("", 0, "", (three, two))) == [PartsUnfit((three[0], two[0]), ())]
    assert driver.apply(Publish("", 0, "", (two, other))) == [PartsUnfit((two[0],), ())]
    assert driver.apply(Publish("", 0, "", (other,)))[1] == PartsPublished(Published("", 0, "", 10, 1))
    driver.apply(TrimTo(10))
    assert driver.apply(once) == [PartsUnfit((two[0], three[0]), ())], "once they are trimmed nobody knows"


def test_a_part_that_is_renewed_expires_later_and_one_that_is_not_in_time() -> None:
    driver = Parted()
    renewed, left = driver.open(driver.lanes[0]), driver.open(driver.lanes[1])
    stranger = (renewed[0], token(77))
    assert driver.apply(RenewParts((renewed, stranger), TTL_US, 9_000_000)) == [PartsRenewed((renewed[0],))]
    driver.apply(RenewParts((renewed,), 1_000_000, 9_000_000))
    assert driver.state.parts.by_lane[renewed[0]].until_us == 9_000_000 + TTL_US, "never sooner"
    lanes = (renewed[0], left[0])
    assert driver.apply(ExpireParts(lanes, TTL_US)) == [PartDropped(left[0])]
    assert driver.apply(ExpireParts(lanes, TTL_US + 8_999_999)) == []
    assert driver.apply(ExpireParts(lanes, TTL_US + 9_000_000)) == [PartDropped(renewed[0])]


def test_the_leader_seals_what_f_plus_one_replicas_have_synced() -> None:
    driver = Parted()
    lane, known = driver.open(driver.lanes[0])
    part = driver.state.parts.by_lane[lane]
    leader = CutProposer(driver.state)
    leader.receive(report(0, 0, {lane: 5}))
    assert leader.seal(part, 5) is None
    leader.receive(report(0, 1, {lane: 3}))
    assert leader.seal(part, 5) is None
    with pytest.raises(InvalidInput, match="has 3 records: it cannot be finished with 2"):
        leader.seal(part, 2)
    leader.receive(report(0, 1, {lane: 5}))
    entry = leader.seal(part, 5)
    assert entry == SealPart(lane, known, 5, driver.state.view.version)
    leader.applied(driver.apply(entry), own=True)


def test_late_reports_of_parts_are_not_kept() -> None:
    driver = Parted()
    lane = driver.sealed(driver.lanes[0], 5)[0]
    reports = Reports(driver.state)
    for replica in (0, 1):
        reports.receive(report(0, replica, {driver.lanes[0]: 3, lane: 5}))
    assert reports.durable_length(lane) == 0
    assert reports.durable_length(driver.lanes[0]) == 3


def test_a_publication_is_no_cut_of_the_leaders_pipeline() -> None:
    driver = Parted()
    part = driver.sealed(driver.lanes[0], 2)
    leader = CutProposer(driver.state)
    leader.applied(driver.publish(1, part), own=True)
    for length in range(1, 10):
        for replica in (0, 1):
            leader.receive(report(0, replica, {driver.lanes[0]: length}))
        if leader.propose(length, length) is None:
            break
    assert length == 5, "as many cuts are in flight as without it"


def test_a_learner_needs_the_sealed_parts_too() -> None:
    driver = Parted()
    part = driver.sealed(driver.lanes[0], 2)
    driver.apply(RemoveReplica(0, 1, 1))
    leader = CutProposer(driver.state)
    lengths = dict.fromkeys(driver.lanes[:2], 0)
    leader.receive(report(0, 2, lengths, epoch=2))
    assert not leader.has_caught_up(0, 2)
    leader.receive(report(0, 2, lengths | {part[0]: 2}, epoch=2))
    assert leader.has_caught_up(0, 2)


def test_a_renewal_that_says_no_time_counts_from_the_time_that_the_order_has() -> None:
    driver = Parted()
    part = driver.open(driver.lanes[0])
    driver.apply(RenewParts((part,), 2 * TTL_US))
    assert driver.state.parts.by_lane[part[0]].until_us == driver.state.time_us + 2 * TTL_US


def test_how_many_numbers_of_parts_a_replica_has_used() -> None:
    driver = Parted()
    assert driver.state.parts.numbers_most == 0
    for home in (driver.lanes[0], driver.lanes[1], driver.lanes[0]):
        driver.open(home)
    assert driver.state.parts.numbers_most == 2
